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

// answers looks at the way from a backend to each client of its service.
func (r *rules) answers(s Service, b Machine, at string) {
	for _, n := range r.t.clientsOf(s.Noun) {
		c, ok := r.t.Machine(n)
		if !ok || r.d.noun(n) {
			continue
		}
		switch {
		case s.Forward == masquerade && share(c, b):
			r.fail(s.Noun, at, s.Range, "Answers past the director", fmt.Sprintf("Put %s and %s on networks of their own, with the director on both.", n.Block(), b.Noun.Block()),
				"%s forwards by masquerade, but %s and %s are on one network: answers would go straight to the client, from an address that it did not ask.", s.Noun, b.Noun, n)
		case !r.reaches(b, c):
			r.fail(s.Noun, at, s.Range, "No way back", "Put a router between their networks.",
				"%s is to answer %s, and no router is between %s and %s.", b.Noun, n, r.cidrs(b), r.cidrs(c))
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

// reaches reports whether there is a way from a to the first network of b.
func (r *rules) reaches(a, b Machine) bool {
	if len(b.NICs) == 0 || len(b.NICs[0].Addresses) == 0 {
		return true // the NIC is missing, which was told
	}
	return r.finds(a, b.NICs[0].Addresses[0])
}

// finds reports whether a machine has a way to an address.
func (r *rules) finds(m Machine, to netip.Addr) bool {
	_, ok := r.way(m, to)
	return ok
}

func (r *rules) way(m Machine, to netip.Addr) (Route, bool) {
	if r.ways == nil {
		r.ways = Routes(r.t)
	}
	return r.ways.Way(r.t, m, to)
}
