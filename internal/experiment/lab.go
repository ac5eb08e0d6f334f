package experiment

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
)

// Lab is a lab that is up and configured.
type Lab struct {
	Topology *lang.Topology
	Layout   *topo.Layout
	// Node returns the connection to a machine's agent, nil when there is none.
	Node func(addr.Noun) client.Caller
	// Renew makes machines anew, with the addresses and settings that they had,
	// and returns when they are as declared, but for those that boot another image:
	// images names it by machine. It is carried out to its end even
	// when the context is cancelled meanwhile: after an error the machines are in
	// doubt. Nil when the lab cannot; experiments with isolation need it.
	Renew func(ctx context.Context, machines []addr.Noun, images map[addr.Noun]addr.Noun) ([]Renewed, error)
	// Planned are the decisions that the model of IPVS is certain of before the
	// first run: by run id, then by backend. A run may be missing.
	Planned map[string]map[string]int
	// Kernels are what uname -r has to say on the director, by the image that it
	// boots, the zero noun for the declared one. One may be missing: then whatever
	// it says is right.
	Kernels map[addr.Noun]string
}

// NodeError is a call to a machine that failed. Its cause is a [*proto.Error]
// when the agent answered, and anything else when the machine no longer does.
type NodeError struct {
	Node addr.Noun
	Err  error
}

func (e *NodeError) Error() string { return e.Node.String() + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// answered reports whether every part of err came from inside a guest: a
// condition did not hold there, while guest and connection are fine.
func answered(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !answered(e) {
				return false
			}
		}
		return true
	}
	var inside *proto.Error
	return errors.As(err, &inside)
}

// round is one round trip to several machines at once: a batch for each.
type round struct {
	lab     *Lab
	nodes   []addr.Noun
	batches map[addr.Noun]*client.Batch
}

func (l *Lab) round() *round { return &round{lab: l, batches: map[addr.Noun]*client.Batch{}} }

// on returns the machine's batch.
func (r *round) on(n addr.Noun) *client.Batch {
	b, ok := r.batches[n]
	if !ok {
		b = new(client.Batch)
		r.batches[n], r.nodes = b, append(r.nodes, n)
	}
	return b
}

// run sends all batches and waits for all of them. The error joins a
// [*NodeError] for each machine that failed.
func (r *round) run(ctx context.Context) error {
	errs := make([]error, len(r.nodes))
	var wg sync.WaitGroup
	for i, n := range r.nodes {
		wg.Go(func() { errs[i] = r.lab.send(ctx, n, r.batches[n]) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (l *Lab) send(ctx context.Context, n addr.Noun, b *client.Batch) error {
	c := l.Node(n)
	if c == nil {
		return &NodeError{n, errors.New("the machine has no connection")}
	}
	if err := b.Run(ctx, c); err != nil {
		return &NodeError{n, err}
	}
	return nil
}

// do carries out one call on one machine.
func do[A, R any](ctx context.Context, l *Lab, n addr.Noun, call proto.Call[A, R], args A) (R, error) {
	var b client.Batch
	f := client.Add(&b, call, args)
	err := l.send(ctx, n, &b)
	return f.Value(), err
}

// cast is the machines that take part in an experiment or a proof, resolved.
type cast struct {
	service  lang.Service
	director part
	clients  []part
	backends []part // each once, in the order of the real servers
	// tunnels maps a backend to the device on which it receives from the
	// director, "" when the service does not tunnel.
	tunnels map[addr.Noun]string
	// macs maps the MAC of every machine's every card to the machine.
	macs map[string]addr.Noun
	lab  *Lab
	ways lang.Ways
}

// part is one machine and its card on the measured network.
type part struct {
	noun      addr.Noun
	device    string
	mac       string
	addresses []netip.Addr // of that card
}

// cast resolves the machines of a service and its clients. The topology has
// been validated, so that a gap here is a fault of the program.
func (l *Lab) cast(service addr.Noun, clients []addr.Noun) (*cast, error) {
	svc, ok := l.Topology.Service(service)
	if !ok {
		return nil, fmt.Errorf("%s is not in the topology", service)
	}
	c := &cast{service: svc, tunnels: map[addr.Noun]string{}, macs: map[string]addr.Noun{}, lab: l, ways: lang.Routes(l.Topology)}
	for n, m := range l.Layout.Machines {
		for _, nic := range m.NICs {
			c.macs[nic.MAC] = n
		}
	}
	var err error
	onVIP := func(m lang.Machine) int { // without a VIP, by firewall mark, any will do
		if len(svc.VIPs) == 0 {
			return 0
		}
		return cardOn(l.Topology, m, svc.VIPs[0])
	}
	if c.director, err = l.part(svc.Director, onVIP); err != nil {
		return nil, err
	}
	for _, n := range clients {
		p, err := l.part(n, func(lang.Machine) int { return 0 }) // the one with its addresses
		if err != nil {
			return nil, err
		}
		c.clients = append(c.clients, p)
	}
	for _, r := range svc.RealServers {
		if slices.ContainsFunc(c.backends, func(p part) bool { return p.noun == r.Backend }) {
			continue
		}
		p, err := l.part(r.Backend, func(m lang.Machine) int { return cardWith(m, r.Address) })
		if err != nil {
			return nil, err
		}
		c.backends = append(c.backends, p)
		if !r.Tunnel.IsZero() {
			c.tunnels[r.Backend] = l.Layout.Tunnels[r.Tunnel].Device
		}
	}
	return c, nil
}

// part finds a machine and one of its cards.
func (l *Lab) part(n addr.Noun, card func(lang.Machine) int) (part, error) {
	m, ok := l.Topology.Machine(n)
	laid := l.Layout.Machines[n]
	if !ok || len(m.NICs) == 0 || len(m.NICs) != len(laid.NICs) {
		return part{}, fmt.Errorf("%s is not in the topology, or its layout has other network cards", n)
	}
	i := card(m)
	return part{noun: n, device: laid.NICs[i].Device, mac: laid.NICs[i].MAC, addresses: m.NICs[i].Addresses}, nil
}

// only keeps the first n clients.
func (c *cast) only(clients int) []part { return c.clients[:min(clients, len(c.clients))] }

// counters are those of a machine that are read before and after the load.
func (c *cast) counters(p part) proto.CountersSpec {
	spec := proto.CountersSpec{Links: []string{p.device}}
	if p.noun.Kind == addr.Backend {
		spec.Named = true
		if tun := c.tunnels[p.noun]; tun != "" {
			spec.Tunnels = []string{tun}
		}
	}
	return spec
}
