package experiment

import (
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// hop is the machine that a client's packets reach first, and the address that
// the client asks for by ARP to find it.
type hop struct {
	noun    addr.Noun
	mac     string
	address netip.Addr
}

// hop returns the first step of a client towards an address of the target: the
// target itself on a network of its own, else a router.
func (c *cast) hop(client part, target addr.Noun, to netip.Addr) hop {
	m, _ := c.lab.Topology.Machine(client.noun)
	r, ok := c.ways.Way(c.lab.Topology, m, to)
	if !ok {
		return hop{address: to} // the topology has been validated: nobody's MAC will do
	}
	next := r.Next
	if next.IsZero() {
		next = target
	}
	return hop{next, c.macOn(next, m.NICs[r.NIC].Network), r.Via}
}

// macOn is the MAC of a machine's card on a network, "" when it has none.
func (c *cast) macOn(n addr.Noun, network addr.Noun) string {
	for _, nic := range c.lab.Layout.Machines[n].NICs {
		if nic.Network == network {
			return nic.MAC
		}
	}
	return ""
}

// hops are the names of all machines that the queries of a run may reach first.
func (c *cast) hops(s Setting) map[string]bool {
	out := map[string]bool{}
	for _, p := range c.only(s.Clients) {
		for _, to := range c.targets(s) {
			out[c.hop(p, c.target(s).noun, to).noun.String()] = true
		}
	}
	return out
}

// hidden reports whether the MAC of an answer does not tell which backend gave it,
// for one client at least: it comes from a router, or from the director that
// translates it. Then the load asks for the server's identity (NSID, RFC 5001).
func (c *cast) hidden() bool {
	if c.service.Forward == masquerade {
		return true
	}
	for _, b := range c.backends {
		m, _ := c.lab.Topology.Machine(b.noun)
		for _, p := range c.clients {
			seen := c.seenAt(p.noun, p.addresses[0], b.addresses[0])
			if r, ok := c.ways.Way(c.lab.Topology, m, seen); ok && !r.Next.IsZero() || seen != p.addresses[0] {
				return true
			}
		}
	}
	return false
}

// masquerade is the way of forwarding that rewrites addresses.
const masquerade = "masquerade"

// cardWith is the index of a machine's card with an address, 0 when none has it.
func cardWith(m lang.Machine, a netip.Addr) int {
	return max(0, slices.IndexFunc(m.NICs, func(n lang.NIC) bool { return slices.Contains(n.Addresses, a) }))
}

// cardOn is the index of a machine's card in whose network an address is, 0 when
// there is none.
func cardOn(t *lang.Topology, m lang.Machine, a netip.Addr) int {
	return max(0, slices.IndexFunc(m.NICs, func(nic lang.NIC) bool {
		n, ok := t.Network(nic.Network)
		return ok && n.CIDR.Contains(a)
	}))
}

// seenAt is the address in whose place the far end sees one of a client's, by the
// routers on the way there that masquerade.
func (c *cast) seenAt(client addr.Noun, a, to netip.Addr) netip.Addr {
	m, _ := c.lab.Topology.Machine(client)
	if all := c.ways.Translated(c.lab.Topology, m, to); len(all) > 0 {
		return all[len(all)-1].Address
	}
	return a
}

// seenOf are the addresses that a client has for those whom it asks in a run, each
// once; without a target, for who answers under the VIPs.
func (c *cast) seenOf(p part, s Setting) []netip.Addr {
	targets := c.targets(s)
	if len(targets) == 0 {
		targets = c.service.VIPs
	}
	var out []netip.Addr
	for _, a := range p.addresses {
		for _, to := range targets {
			if seen := c.seenAt(p.noun, a, to); !slices.Contains(out, seen) {
				out = append(out, seen)
			}
		}
	}
	return out
}

// translators are the routers that masquerade what the clients of a run send.
func (c *cast) translators(s Setting) []addr.Noun {
	var out []addr.Noun
	for _, p := range c.only(s.Clients) {
		m, _ := c.lab.Topology.Machine(p.noun)
		for _, to := range c.targets(s) {
			for _, t := range c.ways.Translated(c.lab.Topology, m, to) {
				if !slices.Contains(out, t.By) {
					out = append(out, t.By)
				}
			}
		}
	}
	return out
}
