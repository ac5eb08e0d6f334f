package operation

import (
	"context"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
)

// greeting is the lab's very first query. It is sent as soon as what lies on
// its way is configured, while other backends still are: its answer says since
// when the lab answers. It proves nothing more; without it the proof's own first
// answer counts.
type greeting struct {
	ask func(context.Context) time.Time // returns when it was answered

	aside   map[addr.Noun]bool // what is not on the way
	mu      sync.Mutex
	missing map[addr.Resource]bool // on the way of the query, not yet configured
	done    sync.WaitGroup
	at      time.Time // of the answer; zero without one
}

// newGreeting returns nil when nothing is made on the way of the first query,
// or when it cannot be known which backend will get it.
func (a *applying) newGreeting() *greeting {
	t := a.study.topology
	if len(t.Services) == 0 || !headFirst(t.Services[0]) {
		return nil
	}
	svc := t.Services[0]
	g := &greeting{missing: map[addr.Resource]bool{}, ask: func(ctx context.Context) time.Time {
		return experiment.Greet(ctx, a.lab(), svc.Noun)
	}}
	g.aside = beside(t, svc.RealServers[0].Backend)
	for _, c := range a.changes.Changes {
		made := c.Action == provider.Create || c.Action == provider.Replace || c.Action == provider.Update
		if made && !g.aside[c.Addr.Noun] {
			g.missing[c.Addr] = true
		}
	}
	if len(g.missing) == 0 {
		return nil
	}
	return g
}

// headFirst reports whether the first packet of all goes to the first real
// server: it wins the ties of these schedulers when all weights are equal
// (Linux: net/netfilter/ipvs/ip_vs_{rr,wrr,lc,wlc,sed,nq,fo}.c). The others
// choose by addresses or at random.
func headFirst(svc lang.Service) bool {
	switch svc.Scheduler {
	case "rr", "wrr", "lc", "wlc", "sed", "nq", "fo":
	default:
		return false
	}
	for _, rs := range svc.RealServers {
		if rs.Weight != svc.RealServers[0].Weight || rs.Weight == 0 {
			return false
		}
	}
	return len(svc.RealServers) > 0
}

// beside is what is not on the way of a query to that backend: the other
// backends and the tunnels to them.
func beside(t *lang.Topology, backend addr.Noun) map[addr.Noun]bool {
	out := map[addr.Noun]bool{}
	for _, m := range t.Machines {
		if m.Noun.Kind == addr.Backend && m.Noun != backend {
			out[m.Noun] = true
		}
	}
	for _, tunnel := range t.Tunnels {
		if tunnel.To != backend {
			out[tunnel.Noun] = true
		}
	}
	return out
}

// notOnItsWay reports whether a change is for later: a setting of a guest that
// the first query does not pass. All machines come up together.
func (g *greeting) notOnItsWay(c plan.Change) bool {
	return g != nil && g.aside[c.Addr.Noun] && c.Want != nil && !c.Want.Within.IsZero()
}

// observe hears what the walk has done, and sends the query when its way is whole.
func (g *greeting) observe(ctx context.Context, e walk.Event) {
	if g == nil || e.Kind != walk.Done || e.Op == plan.Delete {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.missing[e.Change.Addr] {
		return
	}
	delete(g.missing, e.Change.Addr)
	if len(g.missing) == 0 {
		g.done.Go(func() { g.at = g.ask(ctx) })
	}
}

// answered waits for the answer of a query that is on its way and returns its
// time by the host's clock; zero when none was sent or none came.
func (g *greeting) answered() time.Time {
	if g == nil {
		return time.Time{}
	}
	g.done.Wait()
	return g.at
}
