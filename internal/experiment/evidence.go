package experiment

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// evidence is what one query to one backend alone left on the counters along
// its way; [evidence.symptom] says what it means.
type evidence struct {
	client, backend, director addr.Noun
	vip                       netip.Addr
	refused                   bool // an ICMP error came back; else nothing did

	scheduled  uint64 // connections that IPVS counted
	tunnelled  bool   // the service forwards through a tunnel
	tunnel     proto.TunnelState
	arrived    uint64 // packets that the tunnel device received
	rpFiltered uint64 // packets that reverse path filtering dropped on the backend
	requests   uint64 // requests that named counted
	named      proto.NamedState
}

// diagnose asks one backend alone, as the only one of the list, and compares
// the counters before and after. It returns nil when that query is answered.
func (p *prover) diagnose(ctx context.Context, c part, vip netip.Addr, server int) error {
	target := p.cast.service.RealServers[server].Backend
	who := p.cast.backends[slices.IndexFunc(p.cast.backends, func(b part) bool { return b.noun == target })]
	state, err := p.fresh(ctx, p.proofServices([]int{server}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	before, err := do(ctx, p.lab, who.noun, proto.Counters, p.cast.counters(who))
	if err != nil {
		return err
	}
	answer, asked := do(ctx, p.lab, c.noun, proto.Query, p.identity(c, vip))
	switch {
	case asked == nil && !answer.Refused:
		return judgeOne(target, vip, answer, true)
	case asked == nil:
		asked = errRefused
	case !answered(asked):
		return asked
	}
	ev := evidence{
		client: c.noun, backend: target, director: p.cast.director.noun, vip: vip,
		refused: answer.Refused,
	}
	if err := p.gather(ctx, &ev, who, before, state); err != nil {
		return errors.Join(asked, err)
	}
	return ev.symptom(asked)
}

// gather reads what is known about the query's way.
func (p *prover) gather(ctx context.Context, ev *evidence, who part, before proto.CounterSet, state proto.IPVSFreshState) error {
	r := p.lab.round()
	d := r.on(ev.director)
	live := client.Add(d, proto.IPVSSettled, proto.IPVSSettleSpec{Baseline: state.Baseline, WithinMS: 1})
	b := r.on(who.noun)
	after := client.Add(b, proto.Counters, p.cast.counters(who))
	named := client.Add(b, proto.NamedRead, proto.None{})
	var tunnel *client.Future[proto.TunnelState]
	if device := p.cast.tunnels[who.noun]; device != "" {
		tunnel = client.Add(b, proto.TunnelRead, proto.LinkRef{Name: device})
	}
	if err := r.run(ctx); err != nil && !answered(err) {
		return err
	}
	// A reading that the guest refuses (no such device) leaves zeros, and
	// that is what the thing is worth.
	ev.scheduled = live.Value().Totals.Conns
	ev.named = named.Value()
	if tunnel != nil {
		ev.tunnelled, ev.tunnel = true, tunnel.Value()
		device := p.cast.tunnels[who.noun]
		ev.arrived = increase(before.Links[device].RxPackets, after.Value().Links[device].RxPackets)
	}
	ev.rpFiltered = increase(before.SNMP[rpFilterCounter], after.Value().SNMP[rpFilterCounter])
	if before.Named != nil && after.Value().Named != nil {
		ev.requests = increase(before.Named.Requests, after.Value().Named.Requests)
	}
	return nil
}

// rpFilterCounter counts what strict reverse path filtering drops (ip-sysctl.rst).
const rpFilterCounter = "TcpExt.IPReversePathFilter"

// facts says the evidence in one sentence.
func (ev evidence) facts() string {
	outcome := "timed out"
	if ev.refused {
		outcome = "was refused"
	}
	way := fmt.Sprintf("IPVS scheduled %d", ev.scheduled)
	if ev.tunnelled {
		way += fmt.Sprintf(", the tunnel device received %d", ev.arrived)
	}
	return fmt.Sprintf("A query from %s to %s with %s as the only real server %s: %s, named counted %d.",
		ev.client, ev.vip, ev.backend, outcome, way, ev.requests)
}
