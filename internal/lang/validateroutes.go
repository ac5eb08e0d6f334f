package lang

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
)

// routes checks that what must meet can: the tunnels' ends, the director and
// its backends, and the backends' answers on their way to the clients.
func (r *rules) routes() {
	gateways := map[addr.Noun]Service{}
	for _, s := range r.t.Services {
		director, ok := r.t.Machine(s.Director)
		if !ok || r.d.noun(director.Noun) || r.d.noun(s.Noun) || r.d.arg(s.Noun, "forward") || r.d.inside(s.Noun, "real_server") {
			continue
		}
		for i, rs := range s.RealServers {
			b, ok := r.t.Machine(rs.Backend)
			if !ok || r.d.noun(b.Noun) {
				continue
			}
			at := r.realServerArg(s, i, "backends")
			if s.Forward == masquerade {
				r.gateway(s, director, b, at, gateways)
			}
			r.untranslated(s, director, rs, at)
			r.answers(s, b, at)
		}
	}
}

// gateway: the answers are translated back on the director, so that they must
// come through it, and through one only.
func (r *rules) gateway(s Service, director, b Machine, at string, gateways map[addr.Noun]Service) {
	if !share(director, b) {
		r.fail(s.Noun, at, s.Range, "No common network", fmt.Sprintf("Put both on one network, or use forward = %q.", "tunnel"),
			"%s forwards by masquerade, so that the answers of %s must pass %s; the two share no network.", s.Noun, b.Noun, s.Director)
		return
	}
	if by, taken := gateways[b.Noun]; taken && by.Director != s.Director {
		r.fail(s.Noun, at, s.Range, "Two gateways", "Give each director backends of its own.",
			"%s has one default route, but the answers to %s must pass %s and those to %s must pass %s.", b.Noun, by.Noun, by.Director, s.Noun, s.Director)
	}
	gateways[b.Noun] = s
}

// answers looks at the way from a backend to each client of its service, or to the
// address under which the backend sees it.
func (r *rules) answers(s Service, b Machine, at string) {
	for _, n := range r.t.clientsOf(s.Noun) {
		c, ok := r.t.Machine(n)
		if !ok || r.d.noun(n) {
			continue
		}
		answer := c.primary()
		if seen := r.seen(s, c); len(seen) > 0 {
			answer = seen[len(seen)-1].Address
		}
		_, onLink := r.on(b, answer)
		switch {
		case s.Forward == masquerade && (share(c, b) || onLink):
			r.fail(s.Noun, at, s.Range, "Answers past the director", fmt.Sprintf("Put %s and %s on networks of their own, with the director on both.", n.Block(), b.Noun.Block()),
				"%s forwards by masquerade, but %s and %s are on one network: answers would go straight to the client, from an address that it did not ask.", s.Noun, b.Noun, n)
		case answer.IsValid() && !r.finds(b, answer):
			r.fail(s.Noun, at, s.Range, "No way back", "Put a router between their networks.",
				"%s is to answer %s, and no router is between %s and %s.", b.Noun, n, r.cidrs(b), r.cidrs(c))
		case answer.IsValid():
			if by := r.table().Translated(r.t, b, answer); len(by) > 0 {
				r.fail(s.Noun, at, s.Range, "Answers from another address", fmt.Sprintf("Put %s outside of %s, or let %s not masquerade.", b.Noun.Block(), by[0].By, by[0].By),
					"%s answers %s by way of %s, which gives the answer its own address %s: the client did not ask that one.", b.Noun, n, by[0].By, by[0].Address)
			}
		}
	}
}

// clientsOf are the clients of a service's experiments, all where there are none.
func (t *Topology) clientsOf(service addr.Noun) []addr.Noun {
	var out []addr.Noun
	for _, x := range t.Experiments {
		if x.Service == service {
			out = append(out, x.Clients...)
		}
	}
	if len(out) == 0 {
		for _, m := range t.Machines {
			if m.Noun.Kind == addr.Client {
				out = append(out, m.Noun)
			}
		}
	}
	slices.SortFunc(out, addr.Noun.Compare)
	return slices.Compact(out)
}

// untranslated: what the director sends to a backend keeps its addresses. The
// receiver of a tunnel takes packets of its other end only.
func (r *rules) untranslated(s Service, director Machine, rs RealServer, at string) {
	to := rs.Address
	if tun, ok := r.t.tunnel(rs.Tunnel); ok {
		to = tun.Local
	}
	if by := r.table().Translated(r.t, director, to); to.IsValid() && len(by) > 0 {
		r.fail(s.Noun, at, s.Range, "The director's packets are translated", fmt.Sprintf("Put %s outside of %s, or let %s not masquerade.", s.Director, by[0].By, by[0].By),
			"%s reaches %s by way of %s, which gives the packets its own address %s: %s would not know whose they are.", s.Director, rs.Backend, by[0].By, by[0].Address, rs.Backend)
	}
}

// seen are the translations of what a client sends to a service. Another VIP with
// others would make one client two in the eyes of one scheduler.
func (r *rules) seen(s Service, c Machine) []Translation {
	var first []Translation
	for i, vip := range s.VIPs {
		all := r.table().Translated(r.t, c, vip)
		if i == 0 {
			first = all
		} else if !slices.Equal(first, all) {
			r.fail(s.Noun, r.vipArg(s), s.Range, "Translated for one VIP otherwise than for another", "Put the VIPs on one network.",
				"%s reaches %s and %s by ways on which its address is translated otherwise.", c.Noun, s.VIPs[0], vip)
			break
		}
	}
	return first
}

// masquerades checks the network on which a router masquerades.
func (r *rules) masquerades() {
	for _, m := range r.t.Machines {
		if m.Masquerade.IsZero() || r.d.noun(m.Noun) {
			continue
		}
		if n, ok := r.t.Network(m.Masquerade); ok && n.CIDR.IsValid() && n.CIDR.Addr().Is6() {
			r.fail(m.Noun, "masquerade", m.Range, "IPv6 is not masqueraded", "Give the network an IPv4 cidr, or leave masquerade out.",
				"%s masquerades on %s, which is %s; only IPv4 is translated here.", m.Noun, m.Masquerade, n.CIDR)
			continue
		}
		on := slices.ContainsFunc(m.NICs, func(n NIC) bool { return n.Network == m.Masquerade })
		behind := slices.ContainsFunc(m.NICs, func(n NIC) bool { return n.Network != m.Masquerade })
		if !on || !behind {
			r.fail(m.Noun, "masquerade", m.Range, "Nothing to masquerade", "Name the network that is outside, give the router a nic on it and one on a network behind it.",
				"%s masquerades on %s, and is not on it and another network.", m.Noun, m.Masquerade)
		}
	}
}

// finds reports whether a machine has a way to an address.
func (r *rules) finds(m Machine, to netip.Addr) bool {
	_, ok := r.way(m, to)
	return ok
}

func (r *rules) way(m Machine, to netip.Addr) (Route, bool) {
	return r.table().Way(r.t, m, to)
}

func (r *rules) table() Ways {
	if r.ways == nil {
		r.ways = Routes(r.t)
	}
	return r.ways
}
