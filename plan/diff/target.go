package diff

import (
	"maps"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan/graph"
	"github.com/lvslab/lvslab/provider"
)

// matches reports whether a noun is one of the list or an instance of one.
func matches(list []addr.Noun, n addr.Noun) bool {
	return slices.ContainsFunc(list, func(l addr.Noun) bool { return l.Covers(n) })
}

// targeted returns the addresses that --target leaves in the plan, nil for all:
// the targets and what they need, or, where things are taken away, what needs
// them. What dies with any of those belongs to it too.
func (c *computation) targeted() (map[addr.Resource]bool, error) {
	if len(c.Targets) == 0 {
		return nil, nil
	}
	var up, down []addr.Resource
	hit := map[addr.Noun]bool{}
	for a, change := range c.done {
		if !matches(c.Targets, a.Noun) {
			continue
		}
		hit[a.Noun] = true
		if change.Action == provider.Delete {
			down = append(down, a)
		} else {
			up = append(up, a)
		}
	}
	for _, t := range c.Targets {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(hit)), t.Covers) {
			return nil, diag.Fail(nil, "target matches nothing", "lvslab graph prints all blocks",
				"nothing is called %s, neither in the topology nor in the state", t)
		}
	}
	keep := c.graph.Closure(up...)
	for a := range c.usedBy().Closure(down...) {
		if c.action(a) == provider.Delete {
			keep[a] = true
		}
	}
	for a, change := range c.done {
		if change.Have == nil {
			continue
		}
		holder := change.Have.Within
		if act := c.action(holder); keep[holder] && (act == provider.Replace || act == provider.Delete) {
			keep[a] = true
		}
	}
	return keep, nil
}

// usedBy is the graph of what exists, turned round.
func (c *computation) usedBy() *graph.Graph[addr.Resource] {
	g := graph.New[addr.Resource]()
	for _, h := range c.Have {
		g.Add(h.Addr)
		for _, d := range h.DependsOn {
			g.Connect(d, h.Addr)
		}
	}
	return g
}
