package walk

import (
	"cmp"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/graph"
	"github.com/lvslab/lvslab/provider"
)

// step is one call: a resource is dropped, or it is made or changed. A
// replacement has both.
type step struct {
	addr addr.Resource
	drop bool
}

func (s step) String() string {
	if s.drop {
		return "delete " + s.addr.String()
	}
	return "make " + s.addr.String()
}

// Compare orders steps by address, the drop first.
func (s step) Compare(o step) int {
	c := s.addr.Compare(o.addr)
	if c == 0 && s.drop != o.drop {
		c = 1
		if s.drop {
			c = -1
		}
	}
	return c
}

// steps is the graph of a plan's calls.
type steps struct {
	graph   *graph.Graph[step]
	changes map[addr.Resource]plan.Change
	// goes are the resources that go with a dropped one, without calls of their own.
	goes map[addr.Resource][]plan.Change
	// first are deletions on the host that later, the creations on the host, wait
	// for, however those end: what goes makes room for what comes.
	first map[step]bool
	later []step
	// height is the number of steps on the longest way from a step to the end.
	height map[step]int
}

func newSteps(p plan.Plan, ps *plan.Providers) *steps {
	s := &steps{graph: graph.New[step](), changes: map[addr.Resource]plan.Change{}, goes: map[addr.Resource][]plan.Change{}, height: map[step]int{}}
	for _, c := range p.Changes {
		s.changes[c.Addr] = c
	}
	for _, c := range p.Changes {
		if c.Action == provider.NoOp {
			continue
		}
		if c.Want != nil {
			s.graph.Add(step{c.Addr, false})
		}
		if !drops(c) {
			continue
		}
		if holder := s.dropper(c.Addr); holder != c.Addr {
			s.goes[holder] = append(s.goes[holder], c)
		} else {
			s.graph.Add(step{c.Addr, true})
		}
	}
	for _, c := range p.Changes {
		s.needs(c)
	}
	for _, t := range plan.Takeovers(p.Changes, ps) {
		s.takes(t)
	}
	for _, c := range p.Changes {
		s.prefers(c)
	}
	s.makeRoom()
	for _, n := range s.graph.Nodes() {
		s.measure(n)
	}
	return s
}

func drops(c plan.Change) bool { return c.Action == provider.Delete || c.Action == provider.Replace }

// dropper returns the outermost resource whose deletion takes this one along,
// itself when none does.
func (s *steps) dropper(a addr.Resource) addr.Resource {
	for range len(s.changes) { // a state that holds a circle must not hang us
		c, ok := s.changes[a]
		if !ok || c.Have == nil {
			return a
		}
		holder, ok := s.changes[c.Have.Within]
		if !ok || !drops(holder) {
			return a
		}
		a = holder.Addr
	}
	return a
}

// needs adds the edges that must hold: made after what it depends on, dropped
// after what depended on it, made anew after it was dropped.
func (s *steps) needs(c plan.Change) {
	made, dropped := step{c.Addr, false}, step{c.Addr, true}
	if s.graph.Has(made) {
		for _, d := range c.Want.DependsOn {
			if !slices.Contains(c.Want.NotAwaited, d) {
				s.connect(made, step{d, false})
			}
		}
		if drops(c) {
			s.connect(made, step{s.dropper(c.Addr), true})
		}
	}
	if s.graph.Has(dropped) {
		for _, d := range c.Have.DependsOn {
			s.connect(step{d, true}, dropped)
		}
	}
}

// takes adds the edge that a name is given up before somebody else takes it.
// Otherwise the one is refused, or the other's deletion takes the name away from
// its new owner.
func (s *steps) takes(t plan.Takeover) {
	giver := step{t.From, false}
	if drops(s.changes[t.From]) {
		giver = step{s.dropper(t.From), true}
	}
	taker := step{t.By, false}
	if s.graph.Has(giver) && s.graph.Has(taker) && !s.graph.Closure(giver)[taker] {
		s.graph.Connect(taker, giver)
	}
}

// makeRoom finds the deletions on the host that come before all creations there:
// those that need none of these themselves. A machine that is replaced by another
// one need not find room beside it.
func (s *steps) makeRoom() {
	waits := map[step]bool{}
	var todo []step
	for _, c := range s.changes {
		if n := (step{c.Addr, false}); s.graph.Has(n) && c.Want.Within.IsZero() && s.op(n) == plan.Create {
			s.later, todo = append(s.later, n), append(todo, n)
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !waits[n] {
			waits[n] = true
			todo = append(todo, s.graph.NeededBy(n)...)
		}
	}
	s.first = map[step]bool{}
	for _, c := range s.changes {
		if n := (step{c.Addr, true}); s.graph.Has(n) && c.Have.Within.IsZero() && !waits[n] {
			s.first[n] = true
		}
	}
}

// prefers adds the edges that make a change gentle and may be left out where
// they would close a circle: what used a deleted thing is changed before that
// is deleted, also when it is deleted by way of what holds it. So a backend
// leaves the service's list first and is shut down then.
func (s *steps) prefers(c plan.Change) {
	if c.Have == nil {
		return
	}
	user := step{c.Addr, true}
	if c.Action == provider.Update {
		user.drop = false
	}
	if !s.graph.Has(user) {
		return
	}
	for _, d := range c.Have.DependsOn {
		used, ok := s.changes[d]
		if !ok || used.Action != provider.Delete && (user.drop != true || !drops(used)) {
			continue
		}
		gone := step{s.dropper(d), true}
		if s.graph.Has(gone) && gone != user && !s.graph.Closure(user)[gone] {
			s.graph.Connect(gone, user)
		}
	}
}

func (s *steps) connect(from, to step) {
	if from != to && s.graph.Has(from) && s.graph.Has(to) {
		s.graph.Connect(from, to)
	}
}

func (s *steps) measure(n step) int {
	if h := s.height[n]; h != 0 {
		return h
	}
	s.height[n] = 1 // ends the recursion should there be a circle
	h := 1
	for _, m := range s.graph.NeededBy(n) {
		h = max(h, 1+s.measure(m))
	}
	s.height[n] = h
	return h
}

// urgency orders steps that are ready: those with the longest way behind them
// first, so that a long chain is not begun last.
func (s *steps) urgency(a, b step) int {
	return cmp.Or(cmp.Compare(s.height[b], s.height[a]), a.Compare(b))
}

func (s *steps) op(n step) plan.Op {
	switch {
	case n.drop:
		return plan.Delete
	case s.changes[n.addr].Action == provider.Update:
		return plan.Update
	}
	return plan.Create
}
