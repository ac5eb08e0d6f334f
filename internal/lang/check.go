package lang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// mode says how a block's instances are addressed.
type mode int

const (
	single mode = iota // backend.ns
	byCount
	byKey
)

// mode of a block. A tunnel without count and for_each has one instance for
// each machine at its far end, keyed by that machine's address.
func (b *block) mode() mode {
	switch {
	case b.args["count"] != nil && b.spec.instances:
		return byCount
	case b.args["for_each"] != nil && b.spec.instances:
		return byKey
	case b.spec.name == string(addr.Tunnel):
		return byKey
	}
	return single
}

// use is where an expression stands.
type use struct {
	what     string // for messages: the argument and its block
	phase    phase
	count    bool // count.index is known
	each     bool // each.key and each.value are known
	constant bool // no references at all
	inputs   bool // only var and local
}

// references checks every expression of the file: names, attributes,
// functions, and that nothing is used before its phase.
func (p *parser) references() {
	for _, l := range p.c.localOrder {
		p.localPhase(l.name)
	}
	for _, l := range p.c.localOrder {
		p.expr(l.attr.Expr, use{what: "local." + l.name, phase: phaseArguments})
	}
	for _, v := range p.c.variables {
		p.variableRefs(v)
	}
	roots := slices.Concat(p.c.nouns, p.c.checks, p.c.outputs, p.c.calls)
	for _, b := range []*block{p.c.lab, p.c.provider} {
		if b != nil {
			roots = append(roots, b)
		}
	}
	for _, b := range roots {
		p.blockRefs(b, b)
	}
}

func (p *parser) variableRefs(v *variable) {
	for _, a := range v.block.sortedArgs() {
		if a.Name != "type" {
			p.expr(a.Expr, use{what: a.Name + " of " + v.block.title(), phase: phaseNames, constant: true})
		}
	}
	at := phaseNames
	if p.c.parent != nil { // it waits until the value is there
		at = phaseResults
	}
	for _, n := range v.block.nested {
		for _, a := range n.sortedArgs() {
			p.expr(a.Expr, use{what: a.Name + " of a validation", phase: at, inputs: true})
		}
	}
}

func (p *parser) blockRefs(b, owner *block) {
	for _, a := range b.sortedArgs() {
		spec, _ := b.spec.arg(a.Name)
		if a.Name == "depends_on" {
			p.dependsOn(a, owner)
			continue
		}
		inside := a.Name != "count" && a.Name != "for_each"
		if owner.spec.name == string(addr.ModuleCall) {
			if a.Name == "source" { // read before anything is evaluated
				continue
			}
			if inside { // the module decides when it needs it
				spec.phase = phaseResults
			}
		}
		p.expr(a.Expr, use{
			what: a.Name + " of " + owner.title(), phase: spec.phase,
			count: inside && owner.mode() == byCount,
			each:  inside && owner.mode() == byKey && owner.args["for_each"] != nil,
		})
	}
	for _, n := range b.nested {
		p.blockRefs(n, owner)
	}
}

// collect reads an expression's references once.
func (p *parser) collect(expr hclsyntax.Expression) *exprInfo {
	if info, ok := p.c.info[expr]; ok {
		return info
	}
	w := walkRefs(expr)
	info := &exprInfo{refs: w.found}
	p.c.info[expr] = info
	for _, call := range w.calls {
		if _, ok := functions[call.Name]; !ok {
			info.bad = true
			p.problems.add(unknownFunction(call))
		}
	}
	return info
}

// expr checks one expression at its place.
func (p *parser) expr(expr hclsyntax.Expression, u use) *exprInfo {
	info := p.collect(expr)
	for _, r := range info.refs {
		if d := p.check(r, u); d != nil {
			info.bad = true
			p.problems.add(d.At(r.rng))
		}
	}
	return info
}

// check returns what is wrong with a reference, or nil.
func (p *parser) check(r ref, u use) *diag.Diagnostic {
	if u.constant {
		return fail("No references here", "Write a fixed value; what depends on others goes into locals.", "%s must be a constant.", u.what)
	}
	if u.inputs && r.root != "var" && r.root != "local" {
		return fail("Only variables here", "Check values of the topology in a check block.", "%s may refer to var.… and local.… only.", u.what)
	}
	switch r.root {
	case "var":
		if d := p.checkNamed(r, "variable", p.c.variableNames(), "variable \""+r.name+"\" { … }"); d != nil {
			return d
		}
	case "local":
		if d := p.checkNamed(r, "local", p.c.localNames(), "locals { "+r.name+" = … }"); d != nil {
			return d
		}
	case "each":
		return checkIterator(r, u.each, []string{"key", "value"}, "for_each", u)
	case "count":
		return checkIterator(r, u.count, []string{"index"}, "count", u)
	case string(addr.ModuleCall):
		if d := p.checkCall(r); d != nil {
			return d
		}
	case "lab":
		if r.name != "name" {
			return fail("Unknown attribute", "Use lab.name.", "lab has no attribute %q.", r.name)
		}
		return nil
	default:
		if d := p.checkNoun(r); d != nil {
			return d
		}
	}
	return p.checkPhase(r, u)
}

func fail(summary, remedy, format string, args ...any) *diag.Diagnostic {
	d := diag.Errorf(summary, remedy, format, args...)
	return &d
}

func (p *parser) checkNamed(r ref, what string, names []string, declare string) *diag.Diagnostic {
	switch {
	case r.name == "":
		return fail("Incomplete reference", fmt.Sprintf("Write %s.NAME.", r.root), "%s alone means nothing.", r.root)
	case !slices.Contains(names, r.name):
		remedy := "Declare it: " + declare + "."
		if s := nearest(r.name, names); s != "" {
			remedy = fmt.Sprintf("Did you mean %q?", r.root+"."+s)
		}
		return fail("Reference to nothing", remedy, "There is no %s %q.", what, r.name)
	}
	return nil
}

func checkIterator(r ref, allowed bool, names []string, arg string, u use) *diag.Diagnostic {
	switch {
	case !slices.Contains(names, r.name):
		return fail("Unknown attribute", fmt.Sprintf("Use %s.", enumerate(prefixed(r.root+".", names), "or")), "%s has no attribute %q.", r.root, r.name)
	case !allowed:
		return fail("Nothing to iterate over", fmt.Sprintf("Add %s to the block, or do without %s.%s.", arg, r.root, r.name),
			"%s.%s is known only inside a block with %s; %s is not.", r.root, r.name, arg, u.what)
	}
	return nil
}

func (p *parser) checkNoun(r ref) *diag.Diagnostic {
	kind := addr.Kind(r.root)
	if attributesOf[kind] == nil {
		return p.unknownRootName(r)
	}
	if r.name == "" {
		return fail("Incomplete reference", fmt.Sprintf("Write %s.NAME.", r.root), "%s alone means nothing.", r.root)
	}
	b := p.c.byNoun[r.noun()]
	if b == nil {
		return p.missingNoun(r)
	}
	shown := r.root + "." + r.name
	if d := checkInstances(r, b, shown); d != nil {
		return d
	}
	if r.attr != "" {
		if _, ok := attributeOf(kind, r.attr); !ok {
			return fail("Unknown attribute", suggest(r.attr, attributeNames(kind), "It has"), "%s has no attribute %q.", shown, r.attr)
		}
	}
	return nil
}

// checkInstances compares an index with how the block has instances.
func checkInstances(r ref, b *block, shown string) *diag.Diagnostic {
	switch m := b.mode(); {
	case m == byKey && r.splat:
		return fail("A map has no [*]", fmt.Sprintf("Write values(%s)[*] or a for expression.", shown), "The instances of %s are known by keys.", shown)
	case m == single && r.index:
		return fail("Not a list", fmt.Sprintf("Write %s without an index, or give the block a count.", shown), "%s has neither count nor for_each: there is one only.", shown)
	case m != single && !r.index && !r.splat && r.attr != "":
		one, all := shown+"[0]."+r.attr, shown+"[*]."+r.attr
		if m == byKey {
			one, all = shown+`["KEY"].`+r.attr, "values("+shown+")[*]."+r.attr
		}
		return fail("Which one?", fmt.Sprintf("Write %s for one of them, or %s for all.", one, all),
			"%s has several instances.", shown)
	}
	return nil
}

func (p *parser) missingNoun(r ref) *diag.Diagnostic {
	var same, others []string
	for _, b := range p.c.nouns {
		if b.spec.name == r.root {
			same = append(same, b.noun.In("").String())
		} else if b.label == r.name {
			others = append(others, b.noun.In("").String())
		}
	}
	shown := r.root + "." + r.name
	remedy := fmt.Sprintf("Declare it: %s %q { … }.", r.root, r.name)
	if s := nearest(shown, same); s != "" {
		remedy = fmt.Sprintf("Did you mean %q?", s)
	} else if len(others) > 0 {
		remedy = fmt.Sprintf("Did you mean %q?", others[0])
	}
	return fail("Reference to nothing", remedy, "There is no %s %q.", r.root, r.name)
}

func (p *parser) unknownRootName(r ref) *diag.Diagnostic {
	if f, ok := foreignBlocks[r.root]; ok {
		return fail("Reference to nothing", f[1], "%q: %s.", r.root, f[0])
	}
	roots := []string{"var", "local", "each", "count", "lab", "module"}
	for kind := range attributesOf {
		roots = append(roots, string(kind))
	}
	for _, b := range p.c.nouns {
		if b.label == r.root {
			return fail("Reference to nothing", fmt.Sprintf("Did you mean %q?", b.noun.In("").String()), "There is no %q; a reference starts with the kind of block.", r.root)
		}
	}
	remedy := "A reference is written KIND.NAME, for example backend.ns or var.iterations; a text needs quotes."
	if s := nearest(r.root, sorted(roots)); s != "" {
		remedy = fmt.Sprintf("Did you mean %q?", s)
	}
	return fail("Reference to nothing", remedy, "There is no %q.", r.root)
}

// checkPhase reports what is not known yet at that place.
func (p *parser) checkPhase(r ref, u use) *diag.Diagnostic {
	need := p.phaseOf(r)
	if need <= u.phase {
		return nil
	}
	shown := traversalString(r.trav)
	if r.splat {
		shown += "[*]"
	}
	if r.attr != "" && !strings.HasSuffix(shown, "."+r.attr) {
		shown += "." + r.attr
	}
	if need == phaseResults {
		return fail("Results are not known here", "Use it in a check or an output block: those are evaluated after the runs.",
			"%s comes out of the runs, and %s is needed before.", shown, u.what)
	}
	remedy := "Use a variable, a local or length(…): numbers and names are settled before addresses."
	if u.phase == phaseAddresses {
		remedy = "Use the network instead, for example cidrhost(network.lan.cidr, 20)."
	}
	return fail("Not known yet", remedy, "%s needs %s, which is known only later: %s.", u.what, shown, phaseText(need))
}

func phaseText(need phase) string {
	if need == phaseAddresses {
		return "networks come after counts and names"
	}
	return "addresses are assigned after counts, names and explicit addresses"
}

// phaseOf is the first phase in which the reference has a value.
func (p *parser) phaseOf(r ref) phase {
	switch r.root {
	case "local":
		return p.localPhase(r.name)
	case "var":
		return p.varPhase(r.name)
	case string(addr.ModuleCall):
		return p.outputPhase(r)
	}
	kind := addr.Kind(r.root)
	if kind == addr.Experiment {
		return phaseResults
	}
	if a, ok := attributeOf(kind, r.attr); ok {
		return a.from
	}
	return phaseNames
}

func (p *parser) localPhase(name string) phase {
	l := p.c.locals[name]
	if l == nil || l.state == 1 { // a cycle is reported when it is evaluated
		return phaseNames
	}
	if l.state == 2 {
		return l.phase
	}
	l.state, l.phase = 1, phaseNames
	for _, r := range p.collect(l.attr.Expr).refs {
		l.phase = max(l.phase, p.phaseOf(r))
	}
	l.state = 2
	return l.phase
}

// traversalString writes a reference as the user did.
func traversalString(t hcl.Traversal) string {
	var b strings.Builder
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(s.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + s.Name)
		case hcl.TraverseIndex:
			b.WriteString("[" + render(s.Key) + "]")
		}
	}
	return b.String()
}
