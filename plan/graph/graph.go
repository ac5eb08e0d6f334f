// Package graph is a directed acyclic graph of addresses: who needs whom. It
// knows nothing about what the addresses stand for. Everything that it lists is
// in the addresses' own order, so equal graphs print and walk equally.
package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// Key is what a graph's nodes are named by: addr.Resource, addr.Noun.
type Key[K any] interface {
	comparable
	fmt.Stringer
	Compare(K) int
}

// Graph holds nodes and the edges "needs". The zero value is not usable: see
// [New]. It is not safe for concurrent writing.
type Graph[K Key[K]] struct {
	needs    map[K]map[K]bool
	neededBy map[K]map[K]bool
}

// New returns an empty graph.
func New[K Key[K]]() *Graph[K] {
	return &Graph[K]{needs: map[K]map[K]bool{}, neededBy: map[K]map[K]bool{}}
}

// Add adds a node; adding it again changes nothing.
func (g *Graph[K]) Add(n K) {
	if g.needs[n] == nil {
		g.needs[n], g.neededBy[n] = map[K]bool{}, map[K]bool{}
	}
}

// Connect says that from needs to. Both are added when missing.
func (g *Graph[K]) Connect(from, to K) {
	g.Add(from)
	g.Add(to)
	g.needs[from][to] = true
	g.neededBy[to][from] = true
}

// Has reports whether the node is in the graph.
func (g *Graph[K]) Has(n K) bool { return g.needs[n] != nil }

// Len is the number of nodes.
func (g *Graph[K]) Len() int { return len(g.needs) }

// Nodes returns all nodes in order.
func (g *Graph[K]) Nodes() []K { return sorted(g.needs) }

// Needs returns what the node needs directly.
func (g *Graph[K]) Needs(n K) []K { return sorted(g.needs[n]) }

// NeededBy returns what needs the node directly.
func (g *Graph[K]) NeededBy(n K) []K { return sorted(g.neededBy[n]) }

// Reverse returns the graph with every edge turned round: the order in which
// things are taken down.
func (g *Graph[K]) Reverse() *Graph[K] {
	r := New[K]()
	for n, needs := range g.needs {
		r.Add(n)
		for m := range needs {
			r.Connect(m, n)
		}
	}
	return r
}

// Closure returns the given nodes and everything that they need, directly or
// through others. Nodes that are not in the graph are left out.
func (g *Graph[K]) Closure(from ...K) map[K]bool {
	seen := map[K]bool{}
	stack := slices.Clone(from)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[n] || !g.Has(n) {
			continue
		}
		seen[n] = true
		for m := range g.needs[n] {
			stack = append(stack, m)
		}
	}
	return seen
}

// Levels returns the nodes in layers: each needs only nodes of earlier layers.
// The error is a [*diag.Failure] around a [*CycleError].
func (g *Graph[K]) Levels() ([][]K, error) {
	open := make(map[K]int, len(g.needs))
	var ready []K
	for n, needs := range g.needs {
		if open[n] = len(needs); len(needs) == 0 {
			ready = append(ready, n)
		}
	}
	var levels [][]K
	done := 0
	for len(ready) > 0 {
		slices.SortFunc(ready, K.Compare)
		levels = append(levels, ready)
		done += len(ready)
		var next []K
		for _, n := range ready {
			for m := range g.neededBy[n] {
				if open[m]--; open[m] == 0 {
					next = append(next, m)
				}
			}
		}
		ready = next
	}
	if done < len(g.needs) {
		return nil, cycleFailure(g.Cycle())
	}
	return levels, nil
}

// Order returns the nodes such that each comes after what it needs. The error
// is that of [Graph.Levels].
func (g *Graph[K]) Order() ([]K, error) {
	levels, err := g.Levels()
	return slices.Concat(levels...), err
}

// Cycle returns nodes of which each needs the next and the last needs the
// first, or nil when there is no cycle. The least node comes first.
func (g *Graph[K]) Cycle() []K {
	const (
		onPath = 1
		clean  = 2
	)
	mark := map[K]int{}
	var path []K
	var visit func(n K) []K
	visit = func(n K) []K {
		mark[n] = onPath
		path = append(path, n)
		for _, m := range g.Needs(n) {
			switch mark[m] {
			case onPath:
				return slices.Clone(path[slices.Index(path, m):])
			case clean:
				continue
			}
			if c := visit(m); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		mark[n] = clean
		return nil
	}
	for _, n := range g.Nodes() {
		if mark[n] == 0 {
			if c := visit(n); c != nil {
				return leastFirst(c)
			}
		}
	}
	return nil
}

func leastFirst[K Key[K]](c []K) []K {
	i := slices.Index(c, slices.MinFunc(c, K.Compare))
	return append(slices.Clone(c[i:]), c[:i]...)
}

func sorted[K Key[K], V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	slices.SortFunc(out, K.Compare)
	return out
}

// CycleError names the nodes of a cycle: each needs the next, the last needs
// the first.
type CycleError struct{ Nodes []string }

func (e *CycleError) Error() string {
	return strings.Join(append(slices.Clone(e.Nodes), cmp.Or(e.Nodes...)), " needs ")
}

func cycleFailure[K Key[K]](cycle []K) error {
	e := &CycleError{}
	for _, n := range cycle {
		e.Nodes = append(e.Nodes, n.String())
	}
	return diag.Fail(e, "dependency cycle", "take away one of these references",
		"nothing in this circle can come first")
}
