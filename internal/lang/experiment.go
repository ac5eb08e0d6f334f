package lang

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
)

// Bounds of an experiment's numbers. dnsperf opens at most 256 sockets a
// thread and adjusts a larger number by itself, so that the treatment would
// not be the one that was asked for.
const (
	maxSockets    = 256
	maxQueries    = 10_000_000
	maxIterations = 10_000
	maxRate       = 1e9
	maxRuns       = 1_000_000
	maxLoadWait   = time.Hour

	// maxEqualWithin is far above any factor that deserves the word equal.
	maxEqualWithin = 100

	// maxStartWithin is far above any start that deserves the word together.
	maxStartWithin = time.Minute
)

// DefaultStartWithin is the bound on how far apart the clients of a run may begin,
// where the experiment states none. Guests that are emulated on a busy host begin up to
// some tenths of a second apart.
const DefaultStartWithin = time.Second

func (e *evaluator) experiment(t *Topology, b *block) Experiment {
	r := e.reader(b, nil)
	x := Experiment{
		Noun: r.noun, Range: b.rng, Service: r.handle("service", addr.Service), Clients: r.handles("clients", addr.Client),
		Iterations:  int(r.whole("iterations", 1, 1, maxIterations)),
		Seed:        r.whole("seed", 1, math.MinInt64, math.MaxInt64),
		Capture:     r.flag("capture", false),
		Collapse:    r.flag("collapse", false),
		StartWithin: r.duration("start_within", 0, time.Millisecond, maxStartWithin),
		EqualWithin: r.real("equal_within", 0, 1, maxEqualWithin),
		Isolation:   r.oneOf("isolation", IsolationFlush, IsolationFlush, IsolationRestore, IsolationRestoreAll),
	}
	protocol := defaultProtocol
	if s, ok := t.Service(x.Service); ok {
		protocol = s.Protocol
	}
	for i, lb := range b.sub("load") {
		x.Load = r.sub(lb, i).load(protocol)
	}
	for i, cb := range b.sub("controls") {
		cr := r.sub(cb, i)
		x.Controls = &Controls{AA: cr.flag("aa", false), Direct: cr.flag("direct", false), Rotate: cr.flag("rotate", false)}
	}
	first := map[string]bool{}
	for i, fb := range b.sub("factor") {
		fr := r.sub(fb, i)
		if first[fb.label] {
			fr.complain("", "Factor twice", "Put all values into one.", "%s has two factors %q.", r.noun, fb.label)
		}
		first[fb.label] = true
		x.Factors = append(x.Factors, fr.factor())
	}
	if b.args["isolation"] == nil && first[FactorKernel] {
		x.Isolation = IsolationRestore
	}
	return x
}

func (r *reader) load(protocol string) Load {
	l := Load{Kind: r.b.label, Range: r.b.rng}
	if !slices.Contains(LoadKinds, l.Kind) {
		r.complain("", "Unknown load generator", suggest(l.Kind, LoadKinds, "Generators are"), "There is no load %q.", l.Kind)
	}
	l.Queries = int(r.whole("queries", 1000, 1, maxQueries))
	l.Sockets, l.Fresh = r.sockets(l.Kind)
	r.own(&l)
	l.Timeout = r.duration("timeout", 5*time.Second, time.Millisecond, maxLoadWait)
	l.Rate = r.real("rate", 0, 0, maxRate)
	l.Protocol = r.oneOf("protocol", protocol, "udp", "tcp")
	return l
}

// factorKind describes the values of one factor.
type factorKind struct {
	want  string // for messages
	check func(v cty.Value) (cty.Value, string)
}

// factorKinds is the closed list of LANGUAGE: each overrides one argument.
var factorKinds = map[string]factorKind{
	"scheduler": {"the name of a scheduler", func(v cty.Value) (cty.Value, string) {
		return asText(v, func(s string) string {
			_, remedy, detail := badScheduler(s)
			if detail == "" {
				return ""
			}
			return detail + "\x00" + remedy
		})
	}},
	"one_packet": {"true or false", func(v cty.Value) (cty.Value, string) { return converted(v, cty.Bool) }},
	"sockets":    {`a whole number from 1 to 256, or "fresh"`, socketsValue},
	"queries":    {"a whole number, 1 or more", wholeValue(1, maxQueries)},
	"clients":    {"a whole number, 1 or more", wholeValue(1, maxInstances)},
	"vips":       {"a whole number, 1 or more", wholeValue(1, maxInstances)},
	"rate":       {"queries a second, 0 for no limit", rateValue},
	"weights":    {"a list of weights in the order of the real servers", weightsValue},
	"order":      {`"declared", "reversed" or a list of indexes`, orderValue},
	"timeout": {`whole seconds, for example "300s"`, func(v cty.Value) (cty.Value, string) {
		return asText(v, func(s string) string {
			d, why := parseDuration(s, 0, maxTimeout)
			if why == "" {
				why = badSeconds(d)
			}
			return why
		})
	}},
	"protocol": {`"udp" or "tcp"`, func(v cty.Value) (cty.Value, string) {
		return asText(v, func(s string) string {
			if s != "udp" && s != "tcp" {
				return fmt.Sprintf("there is no %q", s)
			}
			return ""
		})
	}},
	"flags":      {"a list of scheduler flags", flagsValue},
	FactorKernel: {"an image block, as in [image.old, image.new]", kernelValue},
}

// FactorNames are the names of all factors.
func FactorNames() []string { return sortedKeys(factorKinds) }

func (r *reader) factor() Factor {
	f := Factor{Name: r.b.label, Range: r.b.rng}
	kind, ok := factorKinds[f.Name]
	if !ok {
		r.complain("", "Unknown factor", suggest(f.Name, FactorNames(), "Factors are"), "There is no factor %q.", f.Name)
	}
	if r.b.args["values"] == nil {
		return f
	}
	res := r.raw("values")
	if !res.ok || !r.e.known(res, "values of "+r.owner("values")) {
		r.fail("values")
		return f
	}
	v, _ := res.val.UnmarkDeep()
	ty := v.Type()
	if v.IsNull() || !(ty.IsListType() || ty.IsTupleType() || ty.IsSetType()) {
		r.complain("values", "Wrong type", "Write values = […].", "values of %s is %s.", r.owner("values"), render(v))
		return f
	}
	for i, ev := range v.AsValueSlice() {
		if !ok {
			break
		}
		got, why := kind.check(ev)
		if why != "" {
			detail, remedy, _ := cutRemedy(why, "Each value is "+kind.want+".")
			r.complain("values", "Bad value of a factor", remedy, "Value %d of %s is %s: %s.", i, r.owner("values"), render(ev), detail)
			continue
		}
		for _, before := range f.Values {
			if before.RawEquals(got) {
				r.complain("values", "Value twice", "Remove one of the two; iterations repeat treatments.", "%s has the value %s twice.", r.owner("values"), render(got))
			}
		}
		f.Values = append(f.Values, got)
	}
	if v.LengthInt() == 0 {
		r.complain("values", "No values", "Give at least one.", "%s has no values.", r.owner("values"))
	}
	return f
}
