package lang

import (
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// Defaults of arguments that are left out.
const (
	defaultPort      = 53
	defaultProtocol  = "udp"
	defaultScheduler = "wlc" // ipvsadm's default
	defaultForward   = "tunnel"
	defaultTunnel    = "ipip"
	defaultChecksum  = "none" // ipvsadm's default, too
	defaultMTU       = 1500
	defaultMemory    = 256 << 20 // what every measured lab ran with
	defaultTTL       = 300
	// guePort is the UDP port that IANA gave to GUE.
	guePort    = 6080
	defaultURI = "embedded"
)

// reader reads the arguments of one instance of one block, or of a block
// inside it. What goes wrong is reported once and makes the noun broken, so
// that later rules do not stumble over it.
type reader struct {
	e    *evaluator
	b    *block
	in   *Config // the module that the block stands in
	inst *instance
	noun addr.Noun
	path string           // "" or nic[0]. and the like
	ctx  *hcl.EvalContext // of a list that is read element by element
}

func (e *evaluator) reader(b *block, inst *instance) *reader {
	noun := b.noun
	if inst != nil {
		noun = noun.At(inst.key)
	}
	r := &reader{e: e, b: b, in: b.in, inst: inst, noun: noun}
	r.inherit()
	return r
}

// inherit takes over what the grammar found wrong with the block.
func (r *reader) inherit() {
	if r.b.broken {
		r.e.defects.nouns[r.noun] = true
	}
	for name := range r.b.meant {
		r.e.defects.args[r.place(name)] = true
	}
}

// sub reads a nested block.
func (r *reader) sub(b *block, index int) *reader {
	n := *r
	n.b, n.path = b, fmt.Sprintf("%s%s[%d].", r.path, b.spec.name, index)
	n.inherit()
	return &n
}

// owner names the block for messages about an argument: the instance when the
// argument depends on it, else the whole block, so that one mistake of a
// counted block is told once.
func (r *reader) owner(arg string) string {
	if r.noun.IsZero() {
		return r.b.title()
	}
	if r.path == "" {
		return r.shown(arg).String()
	}
	return r.b.title() + " of " + r.shown(arg).String()
}

// shown is the noun that a message about the argument should name.
func (r *reader) shown(arg string) addr.Noun {
	if a := r.b.args[arg]; a != nil {
		if info := r.e.c.info[a.Expr]; info != nil {
			for _, ref := range info.refs {
				if ref.root == "each" || ref.root == "count" {
					return r.noun
				}
			}
		}
	}
	return r.noun.Block()
}

// fail notes that an argument has no right value; "" means the block.
func (r *reader) fail(arg string) {
	r.e.defects.nouns[r.noun] = true
	r.e.defects.args[r.place(arg)] = true
}

// place is the key of [Topology.Places].
func (r *reader) place(arg string) string { return r.noun.String() + "/" + r.path + arg }

// value evaluates an argument. given is false when it is absent, null, or wrong.
func (r *reader) value(arg string, want cty.Type) (v cty.Value, given bool) {
	a := r.b.args[arg]
	if a == nil {
		return cty.NilVal, false
	}
	res := r.raw(arg)
	v, ok := r.e.as(res, want, arg, r.owner(arg))
	if !ok {
		r.fail(arg)
		return cty.NilVal, false
	}
	v, _ = v.UnmarkDeep()
	return v, !v.IsNull()
}

// raw evaluates an argument without a wish for its type, and notes its place.
func (r *reader) raw(arg string) result {
	a := r.b.args[arg]
	spec, _ := r.b.spec.arg(arg)
	res := r.e.eval(a.Expr, site{phase: spec.phase, inst: r.inst, handle: spec.handle, in: r.in})
	r.e.places[r.place(arg)] = a.Expr.Range()
	if vals := involved(a.Expr, res.ctx); len(vals) > 0 {
		r.e.values[r.place(arg)] = vals
	}
	if !res.ok {
		r.fail(arg)
	}
	return res
}

// complain reports a bad value of an argument.
func (r *reader) complain(arg, summary, remedy, format string, args ...any) {
	r.fail(arg)
	for i, a := range args {
		if n, ok := a.(addr.Noun); ok && n == r.noun {
			args[i] = r.shown(arg)
		}
	}
	d := diag.Errorf(summary, remedy, format, args...)
	if a := r.b.args[arg]; a != nil {
		d = d.At(a.Expr.Range())
		whole := hcl.RangeBetween(a.NameRange, a.Expr.Range())
		d.Context = &whole
	} else {
		d = d.At(r.b.rng)
	}
	d.Values = r.e.values[r.place(arg)]
	if !r.noun.IsZero() {
		d = d.For(r.shown(arg).String())
	}
	d.Detail, d.Remedy = r.e.redact(d.Detail), r.e.redact(d.Remedy)
	r.e.problems.add(d)
}

func (r *reader) text(arg, def string) string {
	if v, ok := r.value(arg, cty.String); ok {
		return v.AsString()
	}
	return def
}

func (r *reader) flag(arg string, def bool) bool {
	if v, ok := r.value(arg, cty.Bool); ok {
		return v.True()
	}
	return def
}

// oneOf reads a text out of a closed list.
func (r *reader) oneOf(arg, def string, allowed ...string) string {
	s := r.text(arg, def)
	if s != def && !slices.Contains(allowed, s) {
		r.complain(arg, "Unknown value", suggest(s, allowed, "Write"), "%s of %s cannot be %q.", arg, r.owner(arg), s)
		return def
	}
	return s
}

// whole reads a whole number within bounds.
func (r *reader) whole(arg string, def, low, high int64) int64 {
	v, ok := r.value(arg, cty.Number)
	if !ok {
		return def
	}
	n, acc := v.AsBigFloat().Int64()
	if acc != big.Exact || n < low || n > high {
		remedy := fmt.Sprintf("Give a whole number from %d to %d.", low, high)
		if low == math.MinInt64 {
			remedy = "Give a whole number."
		}
		r.complain(arg, "Number out of range", remedy, "%s of %s is %s.", arg, r.owner(arg), render(v))
		return def
	}
	return n
}

// real reads any number within bounds.
func (r *reader) real(arg string, def, low, high float64) float64 {
	v, ok := r.value(arg, cty.Number)
	if !ok {
		return def
	}
	f, _ := v.AsBigFloat().Float64()
	if f < low || f > high {
		r.complain(arg, "Number out of range", fmt.Sprintf("Give a number from %.0f to %.0f.", low, high), "%s of %s is %s.", arg, r.owner(arg), render(v))
		return def
	}
	return f
}

func (r *reader) texts(arg string) []string {
	v, ok := r.value(arg, cty.List(cty.String))
	if !ok {
		return nil
	}
	var out []string
	for i, ev := range v.AsValueSlice() {
		if ev.IsNull() {
			r.complain(arg, "Null in a list", "Leave nulls out; compact(…) does so.", "Element %d of %s is null.", i, arg)
			return nil
		}
		out = append(out, ev.AsString())
	}
	return out
}

// duration reads "300s" or "2ms", within bounds.
func (r *reader) duration(arg string, def, low, high time.Duration) time.Duration {
	v, ok := r.value(arg, cty.String)
	if !ok {
		return def
	}
	s := v.AsString()
	d, why := parseDuration(s, low, high)
	if why != "" {
		r.complain(arg, "Not a duration", `Write a number with a unit: "300s", "2ms", "5m".`, "%s of %s is %q: %s.", arg, r.owner(arg), s, why)
		return def
	}
	return d
}

func (r *reader) address(arg string) netip.Addr {
	v, ok := r.value(arg, cty.String)
	if !ok {
		return netip.Addr{}
	}
	return r.parseAddress(arg, v.AsString())
}

func (r *reader) parseAddress(arg, s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil && hasPrefixLength(s):
		r.complain(arg, "Not an address", "Leave the prefix length out: it follows from the network.", "%s of %s is %q.", arg, r.owner(arg), s)
	case err != nil:
		r.complain(arg, "Not an address", "Write an address, for example 198.18.0.20 or fd00:18::20.", "%s of %s is %q.", arg, r.owner(arg), s)
	case a.Is4In6() || a.Zone() != "":
		r.complain(arg, "Not an address", "Write it plainly, without a zone, and IPv4 as IPv4.", "%s of %s is %q.", arg, r.owner(arg), s)
	default:
		return a
	}
	return netip.Addr{}
}

func hasPrefixLength(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// handles and handle read blocks.
func (r *reader) handles(arg string, kinds ...addr.Kind) []addr.Noun {
	if r.b.args[arg] == nil {
		return nil
	}
	nouns, ok := r.e.handles(r.raw(arg), arg, r.owner(arg), kinds...)
	if !ok {
		r.fail(arg)
	}
	return nouns
}

func (r *reader) handle(arg string, kinds ...addr.Kind) addr.Noun {
	if r.b.args[arg] == nil {
		return addr.Noun{}
	}
	res := r.raw(arg)
	if spec, _ := r.b.spec.arg(arg); !spec.required && res.ok && res.val.IsNull() {
		return addr.Noun{} // as if it were left out
	}
	n, ok := r.e.handle(res, arg, r.owner(arg), kinds...)
	if !ok {
		r.fail(arg)
	}
	return n
}
