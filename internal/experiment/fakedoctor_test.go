package experiment

import (
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// link is a device of a machine. tunl0 is there on backends.
func (f *fakeLab) link(n addr.Noun, name string) (any, error) {
	m, _ := f.top.Machine(n)
	st := proto.LinkState{Name: name, Up: true}
	switch {
	case name == "lo":
		st.Addresses = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}
	case name == "tunl0" && n.Kind == addr.Backend:
		st.Up = f.broken[n] == "fallback"
		st.Counters.RxPackets = 7 + f.fallbackRx[n]
	case name == f.layout.Machines[n].NICs[0].Device:
		st.Addresses = []netip.Prefix{netip.PrefixFrom(m.Address(), 24)}
		if n == f.top.Services[0].Director && !f.vipGone {
			for _, vip := range f.top.Services[0].VIPs {
				st.Addresses = append(st.Addresses, netip.PrefixFrom(vip, 32))
			}
		}
	default:
		return nil, guestError(proto.CodeNotFound, proto.LinkRead.Op, "no such device "+name)
	}
	return st, nil
}

// arp is everybody who says to have an address.
func (f *fakeLab) arp(a proto.ARPAskSpec) proto.ARPAnswers {
	var out proto.ARPAnswers
	if !f.vipGone && slices.Contains(f.top.Services[0].VIPs, a.Address) {
		out.MACs = append(out.MACs, f.mac(f.top.Services[0].Director))
	}
	if !f.thief.IsZero() {
		out.MACs = append(out.MACs, f.mac(f.thief))
	}
	return out
}
