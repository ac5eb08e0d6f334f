package lang

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// dependsOn accepts a list of whole blocks only: it is read, never evaluated.
func (p *parser) dependsOn(a *hclsyntax.Attribute, owner *block) {
	tuple, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	if !ok {
		owner.broken = true
		p.problems.add(diag.Errorf("Not a list of blocks", "Write depends_on = [backend.ns, service.dns].", "depends_on of %s must be a list written out.", owner.title()).At(a.Expr.Range()))
		return
	}
	for _, e := range tuple.Exprs {
		info := p.expr(e, use{what: "depends_on of " + owner.title(), phase: phaseResults})
		if info.bad {
			continue
		}
		if d := p.badDependency(e, info, owner); d != nil {
			owner.broken, info.bad = true, true
			p.problems.add(d.At(e.Range()))
		}
	}
}

// badDependency says what is wrong with an element of depends_on, or nil.
func (p *parser) badDependency(e hclsyntax.Expression, info *exprInfo, owner *block) *diag.Diagnostic {
	kind := addr.Kind("")
	if len(info.refs) == 1 {
		kind = addr.Kind(info.refs[0].root)
	}
	if scopeTraversal(e) == nil || attributesOf[kind] == nil && kind != addr.ModuleCall || info.refs[0].attr != "" {
		return fail("Not a block", "Name a block, for example backend.ns.", "depends_on of %s takes whole blocks.", owner.title())
	}
	n := info.refs[0].noun()
	last := owner.spec.name == string(addr.Experiment) || owner.spec.name == "output"
	switch {
	case n == owner.noun.In(""):
		return fail("Depends on itself", "Leave it out.", "depends_on of %s names the block itself.", owner.title())
	case n.Kind == addr.Zone:
		return fail("Nothing to wait for", "Name the backends that serve it.", "%s is a setting of the backends that serve it.", n)
	case n.Kind == addr.Image:
		return fail("Nothing to wait for", "Leave it out.", "%s is there before any machine.", n)
	case n.Kind == addr.Experiment && !last:
		return fail("Nothing to wait for", "Leave it out: experiments run when everything stands.", "%s comes after %s in any case.", n, owner.title())
	}
	return nil
}

// dependencies are the blocks named in a depends_on.
func (c *Config) dependencies(a *hclsyntax.Attribute) []addr.Noun {
	tuple, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	if !ok {
		return nil
	}
	var out []addr.Noun
	for _, e := range tuple.Exprs {
		if info := c.info[e]; info != nil && !info.bad && len(info.refs) == 1 {
			out = append(out, info.refs[0].noun())
		}
	}
	return out
}

// dependsOn expands the whole blocks that were named: by the block itself, and
// by the calls of the modules that it is in.
func (e *evaluator) dependsOn(t *Topology, b *block, inst *instance) {
	noun := b.noun.At(inst.key)
	for at := b; at != nil; at = at.in.call {
		if a := at.args["depends_on"]; a != nil {
			if place := noun.String() + "/depends_on"; e.places[place] == (diag.Range{}) {
				e.places[place] = a.Expr.Range()
			}
			t.DependsOn[noun] = append(t.DependsOn[noun], e.named(at.in, a, noun.Kind)...)
		}
	}
	if len(t.DependsOn[noun]) == 0 {
		delete(t.DependsOn, noun)
	}
}

// named are the instances that a depends_on means. What is inside a module and
// nothing could wait for is passed over.
func (e *evaluator) named(in *Config, a *hclsyntax.Attribute, waiter addr.Kind) []addr.Noun {
	var out []addr.Noun
	for _, n := range in.dependencies(a) {
		if n.Kind == addr.ModuleCall {
			for _, inside := range e.nounsInside(in.callNamed(n.Label)) {
				if inside.Kind != addr.Zone && inside.Kind != addr.Image && (inside.Kind != addr.Experiment || waiter == addr.Experiment) {
					out = append(out, inside)
				}
			}
			continue
		}
		if other := in.byNoun[n]; other != nil {
			ex := e.expand(other)
			for _, i := range ex.instances {
				out = append(out, other.noun.At(i.key))
			}
		}
	}
	return out
}

// Uses are the blocks that each block refers to, by which it waits for them
// without being told to. Blocks that refer to none are left out.
func (t *Topology) Uses() map[addr.Noun][]addr.Noun {
	out := map[addr.Noun][]addr.Noun{}
	add := func(n addr.Noun, used ...addr.Noun) { out[n] = append(out[n], used...) }
	for _, m := range t.Machines {
		add(m.Noun, m.Serves...)
		if !m.Image.IsZero() {
			add(m.Noun, m.Image)
		}
		for _, nic := range m.NICs {
			add(m.Noun, nic.Network)
		}
	}
	for _, tun := range t.Tunnels {
		add(tun.Noun, tun.From, tun.To)
	}
	for _, s := range t.Services {
		add(s.Noun, s.Director)
		for _, r := range s.RealServers {
			add(s.Noun, r.Backend)
			if !r.Tunnel.IsZero() {
				add(s.Noun, r.Tunnel)
			}
		}
	}
	for _, x := range t.Experiments {
		add(x.Noun, slices.Concat(x.Clients, []addr.Noun{x.Service}, x.Kernels())...)
	}
	for _, p := range t.Populations {
		add(p.Noun, p.Service)
	}
	return out
}

// circles reports a depends_on by which something would wait for itself.
func (r *rules) circles() {
	edges := r.t.Uses()
	for n, needs := range r.t.DependsOn {
		edges[n] = append(edges[n], needs...)
	}
	told := map[addr.Noun]bool{}
	for _, path := range circlesOf(edges, slices.SortedFunc(maps.Keys(r.t.DependsOn), addr.Noun.Compare)) {
		path = r.t.turned(path)
		n := path[0]
		if told[n.Block()] {
			continue
		}
		var names []string
		for _, p := range path {
			told[p.Block()] = true
			names = append(names, p.String())
		}
		r.fail(n, "depends_on", diag.Range{}, "Cycle", "Take one of them out of depends_on.",
			"Each of these waits for the next: %s.", strings.Join(names, " → "))
	}
}

// turned begins a circle with a block that has a depends_on: references alone
// make no circles.
func (t *Topology) turned(path []addr.Noun) []addr.Noun {
	for i, n := range path[:len(path)-1] {
		if len(t.DependsOn[n]) > 0 {
			return append(append(slices.Clone(path[i:len(path)-1]), path[:i]...), n)
		}
	}
	return path
}

// circlesOf finds ways that lead from a block back to it, the block at both ends.
// Each edge is looked at once; where one circle is, others may be behind it.
func circlesOf(edges map[addr.Noun][]addr.Noun, from []addr.Noun) [][]addr.Noun {
	var out [][]addr.Noun
	done := map[addr.Noun]bool{}
	at := map[addr.Noun]int{} // position on the path, from 1
	var path []addr.Noun
	var walk func(n addr.Noun)
	walk = func(n addr.Noun) {
		path = append(path, n)
		at[n] = len(path)
		for _, m := range edges[n] {
			switch {
			case at[m] > 0:
				out = append(out, append(slices.Clone(path[at[m]-1:]), m))
			case !done[m]:
				walk(m)
			}
		}
		path = path[:len(path)-1]
		at[n], done[n] = 0, true
	}
	for _, n := range from {
		if !done[n] {
			walk(n)
		}
	}
	return out
}

// inOrder moves experiments behind those that they depend on; all others stay
// in declared order.
func (t *Topology) inOrder() {
	var out []Experiment
	placed := map[addr.Noun]bool{}
	byNoun := map[addr.Noun]Experiment{}
	for _, x := range t.Experiments {
		byNoun[x.Noun] = x
	}
	var place func(x Experiment)
	place = func(x Experiment) {
		if placed[x.Noun] {
			return
		}
		placed[x.Noun] = true // a circle is reported by the rules
		for _, n := range t.DependsOn[x.Noun] {
			if before, ok := byNoun[n]; ok {
				place(before)
			}
		}
		out = append(out, x)
	}
	for _, x := range t.Experiments {
		place(x)
	}
	t.Experiments = out
}
