package lang

import (
	"fmt"

	"github.com/lvslab/lvslab/internal/addr"
)

// Bytes of headers, without options.
const (
	ipHeader  = 20
	ip6Header = 40
	udpHeader = 8
	greHeader = 4
	gueHeader = 4
	dnsHeader = 12
	// ednsOption is the OPT record of a query (RFC 6891) that asks the server for
	// its identity (RFC 5001).
	ednsOption = 11 + 4
	// smallestPacket is what IPVS sends into a tunnel at all: one with room for
	// less drops everything (ip_vs_xmit.c:__ip_vs_get_out_rt).
	smallestPacket = 68
	// smallest6 is what every link must take for IPv6 (RFC 8200, section 5).
	smallest6 = 1280
)

// overhead is what a tunnel puts before a packet, in bytes: the outer IP header and
// what comes with its type (ip_vs_xmit.c:ip_vs_tunnel_xmit).
func (tun Tunnel) overhead() int {
	n := ipHeader
	if tun.Local.Is6() {
		n = ip6Header
	}
	switch tun.Type {
	case "gre":
		n += greHeader
		if tun.Checksum == "full" {
			n += 4
		}
	case "gue":
		n += udpHeader + gueHeader
		if tun.Checksum == "remote" {
			n += 8 // the private flags, and where the inner checksum is
		}
	}
	return n
}

// roomInTunnels refuses networks through which a tunnel cannot take the largest
// query: IPVS does not fragment, and no smaller one is left to ask for.
func (r *rules) roomInTunnels() {
	type want struct {
		tunnel Tunnel
		inner  int
	}
	most := map[addr.Noun]want{} // by network
	for _, s := range r.t.Services {
		if s.Forward != "tunnel" || r.d.noun(s.Noun) {
			continue
		}
		for _, rs := range s.RealServers {
			tun, ok := r.t.tunnel(rs.Tunnel)
			from, okFrom := r.t.Machine(tun.From)
			if !ok || !okFrom || r.d.noun(tun.Noun) || r.d.noun(from.Noun) || r.d.noun(tun.To) {
				continue
			}
			w := want{tunnel: tun, inner: max(smallestPacket, r.largestQuery(rs.Backend)+index(s.v6())*(ip6Header-ipHeader))}
			for _, n := range r.path(from, tun) {
				if o, seen := most[n.Noun]; !seen || w.inner+tun.overhead() > o.inner+o.tunnel.overhead() {
					most[n.Noun] = w
				}
			}
		}
	}
	for _, n := range r.t.Networks {
		if n.CIDR.Addr().Is6() && n.MTU < smallest6 && !r.d.arg(n.Noun, "mtu") {
			r.fail(n.Noun, "mtu", n.Range, "MTU too small for IPv6", fmt.Sprintf("Give %s an mtu of at least %d.", n.Noun.Block(), smallest6),
				"%s has an MTU of %d; IPv6 does not work below %d (RFC 8200).", n.Noun, n.MTU, smallest6)
			continue
		}
		w, ok := most[n.Noun]
		if need := w.inner + w.tunnel.overhead(); ok && n.MTU < need && !r.d.arg(n.Noun, "mtu") {
			r.fail(n.Noun, "mtu", n.Range, "MTU too small for the tunnel", fmt.Sprintf("Give %s an mtu of at least %d.", n.Noun.Block(), need),
				"%s leads through %s, which takes packets of %d bytes; the largest query has %d, and %s puts %d before it.",
				w.tunnel.Noun, n.Noun, n.MTU, w.inner, w.tunnel.Type, w.tunnel.overhead())
		}
	}
}

// largestQuery is the size of the largest query that a backend's zones are asked,
// as an IPv4 packet of UDP: over TCP packets become as small as they must.
func (r *rules) largestQuery(backend addr.Noun) int {
	b, _ := r.t.Machine(backend)
	largest := 0
	for _, n := range b.Serves {
		zone, _ := r.t.Zone(n)
		for _, record := range zone.Records {
			name := zone.Name
			if record.Name != "@" {
				name = record.Name + "." + name
			}
			// A name has a byte of length before each label, and one for the root.
			largest = max(largest, ipHeader+udpHeader+dnsHeader+len(name)+2+4+ednsOption)
		}
	}
	return largest
}

// path lists the networks that a tunnel's packets pass on their way.
func (r *rules) path(m Machine, tun Tunnel) []Network {
	var out []Network
	for range r.t.Machines { // as many steps as there are machines at most
		way, ok := r.way(m, tun.Local)
		if !ok {
			break // no way, which was told
		}
		if n, ok := r.t.Network(m.NICs[way.NIC].Network); ok {
			out = append(out, n)
		}
		if way.Next.IsZero() {
			break
		}
		if m, ok = r.t.Machine(way.Next); !ok {
			break
		}
	}
	return out
}

func (t *Topology) tunnel(n addr.Noun) (Tunnel, bool) {
	for i := range t.Tunnels {
		if t.Tunnels[i].Noun == n {
			return t.Tunnels[i], true
		}
	}
	return Tunnel{}, false
}
