package experiment

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/symptom"
)

const (
	// estimatorWithin bounds the wait until IPVS's counters include a connection that
	// was just made: the estimator takes 2 s (ip_vs_est.c), more on a busy machine.
	estimatorWithin = 10 * time.Second
	estimatorPoll   = 200 * time.Millisecond
)

// Look reads what the guests of a service say about its VIPs, and changes nothing:
// whether the director holds them, who answers ARP for them, what is in the table.
// Only when the table has more entries than the service has counted it sends one
// query, so as to see when the counters have caught up. Without a client nothing can
// be asked: the error is a [*diag.Failure].
func Look(ctx context.Context, lab *Lab, service addr.Noun) ([]symptom.VIP, error) {
	p, err := newProver(lab, service)
	if err != nil {
		return nil, err
	}
	if len(p.cast.clients) == 0 {
		return nil, noClient(service)
	}
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	held, devices, err := p.held(ctx)
	if err != nil {
		return nil, err
	}
	var out []symptom.VIP
	for _, vip := range p.cast.service.VIPs {
		v := symptom.VIP{
			Client: p.cast.clients[0].noun, Director: p.cast.director.noun, Service: service, Address: vip, Port: p.cast.service.Port,
			Local: held[vip], Devices: devices,
		}
		if err := p.whoHas(ctx, &v); err != nil {
			return nil, err
		}
		if v.Table, err = p.table(ctx, vip); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func noClient(service addr.Noun) error {
	f := diag.Fail(nil, "No client to look from", "Declare a client: symptoms show where queries come from.", "the topology has no client that could ask %s", service)
	f.Diagnostic = f.Diagnostic.For(service.String())
	return f
}

// held lists the addresses of the director's cards and of its loopback device.
func (p *prover) held(ctx context.Context) (map[netip.Addr]bool, string, error) {
	names := []string{"lo"}
	for _, nic := range p.lab.Layout.Machines[p.cast.director.noun].NICs {
		names = append(names, nic.Device)
	}
	held := map[netip.Addr]bool{}
	var text []string
	for _, name := range names {
		link, err := maybe(ctx, p.lab, p.cast.director.noun, proto.LinkRead, proto.LinkRef{Name: name})
		if err != nil {
			return nil, "", err
		}
		for _, a := range link.Addresses {
			held[a.Addr()] = link.Up
			text = append(text, a.String()+" on "+name)
		}
	}
	return held, strings.Join(text, ", "), nil
}

// whoHas asks by ARP who has the VIP, from the first client.
func (p *prover) whoHas(ctx context.Context, v *symptom.VIP) error {
	c := p.cast.clients[0]
	link, err := maybe(ctx, p.lab, c.noun, proto.LinkRead, proto.LinkRef{Name: c.device})
	if err != nil {
		return err
	}
	near := func(a netip.Addr) bool {
		for _, net := range link.Addresses {
			if net.Masked().Contains(a) {
				return true
			}
		}
		return false
	}
	if v.OnLink = near(v.Address) && v.Address.Is4(); !v.OnLink { // ARP is IPv4's
		return nil
	}
	ask := proto.ARPAskSpec{Dev: c.device, From: c.addresses[0], Address: v.Address}
	for _, m := range append([]part{p.cast.director}, p.cast.backends...) {
		if a := m.addresses[0]; near(a) {
			ask.Fences = append(ask.Fences, a)
		}
	}
	answers, err := do(ctx, p.lab, c.noun, proto.ARPAsk, ask)
	if err != nil {
		return err
	}
	v.Silent = answers.Silent
	for _, mac := range answers.MACs {
		v.Answers = append(v.Answers, symptom.Owner{MAC: mac, Machine: p.cast.macs[mac]})
	}
	return nil
}

// table compares the rows of the connection table with what the service has counted.
func (p *prover) table(ctx context.Context, vip netip.Addr) (symptom.Table, error) {
	t, err := p.readTable(ctx, vip)
	if err != nil || uint64(t.Rows) <= t.Counted || p.cast.service.FWMark != 0 {
		return t, err
	}
	was := t.Counted
	if _, err := maybe(ctx, p.lab, p.cast.clients[0].noun, proto.Query, p.identity(p.cast.clients[0], vip)); err != nil {
		return t, err
	}
	for end := time.Now().Add(estimatorWithin); time.Now().Before(end); {
		if t, err = p.readTable(ctx, vip); err != nil {
			return t, err
		}
		if t.Settled = t.Counted > was; t.Settled {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return t, context.Cause(ctx)
		case <-time.After(estimatorPoll):
		}
	}
	return t, nil
}

func (p *prover) readTable(ctx context.Context, vip netip.Addr) (symptom.Table, error) {
	var b client.Batch
	// The rows first: an entry that is made meanwhile is then counted, and not the
	// other way round.
	rows := client.Add(&b, proto.IPVSConns, proto.None{})
	services := client.Add(&b, proto.IPVSRead, proto.None{})
	if err := p.lab.send(ctx, p.cast.director.noun, &b); err != nil {
		return symptom.Table{}, err
	}
	var t symptom.Table
	svc := p.cast.service
	dests := map[netip.AddrPort]bool{}
	for _, s := range services.Value() {
		if s.FWMark != svc.FWMark || s.FWMark == 0 && (s.Protocol != svc.Protocol || s.VIP != vip || s.Port != svc.Port) {
			continue
		}
		t.Counted = s.Stats.Conns
		for _, d := range s.Destinations {
			dests[netip.AddrPortFrom(d.Address, d.Port)] = true
		}
	}
	for _, r := range rows.Value() {
		if !strings.EqualFold(r.Protocol, svc.Protocol) || r.Virtual != netip.AddrPortFrom(vip, svc.Port) || r.Client.Port() == 0 {
			continue
		}
		t.Rows++
		if !dests[r.Dest] {
			t.Foreign++
		}
		row := fmt.Sprintf("%s → %s → %s, %d s left", r.Client, r.Virtual, r.Dest, r.Expires)
		if t.Example == "" || row < t.Example {
			t.Example = row
		}
	}
	return t, nil
}
