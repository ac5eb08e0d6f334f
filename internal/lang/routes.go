package lang

import (
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
)

// masquerade is the way of forwarding that rewrites addresses on the director.
const masquerade = "masquerade"

// Route is the way from a machine to a network that it is not on.
type Route struct {
	To      netip.Prefix // 0.0.0.0/0 for all that is not near
	Network addr.Noun    // zero when the route is the default one
	Via     netip.Addr   // of Next, on the network of the NIC
	NIC     int          // of the machine, by which packets leave
	Next    addr.Noun    // the machine that takes them on
	Hops    int          // machines in between
}

// Ways are the routes of all machines, in the order of the networks.
type Ways map[addr.Noun][]Route

// Routes computes what every machine needs to reach every network: the way with
// the fewest machines in between, the one declared first among equals. Routers
// forward, and directors that masquerade: what they send on has the backends'
// answers for its other half.
//
// The backends of such a director have one route, the default one through it: an
// answer that took another way would reach the client with the backend's own
// address (ip_vs_core.c: answers are translated in the director's FORWARD hook).
func Routes(t *Topology) Ways {
	cidrs := map[addr.Noun]netip.Prefix{}
	for _, n := range t.Networks {
		cidrs[n.Noun] = n.CIDR
	}
	forwarding := t.forwarders()
	ways := Ways{}
	for _, m := range t.Machines {
		found := [2]map[addr.Noun]Route{search(m, forwarding, false), search(m, forwarding, true)}
		for _, n := range t.Networks {
			if r, ok := found[index(n.CIDR.Addr().Is6())][n.Noun]; ok && r.Hops > 0 && cidrs[n.Noun].IsValid() {
				r.To, r.Network = cidrs[n.Noun], n.Noun
				ways[m.Noun] = append(ways[m.Noun], r)
			}
		}
	}
	for _, s := range t.Services {
		director, ok := t.Machine(s.Director)
		if s.Forward != masquerade || !ok {
			continue
		}
		for _, rs := range s.RealServers {
			if b, ok := t.Machine(rs.Backend); ok {
				if i, via := beside(b, director, rs.Address.Is6()); via.IsValid() {
					ways[b.Noun] = []Route{{To: all(via), Via: via, NIC: i, Next: director.Noun, Hops: 1}}
				}
			}
		}
	}
	return ways
}

// Forwards reports whether a machine sends on what is not meant for it.
func (t *Topology) Forwards(n addr.Noun) bool {
	return n.Kind == addr.Router || slices.ContainsFunc(t.Services, func(s Service) bool { return s.Director == n && s.Forward == masquerade })
}

func (t *Topology) forwarders() []Machine {
	var out []Machine
	for _, m := range t.Machines {
		if t.Forwards(m.Noun) {
			out = append(out, m)
		}
	}
	return out
}

// all is the prefix of everything in an address's family.
func all(a netip.Addr) netip.Prefix {
	if a.Is6() {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

func index(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// of reports whether a card speaks IPv6 or IPv4, which its network decides.
func (n NIC) of(v6 bool) bool { return len(n.Addresses) > 0 && n.Addresses[0].Is6() == v6 }

// search goes from a machine over all machines that forward, breadth first, and
// returns the way to each network of one family; those that the machine is on have
// no hop.
func search(m Machine, forwarding []Machine, v6 bool) map[addr.Noun]Route {
	found := map[addr.Noun]Route{}
	var queue []addr.Noun
	for i, nic := range m.NICs {
		if !nic.of(v6) {
			continue
		}
		if _, twice := found[nic.Network]; !twice {
			found[nic.Network] = Route{NIC: i}
			queue = append(queue, nic.Network)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, f := range forwarding {
			entry := slices.IndexFunc(f.NICs, func(n NIC) bool { return n.Network == at && n.of(v6) })
			if entry < 0 || f.Noun == m.Noun || f.Masquerade == at && !at.IsZero() {
				continue // behind one that masquerades everybody is hidden
			}
			r := found[at]
			if r.Hops == 0 {
				r.Via, r.Next = f.NICs[entry].Addresses[0], f.Noun
			}
			r.Hops++
			for _, nic := range f.NICs {
				if _, known := found[nic.Network]; !known && nic.of(v6) {
					found[nic.Network] = r
					queue = append(queue, nic.Network)
				}
			}
		}
	}
	return found
}

// beside returns the NIC of a by which b is reached without anybody in between,
// and b's address there, invalid when there is none.
func beside(a, b Machine, v6 bool) (int, netip.Addr) {
	for i, na := range a.NICs {
		for _, nb := range b.NICs {
			if na.Network == nb.Network && nb.of(v6) {
				return i, nb.Addresses[0]
			}
		}
	}
	return 0, netip.Addr{}
}

// Way returns the first step from a machine to an address: over a network that it
// is on Next is zero and Via the address itself. ok is false when there is no way.
func (w Ways) Way(t *Topology, m Machine, to netip.Addr) (r Route, ok bool) {
	for i, nic := range m.NICs {
		if n, ok := t.Network(nic.Network); ok && n.CIDR.IsValid() && n.CIDR.Contains(to) {
			return Route{To: n.CIDR, Network: n.Noun, Via: to, NIC: i}, true
		}
	}
	for _, r := range w[m.Noun] {
		if r.To.Contains(to) {
			return r, true
		}
	}
	return Route{}, false
}

// facing returns the addresses by which two machines see each other: on the first
// network that they share, else where the shortest way between them leaves and
// arrives, so that a packet's source is the address that the other one expects.
//
// Where they meet in both families it is the one that is asked for.
func (t *Topology) facing(a, b Machine, v6 bool) (ofA, ofB netip.Addr) {
	for _, family := range []bool{v6, !v6} {
		if ofA, ofB, ok := t.meet(a, b, family); ok {
			return ofA, ofB
		}
	}
	return a.primary(), b.primary()
}

// meet is facing in one family.
func (t *Topology) meet(a, b Machine, v6 bool) (ofA, ofB netip.Addr, ok bool) {
	for _, na := range a.NICs {
		for _, nb := range b.NICs {
			if na.Network == nb.Network && na.of(v6) && nb.of(v6) {
				return na.Addresses[0], nb.Addresses[0], true
			}
		}
	}
	best := 0
	found := search(a, t.forwarders(), v6)
	for _, nic := range b.NICs {
		r, ok := found[nic.Network]
		if !ok || !nic.of(v6) || best > 0 && r.Hops >= best {
			continue
		}
		best, ofA, ofB = r.Hops, a.NICs[r.NIC].Addresses[0], nic.Addresses[0]
	}
	return ofA, ofB, best > 0
}
