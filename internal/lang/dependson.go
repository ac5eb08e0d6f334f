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
	if scopeTraversal(e) == nil || len(info.refs) != 1 || attributesOf[addr.Kind(info.refs[0].root)] == nil || info.refs[0].attr != "" {
		return fail("Not a block", "Name a block, for example backend.ns.", "depends_on of %s takes whole blocks.", owner.title())
	}
	n := info.refs[0].noun()
	last := owner.spec.name == string(addr.Experiment) || owner.spec.name == "output"
	switch {
	case n == owner.noun:
		return fail("Depends on itself", "Leave it out.", "depends_on of %s names the block itself.", owner.title())
	case n.Kind == addr.Zone:
		return fail("Nothing to wait for", "Name the backends that serve it.", "%s is a setting of the backends that serve it.", n)
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

// dependsOn expands the whole blocks that were named.
func (e *evaluator) dependsOn(t *Topology, b *block, inst *instance) {
	a := b.args["depends_on"]
	if a == nil {
		return
	}
	noun := b.noun.At(inst.key)
	e.places[noun.String()+"/depends_on"] = a.Expr.Range()
	for _, named := range e.c.dependencies(a) {
		other := e.c.byNoun[named]
		if other == nil || other == b {
			continue
		}
		ex := e.expand(other)
		for _, i := range ex.instances {
			t.DependsOn[noun] = append(t.DependsOn[noun], named.At(i.key))
		}
	}
}

// uses are the blocks that a block refers to, by which it waits for them
// without being told to.
func (t *Topology) uses() map[addr.Noun][]addr.Noun {
	out := map[addr.Noun][]addr.Noun{}
	add := func(n addr.Noun, used ...addr.Noun) { out[n] = append(out[n], used...) }
	for _, m := range t.Machines {
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
			add(s.Noun, r.Backend, r.Tunnel)
		}
	}
	for _, x := range t.Experiments {
		add(x.Noun, append(slices.Clone(x.Clients), x.Service)...)
	}
	return out
}

// circles reports a depends_on by which something would wait for itself.
func (r *rules) circles() {
	edges := r.t.uses()
	for n, needs := range r.t.DependsOn {
		edges[n] = append(edges[n], needs...)
	}
	told := map[addr.Noun]bool{}
	for _, n := range slices.SortedFunc(maps.Keys(r.t.DependsOn), addr.Noun.Compare) {
		path := circle(edges, n)
		if path == nil || told[n.Block()] {
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

// circle finds a way from a block back to it, the block at both ends.
func circle(edges map[addr.Noun][]addr.Noun, from addr.Noun) []addr.Noun {
	seen := map[addr.Noun]bool{}
	var walk func(n addr.Noun) []addr.Noun
	walk = func(n addr.Noun) []addr.Noun {
		for _, m := range edges[n] {
			if m == from {
				return []addr.Noun{n, m}
			}
			if seen[m] {
				continue
			}
			seen[m] = true
			if rest := walk(m); rest != nil {
				return append([]addr.Noun{n}, rest...)
			}
		}
		return nil
	}
	return walk(from)
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
