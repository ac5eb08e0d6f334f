package server

import (
	"context"
	"sync"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerNamed(s *Server) {
	n := &nameServers{bind: &named{life: s.life, key: newControlKey()}, others: map[string]*authority{}}
	for name, kind := range map[string]authorityKind{proto.ServerNSD: nsd{}, proto.ServerKnot: knot{}, proto.ServerUnbound: unbound{}} {
		n.others[name] = &authority{kind: kind, life: s.life}
	}
	Handle(s, proto.NamedApply, n.apply)
	Handle(s, proto.NamedRead, n.read)
	Handle(s, proto.NamedStop, n.stop)
	Handle(s, proto.NamedStats, n.stats)
	s.nameStats = n.stats
	s.preparations[proto.PrepareNamed] = n.bind.prepare
}

// nameServers are those that the guest may have; one answers at a time.
type nameServers struct {
	mu      sync.Mutex
	bind    *named
	others  map[string]*authority
	current *authority // nil for BIND
}

func (n *nameServers) apply(ctx context.Context, spec proto.NamedSpec) (proto.NamedState, error) {
	next, known := n.others[spec.Server]
	if !known && spec.Server != proto.ServerBIND {
		return proto.NamedState{}, fail(proto.CodeUnsupported, spec.Server, "this agent knows no such name server")
	}
	if was := n.now(); was != next {
		if _, err := n.stop(ctx, proto.None{}); err != nil {
			return proto.NamedState{}, err
		}
		n.mu.Lock()
		n.current = next
		n.mu.Unlock()
	}
	if next == nil {
		return n.bind.apply(ctx, spec)
	}
	return next.apply(ctx, spec)
}

func (n *nameServers) now() *authority {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current
}

func (n *nameServers) read(ctx context.Context, none proto.None) (proto.NamedState, error) {
	if a := n.now(); a != nil {
		return a.read(ctx)
	}
	return n.bind.read(ctx, none)
}

func (n *nameServers) stop(ctx context.Context, none proto.None) (proto.None, error) {
	if a := n.now(); a != nil {
		return none, a.stop()
	}
	return n.bind.stop(ctx, none)
}

func (n *nameServers) stats(ctx context.Context, none proto.None) (proto.NamedCounters, error) {
	if a := n.now(); a != nil {
		return a.stats(ctx)
	}
	return namedStats(ctx, none)
}
