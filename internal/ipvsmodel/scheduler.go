package ipvsmodel

import (
	"maps"
	"slices"
)

// scheduler chooses among the destinations of one service. The other methods
// tell it that its list has changed: d is in it already, or no longer.
type scheduler interface {
	schedule(f *flow) *dest
	added(d *dest)
	removed(d *dest, at int)
	updated(d *dest)
}

// collector is a scheduler with a cache that is looked through now and then.
type collector interface {
	nextCollection() int64
	collect(m *Model)
	drop()
}

var schedulers = map[string]func(m *Model, s *service) scheduler{
	"rr":    func(_ *Model, s *service) scheduler { return &roundRobin{service: s, last: -1} },
	"wrr":   newWeightedRoundRobin,
	"lc":    func(m *Model, s *service) scheduler { return &leastConnection{service: s, model: m} },
	"wlc":   func(m *Model, s *service) scheduler { return &weightedLeast{service: s, cost: m.overhead} },
	"sed":   func(_ *Model, s *service) scheduler { return &weightedLeast{service: s, cost: expectedDelay} },
	"nq":    func(_ *Model, s *service) scheduler { return &neverQueue{service: s} },
	"fo":    func(_ *Model, s *service) scheduler { return &failover{service: s} },
	"ovf":   func(_ *Model, s *service) scheduler { return &overflow{service: s} },
	"dh":    newDestinationHash,
	"sh":    newSourceHash,
	"mh":    newMaglev,
	"lblc":  newLocality,
	"lblcr": newReplication,
	"twos":  func(m *Model, s *service) scheduler { return &twoChoices{service: s, model: m} },
}

// Schedulers returns the names of all schedulers, sorted.
func Schedulers() []string { return slices.Sorted(maps.Keys(schedulers)) }

// stateless has nothing to remember of its list.
type stateless struct{}

func (stateless) added(*dest)        {}
func (stateless) removed(*dest, int) {}
func (stateless) updated(*dest)      {}

// roundRobin is rr: the next in the list that may be used. A new service
// stands before the head (ip_vs_rr.c).
type roundRobin struct {
	*service
	last int // place of the latest choice, -1 = before the head
}

func (r *roundRobin) added(*dest) {
	if r.last >= 0 {
		r.last++ // the new one is at the head
	}
}

func (r *roundRobin) removed(_ *dest, at int) {
	if r.last >= at {
		r.last--
	}
}

func (*roundRobin) updated(*dest) {}

func (r *roundRobin) schedule(*flow) *dest {
	for i := r.last + 1; i < len(r.dests); i++ {
		if r.dests[i].usable() {
			r.last = i
			return r.dests[i]
		}
	}
	for i := 0; i <= r.last; i++ {
		if r.dests[i].usable() {
			r.last = i
			return r.dests[i]
		}
	}
	return nil
}

// leastConnection is lc (ip_vs_lc.c).
type leastConnection struct {
	stateless
	*service
	model *Model
}

func (l *leastConnection) schedule(*flow) *dest {
	var least *dest
	best := 0
	for _, d := range l.dests {
		if !d.usable() {
			continue
		}
		if c := l.model.overhead(d); least == nil || c < best {
			least, best = d, c
		}
	}
	return least
}

// weightedLeast is wlc and sed: the least cost for its weight, ties to the
// head (ip_vs_wlc.c, ip_vs_sed.c).
type weightedLeast struct {
	stateless
	*service
	cost func(*dest) int
}

// expectedDelay counts active connections only, which UDP never has.
func expectedDelay(d *dest) int { return d.active + 1 }

func (w *weightedLeast) schedule(*flow) *dest { return leastOf(w.dests, w.cost) }

func leastOf(list []*dest, cost func(*dest) int) *dest {
	var least *dest
	best := 0
	for _, d := range list {
		if !d.usable() {
			continue
		}
		if c := cost(d); least == nil || best*d.weight > c*least.weight {
			least, best = d, c
		}
	}
	return least
}

// neverQueue is nq: the first that has no active connection, else as sed
// (ip_vs_nq.c).
type neverQueue struct {
	stateless
	*service
}

func (n *neverQueue) schedule(*flow) *dest {
	for _, d := range n.dests {
		if d.active == 0 && d.usable() {
			return d
		}
	}
	return leastOf(n.dests, expectedDelay)
}

// failover is fo: the highest weight takes all (ip_vs_fo.c).
type failover struct {
	stateless
	*service
}

func (f *failover) schedule(*flow) *dest {
	var best *dest
	for _, d := range f.dests {
		if d.usable() && (best == nil || d.weight > best.weight) {
			best = d
		}
	}
	return best
}

// overflow is ovf: the highest weight whose active connections do not exceed
// it (ip_vs_ovf.c).
type overflow struct {
	stateless
	*service
}

func (o *overflow) schedule(*flow) *dest {
	var best *dest
	for _, d := range o.dests {
		if d.usable() && d.active <= d.weight && (best == nil || d.weight > best.weight) {
			best = d
		}
	}
	return best
}
