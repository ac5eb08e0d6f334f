package replay

import (
	"net/netip"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/load"
)

// Sent makes the packets of a run: over UDP each query is one, sent to the
// service's port; over TCP the segments are, and the machine behind a
// connection is the one that answered its queries.
func Sent(queries []load.Query, segments []load.Segment, port uint16) ([]Packet, error) {
	var out []Packet
	if len(segments) == 0 {
		for _, q := range queries {
			out = append(out, Packet{N: q.N, Time: q.Time, Client: netip.AddrPortFrom(q.Client, q.Port), VIP: netip.AddrPortFrom(q.VIP, port),
				Protocol: q.Protocol, Backend: q.Backend})
		}
		return out, nil
	}
	behind := connections(queries, port)
	for _, s := range segments {
		flags, err := ipvsmodel.ParseFlags(s.Flags)
		if err != nil {
			return nil, err
		}
		out = append(out, Packet{N: s.N, Time: s.Time, Client: s.Client, VIP: s.VIP, Protocol: "tcp", Flags: flags,
			Backend: behind[[2]netip.AddrPort{s.Client, s.VIP}]})
	}
	return out, nil
}

// connections are the machines behind the connections; "" where two answered,
// one after the other on the same ports.
func connections(queries []load.Query, port uint16) map[[2]netip.AddrPort]string {
	out := map[[2]netip.AddrPort]string{}
	for _, q := range queries {
		if q.Backend == "" {
			continue
		}
		k := [2]netip.AddrPort{netip.AddrPortFrom(q.Client, q.Port), netip.AddrPortFrom(q.VIP, port)}
		if had, ok := out[k]; ok && had != q.Backend {
			out[k] = ""
			continue
		}
		out[k] = q.Backend
	}
	return out
}
