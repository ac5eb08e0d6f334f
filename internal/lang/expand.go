package lang

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// maxInstances bounds a block's count: a typing error must not eat the
// machine's memory. Some dozens of VMs are more than most hosts carry.
const maxInstances = 256

// maxBlocks bounds all instances together: modules with a count multiply what
// is in them.
const maxBlocks = 8192

// instance is one of a block's instances, with what each and count yield.
type instance struct {
	block *block
	key   addr.Key
	value cty.Value // each.value; NilVal without for_each
}

// expansion is how many instances a block has, and which.
type expansion struct {
	instances []instance
	ok        bool
	unknown   bool // in a sketch: the number depends on something not known
}

// expand finds a block's instances (phase 1).
func (e *evaluator) expand(b *block) *expansion {
	if ex, done := e.expanded[b]; done {
		return ex
	}
	what := b.noun.String()
	arg := "count"
	if b.mode() == byKey {
		arg = "for_each"
		if b.args[arg] == nil {
			arg = "to"
		}
	}
	ex := &expansion{}
	e.node(what+"."+arg, 0, b.rng, func() result {
		*ex = e.expandNow(b, arg)
		return result{ok: ex.ok}
	})
	if !slices.Contains(e.stack, what+"."+arg) { // inside a cycle the outer call decides
		e.expanded[b] = ex
		if !ex.ok {
			e.defects.nouns[b.noun] = true
		}
	}
	return ex
}

func (e *evaluator) expandNow(b *block, arg string) expansion {
	switch {
	case b.mode() == single:
		return expansion{ok: true, instances: []instance{{block: b}}}
	case arg == "to" && b.args["to"] == nil: // reported as missing
		return expansion{}
	}
	r := e.eval(b.args[arg].Expr, site{phase: phaseNames, handle: arg == "to", in: b.in})
	if !r.ok {
		return expansion{}
	}
	if e.sketch && !r.val.IsWhollyKnown() && arg != "to" {
		if v, _ := r.val.Unmark(); !v.IsKnown() || arg == "count" {
			return expansion{ok: true, unknown: true}
		}
	}
	switch arg {
	case "count":
		return e.expandCount(b, r)
	case "for_each":
		return e.expandEach(b, r)
	}
	return e.expandEnds(b, r)
}

func (e *evaluator) expandCount(b *block, r result) expansion {
	v, ok := e.as(r, cty.Number, "count", b.title())
	if !ok {
		return expansion{}
	}
	v, marks := v.Unmark()
	if len(marks) > 0 {
		e.problems.add(diag.Errorf("Impossible count", "Use a value that is not sensitive, or nonsensitive(…).",
			"count of %s is sensitive, but everybody sees how many there are.", b.title()).At(r.expr.Range()))
		return expansion{}
	}
	n := int64(-1)
	if !v.IsNull() {
		if i, acc := v.AsBigFloat().Int64(); acc == 0 {
			n = i
		}
	}
	if n < 0 || n > maxInstances {
		d := diag.Errorf("Impossible count", fmt.Sprintf("Give a whole number from 0 to %d.", maxInstances), "count of %s is %s.", b.title(), render(v)).At(r.expr.Range())
		d.Values = involved(r.expr, r.ctx)
		e.problems.add(d)
		return expansion{}
	}
	ex := expansion{ok: true}
	for i := range int(n) {
		ex.instances = append(ex.instances, instance{block: b, key: addr.Index(i)})
	}
	return ex
}

// expandEach takes a map, an object, or a set of texts. The order is that of
// the keys.
func (e *evaluator) expandEach(b *block, r result) expansion {
	v, marks := r.val.Unmark()
	ty := v.Type()
	bad := func(why, remedy string) expansion {
		d := diag.Errorf("Impossible for_each", remedy, "for_each of %s %s.", b.title(), why).At(r.expr.Range())
		d.Values = involved(r.expr, r.ctx)
		e.problems.add(d)
		return expansion{}
	}
	isMap := ty.IsMapType() || ty.IsObjectType()
	switch {
	case len(marks) > 0:
		return bad("is sensitive, but its keys become names that everybody sees", "Use a value that is not sensitive, or nonsensitive(…).")
	case v.IsNull():
		return bad("is null", "Give a map or a set of texts; an empty one makes no instances.")
	case !v.IsKnown():
		e.known(r, "for_each of "+b.title())
		return expansion{}
	case ty.IsTupleType() || ty.IsListType():
		return bad("is a list", "Write toset([…]) around it.")
	case !isMap && !(ty.IsSetType() && (ty.ElementType() == cty.String || v.LengthInt() == 0)):
		return bad("is a "+ty.FriendlyName(), "Give a map or a set of texts.")
	case !isMap && !v.IsWhollyKnown():
		e.known(r, "for_each of "+b.title())
		return expansion{}
	}
	ex := expansion{ok: true}
	for it := v.ElementIterator(); it.Next(); {
		k, ev := it.Element()
		if !isMap {
			if ev.IsNull() {
				return bad("holds a null", "Leave nulls out.")
			}
			k = ev
		}
		name, _ := k.Unmark()
		if why := badKey(name.AsString()); why != "" {
			return bad(fmt.Sprintf("has the key %s, which %s", render(name), why), "Use short printable keys.")
		}
		ex.instances = append(ex.instances, instance{block: b, key: addr.Name(name.AsString()), value: ev})
	}
	if len(ex.instances) > maxInstances {
		return bad(fmt.Sprintf("has %d keys", len(ex.instances)), fmt.Sprintf("%d are possible.", maxInstances))
	}
	return ex
}

// badKey keeps keys fit for being part of names and messages.
func badKey(s string) string {
	if s == "" {
		return "is empty"
	}
	if len(s) > maxLabel {
		return fmt.Sprintf("has %d bytes", len(s))
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return "holds a control character"
		}
	}
	return ""
}

// expandEnds makes one tunnel for each machine at the far end, keyed by its address.
func (e *evaluator) expandEnds(b *block, r result) expansion {
	if e.sketch && !r.val.IsKnown() {
		return expansion{ok: true, unknown: true}
	}
	nouns, ok := e.handles(r, "to", b.title(), addr.Backend)
	if !ok {
		return expansion{}
	}
	ex := expansion{ok: true}
	seen := map[addr.Noun]bool{}
	for _, n := range nouns {
		if !seen[n] {
			ex.instances = append(ex.instances, instance{block: b, key: addr.Name(n.String())})
		}
		seen[n] = true
	}
	return ex
}

// handles reads a value as blocks: one, or a list, set or map of them.
func (e *evaluator) handles(r result, argument, owner string, kinds ...addr.Kind) ([]addr.Noun, bool) {
	if !r.ok {
		return nil, false
	}
	var out []addr.Noun
	var collect func(v cty.Value) bool
	collect = func(v cty.Value) bool {
		v, _ = v.Unmark()
		if n, ok := handleOf(v); ok {
			out = append(out, n)
			return containsKind(kinds, n.Kind)
		}
		ty := v.Type()
		if v.IsNull() || !v.IsKnown() || isHandleType(ty) || !(ty.IsCollectionType() || ty.IsTupleType() || ty.IsObjectType()) {
			return false
		}
		for it := v.ElementIterator(); it.Next(); {
			if _, ev := it.Element(); !collect(ev) {
				return false
			}
		}
		return true
	}
	if collect(r.val) {
		return out, true
	}
	if e.sketch && !r.val.IsKnown() {
		return nil, false
	}
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	d := diag.Errorf("A block is expected", blockRemedy(r.val, names), "%s of %s must be %s block, but is %s.", argument, owner,
		article(enumerate(names, "or")), render(r.val)).At(r.expr.Range())
	d.Values = involved(r.expr, r.ctx)
	e.problems.add(d)
	return nil, false
}

func containsKind(kinds []addr.Kind, k addr.Kind) bool {
	for _, x := range kinds {
		if x == k {
			return true
		}
	}
	return false
}

// blockRemedy: the usual mistake is an address in quotes.
func blockRemedy(v cty.Value, kinds []string) string {
	if v, _ := v.Unmark(); v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
		if n, err := addr.ParseNoun(v.AsString()); err == nil && slices.Contains(kinds, string(n.Kind)) {
			return fmt.Sprintf("Write %s without quotes.", n)
		}
	}
	return fmt.Sprintf("Name the block, for example %s.NAME.", kinds[0])
}

// handle reads exactly one block.
func (e *evaluator) handle(r result, argument, owner string, kinds ...addr.Kind) (addr.Noun, bool) {
	nouns, ok := e.handles(r, argument, owner, kinds...)
	if !ok {
		return addr.Noun{}, false
	}
	if len(nouns) != 1 {
		remedy := "Pick one of them with an index, for example [0]."
		if len(nouns) == 0 {
			remedy = "Raise its count."
		}
		d := diag.Errorf("One block is expected", remedy, "%s of %s must be one block, but is %s, which are %d.", argument, owner, render(r.val), len(nouns)).At(r.expr.Range())
		d.Values = involved(r.expr, r.ctx)
		e.problems.add(d)
		return addr.Noun{}, false
	}
	return nouns[0], true
}
