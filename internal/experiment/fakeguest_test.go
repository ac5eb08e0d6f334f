package experiment

import (
	"fmt"
	"net/netip"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// query is one query of a proof or a warm-up.
func (f *fakeLab) query(n addr.Noun, q proto.QuerySpec) (any, error) {
	own := f.backendOf(q.Server)
	if f.refuse == n {
		return proto.QueryAnswer{Refused: true}, nil
	}
	if !own.IsZero() { // on its own address, or past LVS
		f.named[own].Requests++
		return proto.QueryAnswer{Rcode: "NOERROR", Answers: []string{"192.0.2.1"}, Source: q.Server}, nil
	}
	f.port++
	if f.unlucky > 0 {
		f.unlucky--
		return nil, guestError(proto.CodeTimeout, "query", "no answer")
	}
	m, _ := f.top.Machine(n)
	f.nicRx[f.top.Services[0].Director]++
	i := f.schedule(flow{netip.AddrPortFrom(m.Address(), f.port), q.Server})
	if i < 0 {
		return proto.QueryAnswer{Refused: true, LocalPort: f.port}, nil
	}
	b := f.backendOf(f.serviceAt(q.Server).Destinations[i].Address)
	f.sightQuery(m, f.port, q.Server, b)
	switch f.broken[b] {
	case "no receiver":
		return proto.QueryAnswer{Refused: true, LocalPort: f.port}, nil
	case "filtered":
		return nil, guestError(proto.CodeTimeout, "query", "no answer")
	case "rp_filter":
		f.tunnelRx[b]++
		f.rpDrops[b]++
		return nil, guestError(proto.CodeTimeout, "query", "no answer")
	case "no vip", "not listening":
		f.tunnelRx[b]++
		return nil, guestError(proto.CodeTimeout, "query", "no answer")
	}
	if f.broken[b] == "fallback" {
		f.fallbackRx[b]++
	} else {
		f.tunnelRx[b]++
	}
	f.named[b].Requests++
	f.named[b].Responses++
	a := proto.QueryAnswer{Rcode: "NOERROR", Answers: []string{"192.0.2.1"}, Source: q.Server, LocalPort: f.port, RTTUS: 900 + f.slower.Microseconds()}
	if q.Class == "CH" {
		a.Answers = []string{fmt.Sprintf("%q", b.String())}
	}
	switch f.broken[b] {
	case "lost on return":
		return nil, guestError(proto.CodeTimeout, "query", "no answer")
	case "other name":
		a.Answers = []string{`"backend.other[7]"`}
	case "own source":
		a.Source = f.serviceAt(q.Server).Destinations[i].Address
	case "refuses":
		a.Rcode = "REFUSED"
	}
	return a, nil
}

func (f *fakeLab) counters(n addr.Noun, spec proto.CountersSpec) proto.CounterSet {
	set := proto.CounterSet{Links: map[string]proto.LinkCounters{}, SNMP: map[string]uint64{
		"TcpExt.IPReversePathFilter": f.rpDrops[n], "Ip.InReceives": 100 + f.nicRx[n], "Icmp.InMsgs": 40,
	}}
	for _, l := range spec.Links {
		set.Links[l] = proto.LinkCounters{RxPackets: 900 + f.nicRx[n]}
	}
	for _, l := range spec.Tunnels {
		set.Links[l] = proto.LinkCounters{RxPackets: 3 + f.tunnelRx[n]}
	}
	if spec.Named {
		c := *f.named[n]
		set.Named = &c
	}
	if f.reading != nil {
		f.reading(n, f.callCount[n.String()+proto.Counters.Op], &set)
	}
	return set
}

func (f *fakeLab) kernelLog(n addr.Noun, since uint64) []proto.KernelLine {
	var out []proto.KernelLine
	for _, l := range f.klog[n] {
		if l.Seq > since {
			out = append(out, l)
		}
	}
	return out
}

func (f *fakeLab) tunnel(n addr.Noun) proto.TunnelState {
	m, _ := f.top.Machine(n)
	st := proto.TunnelState{Up: true, MTU: 1480, TunnelSpec: proto.TunnelSpec{
		Name: f.layout.Tunnels[tunnelTo(n)].Device, Type: "ipip", Local: m.Address(), Remote: ip("198.18.0.20"),
	}}
	if f.broken[n] != "no vip" {
		for _, vip := range f.top.Services[0].VIPs {
			st.Addresses = append(st.Addresses, netip.PrefixFrom(vip, 32))
		}
	}
	if f.broken[n] == "no receiver" || f.broken[n] == "fallback" {
		st.Up = false
	}
	st.Counters.RxPackets = 3 + f.tunnelRx[n]
	return st
}

func (f *fakeLab) listens(n addr.Noun) []netip.Addr {
	m, _ := f.top.Machine(n)
	out := []netip.Addr{m.Address()}
	if f.broken[n] != "not listening" {
		out = append(out, f.top.Services[0].VIPs...)
	}
	return out
}
