package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// agent is a guest in memory: it keeps what it is told and reads it back.
type agent struct {
	mu      sync.Mutex
	ops     map[string]func(json.RawMessage) (any, error)
	batches [][]string // the operations of each batch

	links    map[string]proto.LinkState
	netem    map[string]proto.NetemSpec
	tunnels  map[string]proto.TunnelState
	routes   map[netip.Prefix]proto.RouteSpec
	sysctl   map[string]string
	services []proto.IPVSService
	marks    map[proto.MarkRef]proto.MarkSpec
	nat      map[string]proto.MasqueradeState // by device
	named    proto.NamedState
	hold     chan struct{} // when set, a batch waits for it
}

func on[A, R any](a *agent, call proto.Call[A, R], f func(A) (R, error)) {
	a.ops[call.Op] = func(raw json.RawMessage) (any, error) {
		var args A
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, err
		}
		return f(args)
	}
}

func notFound(subject string) error {
	return &proto.Error{Code: proto.CodeNotFound, Subject: subject, Message: "is not there"}
}

func newAgent() *agent {
	a := &agent{ops: map[string]func(json.RawMessage) (any, error){}, links: map[string]proto.LinkState{}, netem: map[string]proto.NetemSpec{},
		tunnels: map[string]proto.TunnelState{}, routes: map[netip.Prefix]proto.RouteSpec{}, sysctl: map[string]string{},
		marks: map[proto.MarkRef]proto.MarkSpec{}, nat: map[string]proto.MasqueradeState{}}
	on(a, proto.LinkApply, func(s proto.LinkSpec) (proto.LinkState, error) {
		a.links[s.MAC] = proto.LinkState{Name: s.Name, MAC: s.MAC, MTU: s.MTU, Up: true, Addresses: s.Addresses}
		return a.links[s.MAC], nil
	})
	on(a, proto.LinkRead, func(r proto.LinkRef) (proto.LinkState, error) {
		st, ok := a.links[r.MAC]
		if !ok {
			return st, notFound(r.MAC)
		}
		st.Addresses = proto.KernelOrder(st.Addresses)
		return st, nil
	})
	on(a, proto.LinkDelete, func(r proto.LinkRef) (proto.None, error) { delete(a.links, r.MAC); return proto.None{}, nil })
	on(a, proto.NetemApply, func(n proto.NetemSpec) (proto.NetemSpec, error) { a.netem[n.Dev] = n; return n, nil })
	on(a, proto.NetemRead, func(r proto.LinkRef) (proto.NetemSpec, error) { return a.netem[a.links[r.MAC].Name], nil })
	on(a, proto.TunnelApply, func(s proto.TunnelSpec) (proto.TunnelState, error) {
		a.tunnels[s.Name] = proto.TunnelState{TunnelSpec: s, MTU: 1480, Up: true}
		return a.tunnels[s.Name], nil
	})
	on(a, proto.TunnelRead, func(r proto.LinkRef) (proto.TunnelState, error) {
		if st, ok := a.tunnels[r.Name]; ok {
			return st, nil
		}
		return proto.TunnelState{}, notFound(r.Name)
	})
	on(a, proto.TunnelDelete, func(r proto.LinkRef) (proto.None, error) { delete(a.tunnels, r.Name); return proto.None{}, nil })
	on(a, proto.RouteApply, func(r proto.RouteSpec) (proto.RouteSpec, error) { a.routes[r.To] = r; return r, nil })
	on(a, proto.RouteRead, func(r proto.RouteSpec) (proto.RouteSpec, error) {
		if have, ok := a.routes[r.To]; ok {
			return have, nil
		}
		return r, notFound(r.To.String())
	})
	on(a, proto.RouteDelete, func(r proto.RouteSpec) (proto.None, error) { delete(a.routes, r.To); return proto.None{}, nil })
	a.addSysctl()
	a.addNamed()
	a.addIPVS()
	a.addMasquerade()
	on(a, proto.MarkApply, func(m proto.MarkSpec) (proto.MarkSpec, error) {
		m.Targets = slices.Clone(m.Targets)
		for i := range m.Targets {
			m.Targets[i].Packets = 3
		}
		a.marks[m.MarkRef] = m
		return m, nil
	})
	on(a, proto.MarkRead, func(r proto.MarkRef) (proto.MarkSpec, error) {
		if m, ok := a.marks[r]; ok {
			return m, nil
		}
		return proto.MarkSpec{}, notFound(fmt.Sprint(r.Mark))
	})
	on(a, proto.MarkDelete, func(r proto.MarkRef) (proto.None, error) { delete(a.marks, r); return proto.None{}, nil })
	return a
}

func (a *agent) addSysctl() {
	on(a, proto.SysctlApply, func(want map[string]string) (map[string]string, error) {
		maps.Copy(a.sysctl, want)
		return want, nil
	})
	on(a, proto.SysctlRead, func(names []string) (map[string]string, error) {
		have := map[string]string{}
		for _, n := range names {
			if v, ok := a.sysctl[n]; ok {
				have[n] = v
			}
		}
		return have, nil
	})
}

func (a *agent) addNamed() {
	on(a, proto.NamedApply, func(s proto.NamedSpec) (proto.NamedState, error) {
		a.named = proto.NamedState{Server: s.Server, Running: true, Version: "9.18.49", ServerID: s.ServerID, Zones: map[string]string{}, Listen: s.Listen}
		for _, z := range s.Zones {
			if z.Text == "refused" {
				return proto.NamedState{}, &proto.Error{Code: proto.CodeInvalid, Subject: z.Name, Message: "named refuses the zone: line 1"}
			}
			a.named.Zones[z.Name] = sum(z.Text)
		}
		return a.named, nil
	})
	on(a, proto.NamedRead, func(proto.None) (proto.NamedState, error) { return a.named, nil })
	on(a, proto.NamedStop, func(proto.None) (proto.None, error) { a.named = proto.NamedState{}; return proto.None{}, nil })
}

func (a *agent) addIPVS() {
	at := func(k proto.IPVSKey) int {
		return slices.IndexFunc(a.services, func(s proto.IPVSService) bool { return s.IPVSKey == k })
	}
	on(a, proto.IPVSPreflight, func(n proto.IPVSNeeds) (proto.IPVSInfo, error) {
		if slices.Contains(n.Schedulers, "twos") {
			return proto.IPVSInfo{}, &proto.Error{Code: proto.CodeUnsupported, Subject: "ip_vs_twos", Message: "no such module"}
		}
		return proto.IPVSInfo{}, nil
	})
	on(a, proto.IPVSApply, func(s proto.IPVSService) (proto.IPVSService, error) {
		// As the kernel lists it: live timeouts, counters, a tunnel type.
		s.Timeouts = proto.IPVSTimeouts{TCP: 900, TCPFin: 120, UDP: 300}
		s.Netmask = 32
		for i := range s.Destinations {
			s.Destinations[i].Stats.Conns = 7
			if s.Destinations[i].Forward != "tunnel" {
				s.Destinations[i].TunnelType = "ipip"
			}
		}
		if i := at(s.IPVSKey); i >= 0 {
			a.services[i] = s
		} else {
			a.services = append(a.services, s)
		}
		return s, nil
	})
	on(a, proto.IPVSRead, func(proto.None) ([]proto.IPVSService, error) { return a.services, nil })
	on(a, proto.IPVSDelete, func(k proto.IPVSKey) (proto.None, error) {
		if i := at(k); i >= 0 {
			a.services = slices.Delete(a.services, i, i+1)
		}
		return proto.None{}, nil
	})
}

// Call does what the real agent does: in order, up to the first error.
func (a *agent) Call(ctx context.Context, calls []proto.Envelope) ([]proto.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, c := range calls {
		names = append(names, c.Op)
	}
	a.batches = append(a.batches, names)
	if a.hold != nil {
		select {
		case <-a.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var results []proto.Result
	for _, c := range calls {
		v, err := a.ops[c.Op](c.Args)
		var e *proto.Error
		if errors.As(err, &e) {
			e.Op = c.Op
			return append(results, proto.Result{Error: e}), nil
		}
		raw, err2 := json.Marshal(v)
		if err := errors.Join(err, err2); err != nil {
			return results, err
		}
		results = append(results, proto.Result{Value: raw})
	}
	return results, nil
}

// bench is a provider with one guest behind it.
type bench struct {
	*Provider
	agent *agent
	boot  string
	err   error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{agent: newAgent(), boot: "boot-1"}
	b.Provider = New(func(context.Context, string) (client.Caller, string, error) { return b.agent, b.boot, b.err })
	return b
}

func (a *agent) addMasquerade() {
	on(a, proto.MasqueradeApply, func(r proto.MasqueradeRef) (proto.MasqueradeState, error) {
		a.nat[r.Dev] = proto.MasqueradeState{MasqueradeRef: r, Flows: 3}
		return a.nat[r.Dev], nil
	})
	on(a, proto.MasqueradeRead, func(r proto.MasqueradeRef) (proto.MasqueradeState, error) {
		if m, ok := a.nat[r.Dev]; ok {
			return m, nil
		}
		return proto.MasqueradeState{}, notFound(r.Dev)
	})
	on(a, proto.MasqueradeDelete, func(r proto.MasqueradeRef) (proto.None, error) { delete(a.nat, r.Dev); return proto.None{}, nil })
}
