package lang

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// result is an evaluated expression. When ok is false its mistake, or that of
// something it depends on, was reported: whoever uses it keeps silent.
type result struct {
	val  cty.Value
	ok   bool
	expr hclsyntax.Expression
	ctx  *hcl.EvalContext
}

// site is where an expression is evaluated.
type site struct {
	phase phase
	inst  *instance
	in    *Config // the module; nil = the root
	// handle says that a block is expected: whole references create no edge.
	handle bool
}

// evaluator evaluates on demand: a value is computed when somebody asks, once,
// and whoever asks for itself on the way has found a cycle.
type evaluator struct {
	c         *Config
	problems  problems
	vars      map[string]result
	expanded  map[*block]*expansion
	addresses map[string]netip.Addr // nil before addresses are assigned
	results   *Results
	latest    phase // how far this evaluator may go
	// sketch: an earlier step found errors; this one only looks for more, and
	// what is not known is no error.
	sketch  bool
	memo    map[string]result
	fixed   map[fixedAt]result
	stack   []string
	defects defects
	places  map[string]diag.Range
	values  map[string][]diag.Value
	slots   map[addr.Noun][]nicSlot
	vipsOf  map[addr.Noun][]netip.Addr
	// secrets are the texts of sensitive variables that have been evaluated.
	secrets []string
	modules map[*block]map[addr.Key]*Config // by the blocks that call them
	all     []*Config                       // see configs
}

func newEvaluator(c *Config, latest phase) *evaluator {
	return &evaluator{
		c: c, latest: latest, vars: map[string]result{}, expanded: map[*block]*expansion{}, memo: map[string]result{}, fixed: map[fixedAt]result{},
		defects: newDefects(), places: map[string]diag.Range{}, values: map[string][]diag.Value{},
	}
}

// node evaluates a named thing once. A cycle is named whole.
func (e *evaluator) node(name string, at phase, rng hcl.Range, compute func() result) result {
	id := fmt.Sprint(at, " ", name) // a local is another value in a later phase, when more is known
	if r, ok := e.memo[id]; ok {
		return r
	}
	for i, open := range e.stack {
		if open == name {
			path := append(append([]string{}, e.stack[i:]...), name)
			e.problems.add(diag.Errorf("Cycle", "Break the circle: give one of them a value of its own.",
				"Each of these needs the next: %s.", strings.Join(path, " → ")).At(rng))
			return result{val: cty.DynamicVal}
		}
	}
	e.stack = append(e.stack, name)
	r := compute()
	e.stack = e.stack[:len(e.stack)-1]
	e.memo[id] = r
	return r
}

// eval evaluates an expression at its place. Unknown values are passed on.
func (e *evaluator) eval(expr hclsyntax.Expression, s site) result {
	failed := result{val: cty.DynamicVal, expr: expr}
	info := e.c.info[expr]
	if info == nil || info.bad {
		return failed
	}
	at := fixedAt{expr, s.phase, s.in, s.handle}
	if r, known := e.fixed[at]; known {
		return r
	}
	ctx, ok := e.scope(info.refs, s)
	if !ok {
		return failed
	}
	v, ds := expr.Value(ctx)
	if ds.HasErrors() {
		e.problems.add(hclProblems(ds, expr, ctx)...)
		return result{val: cty.DynamicVal, expr: expr, ctx: ctx}
	}
	if s.phase == phaseResults && e.results == nil {
		if ds, in := inLoops(expr, ctx); ds.HasErrors() {
			e.problems.add(hclProblems(ds, expr, in)...)
			return result{val: cty.DynamicVal, expr: expr, ctx: ctx}
		}
	}
	r := result{val: v, ok: true, expr: expr, ctx: ctx}
	if !ofInstance(info.refs) {
		e.fixed[at] = r
	}
	return r
}

// fixedAt is where an expression has one value for all instances of its block.
// Each of a thousand tunnels names the same thousand backends.
type fixedAt struct {
	expr   hclsyntax.Expression
	phase  phase
	in     *Config
	handle bool
}

// ofInstance reports whether an expression looks at count or each.
func ofInstance(refs []ref) bool {
	for _, r := range refs {
		if r.root == "count" || r.root == "each" {
			return true
		}
	}
	return false
}

// scope gathers what the references need, and nothing else.
func (e *evaluator) scope(refs []ref, s site) (*hcl.EvalContext, bool) {
	ok := true
	roots := map[string]map[string]cty.Value{}
	put := func(root, name string, r result) {
		if roots[root] == nil {
			roots[root] = map[string]cty.Value{}
		}
		roots[root][name] = r.val
		ok = ok && r.ok
	}
	in := e.scopeOf(s)
	needs := map[addr.Noun]*need{}
	for _, r := range refs {
		switch r.root {
		case "var":
			put("var", r.name, e.variable(in, r.name, s.phase))
		case "local":
			put("local", r.name, e.local(in, r.name, s.phase))
		case "lab":
			put("lab", "name", result{val: cty.StringVal(e.c.labName()), ok: true})
		case "count", "each":
			e.iterator(put, s)
		default:
			if needs[r.noun()] == nil {
				needs[r.noun()] = &need{attrs: map[string]bool{}}
			}
			needs[r.noun()].add(r, s)
		}
	}
	for noun, n := range needs {
		if noun.Kind == addr.ModuleCall {
			put(string(noun.Kind), noun.Label, e.moduleValue(in.callNamed(noun.Label), n))
			continue
		}
		put(string(noun.Kind), noun.Label, e.blockValue(in.byNoun[noun], n))
	}
	ctx := &hcl.EvalContext{Functions: functions, Variables: map[string]cty.Value{}}
	for root, names := range roots {
		ctx.Variables[root] = cty.ObjectVal(names)
	}
	return ctx, ok
}

func (e *evaluator) iterator(put func(root, name string, r result), s site) {
	inst := s.inst
	if inst == nil {
		return
	}
	if i, ok := inst.key.AsIndex(); ok {
		put("count", "index", result{val: cty.NumberIntVal(int64(i)), ok: true})
	}
	if k, ok := inst.key.AsName(); ok && inst.value != cty.NilVal {
		put("each", "key", result{val: cty.StringVal(k), ok: true})
		put("each", "value", e.eachValue(inst, k, s.phase))
	}
}

// eachValue is each.value. A machine in it was taken in phase 1, when it had
// no address yet; later phases look again.
func (e *evaluator) eachValue(inst *instance, key string, at phase) result {
	kept := result{val: inst.value, ok: true}
	if at <= phaseNames || !hasHandle(inst.value.Type()) {
		return kept
	}
	expr := inst.block.args["for_each"].Expr
	r := e.node(inst.block.noun.String()+".for_each", at, expr.Range(), func() result { return e.eval(expr, site{phase: at, in: inst.block.in}) })
	v, _ := r.val.Unmark()
	if !r.ok || !v.IsKnown() || v.IsNull() || !v.CanIterateElements() {
		return kept
	}
	for it := v.ElementIterator(); it.Next(); {
		if k, ev := it.Element(); k.Type() == cty.String && k.AsString() == key {
			return result{val: ev, ok: true}
		}
	}
	return kept
}

func (e *evaluator) local(in *Config, name string, at phase) result {
	l := in.locals[name]
	if l.phase > at {
		return result{val: cty.DynamicVal, ok: true}
	}
	return e.node(in.place("local."+name), at, l.attr.Expr.Range(), func() result { return e.eval(l.attr.Expr, site{phase: at, in: in}) })
}

// allLocals evaluates also those that nobody uses, for their mistakes.
func (e *evaluator) allLocals() {
	for _, c := range e.configs() {
		for _, l := range c.localOrder {
			e.local(c, l.name, e.latest)
		}
	}
}

// known reports whether a result is a whole, known value. An unknown one is an
// error, except in a sketch.
func (e *evaluator) known(r result, what string) bool {
	if !r.ok {
		return false
	}
	if r.val.IsWhollyKnown() {
		return true
	}
	if !e.sketch {
		d := diag.Errorf("Not known yet", "Use values that are settled earlier: variables, locals, names and networks.",
			"%s cannot be computed at this point: a part of it is settled later.", what).At(r.expr.Range())
		d.Values = involved(r.expr, r.ctx)
		e.problems.add(d)
	}
	return false
}

// as converts a known result to a type, or reports what it is instead.
func (e *evaluator) as(r result, want cty.Type, argument, owner string) (cty.Value, bool) {
	if !r.ok {
		return cty.DynamicVal, false
	}
	v, err := convert.Convert(r.val, want)
	if err != nil {
		d := wrongType(argument, owner, want, r.val, err).At(r.expr.Range())
		d.Values = involved(r.expr, r.ctx)
		e.problems.add(d)
		return cty.DynamicVal, false
	}
	r.val = v
	if !e.known(r, argument+" of "+owner) {
		return cty.DynamicVal, false
	}
	return v, true
}

// truth reads a condition. known is false when it failed or is not known yet.
func (e *evaluator) truth(r result, what string) (value, known bool) {
	if !r.ok {
		return false, false
	}
	v, err := convert.Convert(r.val, cty.Bool)
	if err == nil && v.IsNull() {
		err = fmt.Errorf("it is null")
	}
	if err != nil {
		d := diag.Errorf("Not a condition", "Write something that is true or false, for example a comparison.", "The %s is %s: %s.", what, render(r.val), errorText(err)).At(r.expr.Range())
		d.Values = involved(r.expr, r.ctx)
		e.problems.add(d)
		return false, false
	}
	v, _ = v.Unmark()
	if !v.IsKnown() {
		return false, false
	}
	return v.True(), true
}

// message reads an error_message; what is sensitive in it stays hidden.
func (e *evaluator) message(r result) string {
	if !r.ok {
		return ""
	}
	v, err := convert.Convert(r.val, cty.String)
	if err != nil || v.IsNull() {
		e.problems.add(diag.Errorf("Not a message", "Write a text.", "error_message is %s.", render(r.val)).At(r.expr.Range()))
		return ""
	}
	v, marks := v.Unmark()
	switch {
	case len(marks) > 0:
		return "(the message holds a sensitive value)"
	case !v.IsKnown():
		return ""
	}
	return v.AsString()
}

// labName is the label of the lab block, or the name of the file or directory.
func (c *Config) labName() string {
	if c.lab != nil && c.lab.label != "" {
		return c.lab.label
	}
	if c.src.Name == "" {
		return "lab"
	}
	return c.src.Name
}

// LabName is the lab's name: the label of the lab block or, without one, the
// name of the file or directory. It is known as soon as the source is parsed.
func (c *Config) LabName() string { return c.labName() }
