package replay

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// flow is what NAT keeps apart: it gives no two of them the same source port.
type flow struct {
	client, vip netip.AddrPort
	protocol    string
}

// translate gives the packets the addresses that the director saw. NAT keeps a
// source port that is free (nf_nat_core.c, get_unique_tuple). Where two flows of a
// group had the same one, the captures do not tell which port it chose for the second:
// the flow gets one that nobody has, which keeps it apart, and rewritten says so.
func translate(in Input) (out Input, rewritten string) {
	if len(in.Seen) == 0 {
		return in, ""
	}
	in.Packets = slices.Clone(in.Packets)
	taken := map[flow]netip.AddrPort{} // as the director sees it → the client's own
	var later []int
	for i := range in.Packets {
		p := &in.Packets[i]
		f, own := p.seen(in.Seen)
		p.Own = own.Addr()
		if owner, known := taken[f]; known && owner != own {
			later = append(later, i)
			if rewritten == "" {
				rewritten = fmt.Sprintf("%s and %s are both %s for the director, and which port the second has there is not recorded", owner, own, f.client.Addr())
			}
			continue
		}
		taken[f] = own
		p.Client = f.client
	}
	standIn(in, later, taken)
	return in, rewritten
}

// seen is the packet's flow with the client as the director sees it, and the client.
func (p *Packet) seen(by map[netip.Addr]netip.Addr) (flow, netip.AddrPort) {
	as, ok := by[p.Client.Addr()]
	if !ok {
		as = p.Client.Addr()
	}
	return flow{netip.AddrPortFrom(as, p.Client.Port()), p.VIP, p.Protocol}, p.Client
}

// standIn gives the flows of these packets ports that nobody has.
func standIn(in Input, later []int, taken map[flow]netip.AddrPort) {
	given := map[flow]netip.AddrPort{} // by the client's own
	for _, i := range later {
		p := &in.Packets[i]
		f, own := p.seen(in.Seen)
		key := flow{own, p.VIP, p.Protocol}
		for port := uint16(1024); !given[key].IsValid() && port > 0; port++ {
			f.client = netip.AddrPortFrom(f.client.Addr(), port)
			if _, known := taken[f]; !known {
				taken[f], given[key] = own, f.client
			}
		}
		if given[key].IsValid() { // else 64,512 flows have them all
			p.Client = given[key]
		}
	}
}

// hashesPorts reports whether a service's scheduler looks at the source port.
func hashesPorts(in Input) bool {
	return slices.ContainsFunc(in.Before, func(s proto.IPVSService) bool {
		return slices.Contains(s.Flags, s.Scheduler+"-port")
	})
}
