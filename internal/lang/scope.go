package lang

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// instance makes the module that one instance of a call is: the same text, seen
// from its own place.
func (c *Config) instance(parent *Config, call *block, inst *instance) *Config {
	in := &Config{
		src: c.src, dir: c.dir, info: c.info, path: parent.path.Child(call.label, inst.key), parent: parent, call: call, from: inst,
		children: c.children, moves: c.moves, phases: c.phases, locals: map[string]*local{}, byNoun: map[addr.Noun]*block{},
	}
	own := func(list []*block) []*block {
		out := make([]*block, len(list))
		for i, b := range list {
			mine := *b
			mine.in = in
			if !b.noun.IsZero() {
				mine.noun = b.noun.In(in.path)
				in.byNoun[b.noun.In("")] = &mine
			}
			out[i] = &mine
		}
		return out
	}
	in.nouns, in.checks, in.outputs, in.calls = own(c.nouns), own(c.checks), own(c.outputs), own(c.calls)
	for _, v := range c.variables {
		mine := *v
		mine.block = own([]*block{v.block})[0]
		in.variables = append(in.variables, &mine)
	}
	for _, l := range c.localOrder {
		mine := *l
		in.locals[l.name] = &mine
		in.localOrder = append(in.localOrder, &mine)
	}
	return in
}

// module returns the module that an instance of a call is.
func (e *evaluator) module(call *block, inst *instance) *Config {
	if e.modules == nil {
		e.modules = map[*block]map[addr.Key]*Config{}
	}
	if e.modules[call] == nil {
		e.modules[call] = map[addr.Key]*Config{}
	}
	m, made := e.modules[call][inst.key]
	if !made {
		if pattern := call.in.children[call.label]; pattern != nil {
			m = pattern.instance(call.in, call, inst)
		}
		e.modules[call][inst.key] = m
	}
	return m
}

// configs lists the root and all instances of modules: each before those that
// it calls, in declared order.
func (e *evaluator) configs() []*Config {
	if e.all != nil {
		return e.all
	}
	var out []*Config
	blocks := 0
	var walk func(c *Config)
	walk = func(c *Config) {
		out = append(out, c)
		for _, b := range c.nouns {
			blocks += len(e.expand(b).instances)
		}
		for _, call := range c.calls {
			ex := e.expand(call)
			for i := range ex.instances {
				if len(out) > maxModules || blocks > maxBlocks {
					e.problems.add(diag.Errorf("Too many modules", fmt.Sprintf("Up to %d instances of modules with %d blocks are possible.", maxModules, maxBlocks),
						"%s would be one too many.", call.noun.Block()).At(call.rng))
					return
				}
				if m := e.module(call, &ex.instances[i]); m != nil {
					walk(m)
				}
			}
		}
	}
	walk(e.c)
	e.all = out
	return out
}

// eachBlock visits the blocks that have nouns, of all modules.
func (e *evaluator) eachBlock(f func(b *block)) {
	for _, c := range e.configs() {
		for _, b := range c.nouns {
			f(b)
		}
	}
}

// nounsInside lists all instances of blocks in the modules that a call is.
func (e *evaluator) nounsInside(call *block) []addr.Noun {
	var out []addr.Noun
	e.eachBlock(func(b *block) {
		for _, step := range b.noun.Module.Calls() {
			if step.Block() == call.noun {
				ex := e.expand(b)
				for _, i := range ex.instances {
					out = append(out, b.noun.At(i.key))
				}
				return
			}
		}
	})
	return out
}

// place names something of a module for messages and for the memory of values.
func (c *Config) place(what string) string {
	if c.path == "" {
		return what
	}
	return string(c.path) + "." + what
}

// scopeOf is the module that an expression stands in.
func (e *evaluator) scopeOf(s site) *Config {
	if s.in == nil {
		return e.c
	}
	return s.in
}

// variable is the value of a variable: of the root as it was set from outside,
// of a module as its call says.
func (e *evaluator) variable(in *Config, name string, at phase) result {
	if in.parent == nil {
		return e.vars[name]
	}
	for _, v := range in.variables {
		if v.name == name {
			return e.node(in.place("var."+name), at, v.block.rng, func() result { return e.input(in, v, at) })
		}
	}
	return result{val: cty.DynamicVal}
}

func (e *evaluator) input(in *Config, v *variable, at phase) result {
	failed := result{val: cty.DynamicVal}
	arg := in.call.args[v.name]
	switch {
	case v.bad:
		return failed
	case arg == nil && v.def == cty.NilVal: // reported as missing
		return failed
	case arg == nil:
		return e.guarded(v, v.def)
	}
	r := e.eval(arg.Expr, site{phase: at, inst: in.from, in: in.parent})
	if !r.ok {
		return failed
	}
	val, err := v.convert(r.val)
	if err == nil && val.IsNull() && !v.nullable {
		if v.def != cty.NilVal {
			return e.guarded(v, v.def)
		}
		err = fmt.Errorf("null is not allowed")
	}
	if err != nil {
		d := diag.Errorf("Wrong type for a variable", fmt.Sprintf("Give variable %q a %s.", v.name, typeexpr.TypeString(v.typ)),
			"module %q sets %q to %s: %s.", in.call.label, v.name, render(r.val), errorText(err)).At(arg.Expr.Range())
		d.Values = involved(r.expr, r.ctx)
		e.problems.add(d)
		return failed
	}
	return e.guarded(v, val)
}

// guarded marks the value of a sensitive variable and remembers its texts.
func (e *evaluator) guarded(v *variable, val cty.Value) result {
	if v.secret {
		e.hide(val)
		val = val.Mark(sensitive)
	}
	return result{val: val, ok: true}
}

// moduleValue is what an expression sees of a module: an object of its outputs,
// or several of them when it has instances. Outputs that are not looked at stay
// unknown, so that nothing waits for them.
func (e *evaluator) moduleValue(call *block, n *need) result {
	ex := e.expand(call)
	switch {
	case !ex.ok:
		return result{val: cty.DynamicVal}
	case ex.unknown: // in a sketch
		return result{val: cty.DynamicVal, ok: true}
	}
	ok := true
	list := []cty.Value{}
	byName := map[string]cty.Value{}
	for i := range ex.instances {
		inst := &ex.instances[i]
		m := e.module(call, inst)
		if m == nil { // it could not be read
			return result{val: cty.DynamicVal}
		}
		attrs := map[string]cty.Value{}
		for _, b := range m.outputs {
			attrs[b.label] = cty.DynamicVal
			if n.all || n.attrs[b.label] {
				r := e.moduleOutput(m, b, n.phase)
				ok = ok && r.ok
				attrs[b.label] = r.val
			}
		}
		v := cty.ObjectVal(attrs)
		list = append(list, v)
		if k, named := inst.key.AsName(); named {
			byName[k] = v
		}
	}
	if !ok {
		return result{val: cty.DynamicVal}
	}
	switch call.mode() {
	case byCount:
		return result{val: cty.TupleVal(list), ok: true}
	case byKey:
		return result{val: cty.ObjectVal(byName), ok: true}
	}
	return result{val: list[0], ok: true}
}

// moduleOutput is the value of one output. Blocks in it stay blocks.
func (e *evaluator) moduleOutput(m *Config, b *block, at phase) result {
	a := b.args["value"]
	if a == nil { // reported as missing
		return result{val: cty.DynamicVal}
	}
	return e.node(m.place("output."+b.label), at, a.Expr.Range(), func() result {
		r := e.eval(a.Expr, site{phase: at, in: m})
		if !r.ok {
			return result{val: cty.DynamicVal}
		}
		secret := e.reader(b, nil).flag("sensitive", false)
		switch {
		case secret:
			r.val = r.val.Mark(sensitive)
		case r.val.ContainsMarked():
			e.sensitiveOutput(b, a.Expr.Range(), r)
			return result{val: cty.DynamicVal}
		}
		return result{val: r.val, ok: true}
	})
}

func (e *evaluator) sensitiveOutput(b *block, at hcl.Range, r result) {
	d := diag.Errorf("Sensitive output", "Add sensitive = true to the output, or leave the value out.", "Output %q would show a sensitive value.", b.label).At(at)
	d.Values = involved(r.expr, r.ctx)
	e.problems.add(d)
}

// insides evaluates what nobody may ask for, for its mistakes: variables of
// modules with their validations, and outputs of modules when results may be
// used.
func (e *evaluator) insides() {
	for _, c := range e.configs() {
		if c.parent == nil {
			continue
		}
		for _, v := range c.variables {
			if r := e.variable(c, v.name, e.latest); r.ok {
				e.validateVariable(v, e.latest)
			}
		}
		if e.latest == phaseResults {
			for _, b := range c.outputs {
				e.moduleOutput(c, b, e.latest)
			}
		}
	}
}
