package lang

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// reservedInputs are arguments of every module block, so that no variable of a
// module can be set by these names.
var reservedInputs = []string{"source", "count", "for_each", "depends_on", "version", "providers"}

// notInputs are arguments that Terraform's module blocks have beside inputs.
var notInputs = map[string]string{
	"version":   "Leave it out: a directory has no versions.",
	"providers": "Leave it out: the provider of the root is everybody's.",
}

// child parses the module that a block calls, with all that it calls itself.
// The result is the pattern that references are checked by; evaluation makes an
// instance of it for each instance of the call.
func (p *parser) child(call *block) {
	a := call.args["source"]
	if a == nil { // reported as missing
		return
	}
	dir, d := moduleDir(a, p.c.dir)
	if d == nil {
		d = p.mayCall(dir)
	}
	m, read := p.src.Modules[dir]
	if d == nil && (!read || m.Trouble != "") {
		if !read {
			m.Trouble = "it was not read"
		}
		d = fail("Cannot read the module", "Correct the path: it is seen from the directory of this file.", "%s: %s.", dir, m.Trouble)
	}
	if d != nil {
		call.broken = true
		p.problems.add(d.At(a.Expr.Range()))
		return
	}
	c := newConfig(p.tree, dir, p.c.path.Child(call.label, addr.NoKey))
	c.parent, c.call = p.c, call
	p.c.children[call.label] = c
	(&parser{tree: p.tree, c: c}).files(m.Files)
}

// mayCall refuses modules without end.
func (p *parser) mayCall(dir string) *diag.Diagnostic {
	depth := 0
	for c := p.c; c != nil; c = c.parent {
		if depth++; c.dir == dir && c.parent != nil {
			return fail("A module calls itself", "Break the circle: take one of the calls out.", "%s is called from within itself.", dir)
		}
	}
	if depth > maxModuleDepth || len(p.configs) > maxModules {
		return fail("Too many modules", fmt.Sprintf("Up to %d levels and %d modules are possible.", maxModuleDepth, maxModules), "%s would be one too many.", dir)
	}
	return nil
}

// inputs checks what is given to a module.
func (p *parser) inputs(call *block, c *Config) {
	names := c.variableNames()
	for _, a := range call.sortedArgs() {
		if slices.Contains(reservedInputs[:4], a.Name) || slices.Contains(names, a.Name) {
			continue
		}
		remedy := suggest(a.Name, names, "It takes")
		if len(names) == 0 {
			remedy = "Leave it out: the module declares no variable."
		}
		if r, ok := notInputs[a.Name]; ok {
			remedy = r
		}
		call.broken = true
		p.problems.add(diag.Errorf("Unknown argument", remedy, "module %q has no variable %q.", call.label, a.Name).At(a.NameRange))
	}
	for _, v := range c.variables {
		if v.def == cty.NilVal && call.args[v.name] == nil && v.block.args["default"] == nil {
			call.broken = true
			p.problems.add(diag.Errorf("Argument missing", fmt.Sprintf("Add %s = … to the block.", v.name),
				"module %q needs the variable %q, which has no default.", call.label, v.name).At(call.rng))
		}
	}
}

// callNamed returns the block that calls a module.
func (c *Config) callNamed(label string) *block {
	for _, b := range c.calls {
		if b.label == label {
			return b
		}
	}
	return nil
}

func (c *Config) outputNamed(label string) *block {
	for _, b := range c.outputs {
		if b.label == label {
			return b
		}
	}
	return nil
}

func (c *Config) outputNames() []string {
	var out []string
	for _, b := range c.outputs {
		out = append(out, b.label)
	}
	return out
}

// checkCall returns what is wrong with a reference to a module, or nil.
func (p *parser) checkCall(r ref) *diag.Diagnostic {
	if r.name == "" {
		return fail("Incomplete reference", "Write module.NAME.OUTPUT.", "module alone means nothing.")
	}
	shown := "module." + r.name
	b := p.c.callNamed(r.name)
	if b == nil {
		var names []string
		for _, c := range p.c.calls {
			names = append(names, "module."+c.label)
		}
		remedy := fmt.Sprintf("Declare it: module %q { … }.", r.name)
		if s := nearest(shown, names); s != "" {
			remedy = fmt.Sprintf("Did you mean %q?", s)
		}
		return fail("Reference to nothing", remedy, "There is no module %q.", r.name)
	}
	if d := checkInstances(r, b, shown); d != nil {
		return d
	}
	c := p.c.children[r.name]
	if c == nil || r.attr == "" || c.outputNamed(r.attr) != nil {
		return nil // a module that could not be read was told of
	}
	remedy := suggest(r.attr, c.outputNames(), "It has")
	if len(c.outputs) == 0 {
		remedy = fmt.Sprintf("Declare it in the module: output %q { value = … }.", r.attr)
	}
	return fail("Unknown output", remedy, "%s has no output %q.", shown, r.attr)
}

// exprPhase is the first phase in which all references of an expression have a
// value.
func (p *parser) exprPhase(e hclsyntax.Expression) phase {
	at := phaseNames
	for _, r := range p.collect(e).refs {
		at = max(at, p.phaseOf(r))
	}
	return at
}

// varPhase is the phase in which a module's variable has a value: that of what
// it is set to.
func (p *parser) varPhase(name string) phase {
	if p.c.parent == nil || p.c.call.args[name] == nil {
		return phaseNames
	}
	return p.memoPhase("var."+name, func() phase { return p.in(p.c.parent).exprPhase(p.c.call.args[name].Expr) })
}

// outputPhase is the phase in which an output of a module, or all of them, have
// a value.
func (p *parser) outputPhase(r ref) phase {
	c := p.c.children[r.name]
	if c == nil {
		return phaseNames
	}
	at := phaseNames
	for _, b := range c.outputs {
		if a := b.args["value"]; a != nil && (r.attr == "" || r.attr == b.label) {
			at = max(at, p.in(c).memoPhase("output."+b.label, func() phase { return p.in(c).exprPhase(a.Expr) }))
		}
	}
	return at
}

func (p *parser) memoPhase(name string, compute func() phase) phase {
	if at, known := p.c.phases[name]; known {
		return at // a cycle is reported when it is evaluated
	}
	p.c.phases[name] = phaseNames
	p.c.phases[name] = compute()
	return p.c.phases[name]
}

// in looks at the same topology from another module.
func (p *parser) in(c *Config) *parser { return &parser{tree: p.tree, c: c} }
