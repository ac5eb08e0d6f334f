package experiment

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/symptom"
)

// diagnose asks one backend alone, as the only one of the list, and compares
// the counters before and after. It returns nil when that query is answered.
func (p *prover) diagnose(ctx context.Context, c part, vip netip.Addr, server int) error {
	state, err := p.fresh(ctx, p.proofServices([]int{server}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	path, asked, err := p.follow(ctx, c, vip, server, state.Baseline)
	if err != nil {
		return err
	}
	if path.Alone = true; path.Answer != nil && !path.Answer.Refused {
		return judgeOne(path.Backend, vip, *path.Answer, true)
	}
	if f := path.Judge(); f != nil {
		return f.Failure(asked)
	}
	return asked
}

// follow sends one query that the given real server must get, and reads what it
// left on its way. asked is how it ended when there was no answer, err what keeps
// the evidence from being read.
func (p *prover) follow(ctx context.Context, c part, vip netip.Addr, server int, baseline proto.IPVSTotals) (path symptom.Path, asked, err error) {
	target := p.cast.service.RealServers[server].Backend
	who := p.cast.backends[slices.IndexFunc(p.cast.backends, func(b part) bool { return b.noun == target })]
	path = symptom.Path{Client: c.noun, Backend: target, Director: p.cast.director.noun, VIP: vip}
	before, err := p.read(ctx, who, baseline)
	if err != nil {
		return path, nil, err
	}
	answer, asked := do(ctx, p.lab, c.noun, proto.Query, p.identity(c, vip))
	switch {
	case asked == nil:
		path.Answer = &answer
		if answer.Refused {
			asked = errRefused
		}
	case !answered(asked):
		return path, nil, asked
	}
	after, err := p.read(ctx, who, baseline)
	if err != nil {
		return path, nil, errors.Join(asked, err)
	}
	path.Scheduled = increase(before.live.Conns, after.live.Conns)
	// Last, as it asks named for the serials of its zones, which counts as requests.
	if path.Named, err = maybe(ctx, p.lab, who.noun, proto.NamedRead, proto.None{}); err != nil {
		return path, nil, errors.Join(asked, err)
	}
	path.Tunnelled, path.Tunnel, path.Fallback = p.cast.tunnels[target] != "", after.tunnel, after.fallback
	path.Arrived = increase(before.tunnel.Counters.RxPackets, after.tunnel.Counters.RxPackets)
	path.OnFallback = increase(before.onFallback, after.onFallback)
	path.RPFiltered = increase(before.snmp[symptom.RPFilterCounter], after.snmp[symptom.RPFilterCounter])
	path.Requests = increase(before.requests, after.requests)
	return path, asked, nil
}

// reading is what stands on the counters of the director and of one backend. What
// a guest has not (a device that was deleted) is zero, and that is what it is worth.
type reading struct {
	live       proto.IPVSTotals // increase since the clean slate
	snmp       map[string]uint64
	tunnel     proto.TunnelState
	fallback   string
	onFallback uint64 // packets
	requests   uint64
}

// read asks for each thing by itself: a batch would end at the first that is missing.
func (p *prover) read(ctx context.Context, who part, baseline proto.IPVSTotals) (reading, error) {
	var r reading
	stats, err := maybe(ctx, p.lab, p.cast.director.noun, proto.IPVSSettled, proto.IPVSSettleSpec{Baseline: baseline, WithinMS: 1})
	r.live = stats.Totals
	set, e := maybe(ctx, p.lab, who.noun, proto.Counters, proto.CountersSpec{})
	r.snmp, err = set.SNMP, errors.Join(err, e)
	counted, e := maybe(ctx, p.lab, who.noun, proto.NamedStats, proto.None{})
	r.requests, err = counted.Requests, errors.Join(err, e)
	if device := p.cast.tunnels[who.noun]; device != "" {
		r.tunnel, e = maybe(ctx, p.lab, who.noun, proto.TunnelRead, proto.LinkRef{Name: device})
		err = errors.Join(err, e)
		link, e := maybe(ctx, p.lab, who.noun, proto.LinkRead, proto.LinkRef{Name: p.fallback(who.noun)})
		r.fallback, r.onFallback, err = link.Name, link.Counters.RxPackets, errors.Join(err, e)
	}
	return r, err
}

// fallback is the device that comes with the tunnel's module and takes every packet
// that no named device wants.
func (p *prover) fallback(backend addr.Noun) string {
	for _, t := range p.lab.Topology.Tunnels {
		if t.To != backend || t.From != p.cast.director.noun {
			continue
		}
		switch vips := p.cast.service.VIPs; {
		case t.Type == "gre":
			return "gre0"
		case t.Local.Is6():
			return "ip6tnl0"
		case len(vips) > 0 && vips[0].Is6():
			return "sit0"
		}
	}
	return "tunl0"
}

// maybe is one call whose refusal by the guest gives the zero value: the thing is
// not there.
func maybe[A, R any](ctx context.Context, l *Lab, n addr.Noun, call proto.Call[A, R], args A) (R, error) {
	v, err := do(ctx, l, n, call, args)
	if err != nil && answered(err) {
		var none R
		return none, nil
	}
	return v, err
}
