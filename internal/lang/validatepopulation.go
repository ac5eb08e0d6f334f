package lang

import (
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
)

// population checks a population against its service.
func (r *rules) population(p Population) {
	s, ok := r.t.Service(p.Service)
	if !ok {
		return
	}
	switch {
	case len(s.RealServers) == 0:
		if !r.d.inside(s.Noun, "real_server") {
			r.fail(p.Noun, "service", p.Range, "Service without real servers", fmt.Sprintf("Add a real_server block to %s.", s.Noun), "%s has nobody to ask: %s has no real servers.", p.Noun, s.Noun)
		}
		return
	case s.Protocol != "udp":
		r.fail(p.Noun, "service", p.Range, "Not a UDP service", "Name a service of protocol \"udp\".", "Populations ask over UDP, but %s is a %s service.", s.Noun, s.Protocol)
	case s.v6():
		r.fail(p.Noun, "service", p.Range, "A service of IPv6", "Name a service with a vip of IPv4.", "The clients of a population have IPv4 addresses, but %s has the VIP %s.", s.Noun, s.VIPs[0])
	case s.FWMark != 0:
		r.fail(p.Noun, "service", p.Range, "A service by mark", "Name a service with a vip.", "Populations ask an address, but %s is known by a firewall mark.", s.Noun)
	}
	if r.d.noun(p.Noun) {
		return
	}
	if p.Rate == 0 {
		r.fail(p.Noun, "rate", p.Range, "Nobody asks", "Give the queries a second of all clients together.", "rate of %s is 0.", p.Noun)
	}
	if p.Rate*p.Duration.Seconds() > maxPopulationQueries {
		r.fail(p.Noun, "duration", p.Range, "Too many queries", "Ask for a shorter time: after a timeout nothing changes any more.", "%s would ask %.3g queries; %.3g are the most.", p.Noun, p.Rate*p.Duration.Seconds(), float64(maxPopulationQueries))
	}
	if p.PerAddress*max(p.Sockets, 1) > maxPortsAddress {
		r.fail(p.Noun, "ports", p.Range, "More ports than an address has", fmt.Sprintf("Let per_address times ports be %d at most.", maxPortsAddress),
			"Behind one address of %s are %d clients with %d ports each.", p.Noun, p.PerAddress, p.Sockets)
	}
	for i := range p.Factors {
		r.factor(Experiment{Noun: p.Noun, Factors: p.Factors, Range: p.Range}, s, i)
	}
	r.failures(p, s)
}

func (r *rules) failures(p Population, s Service) {
	seen := map[addr.Noun]bool{}
	for i, f := range p.Failures {
		at := func(arg string) string { return fmt.Sprintf("failure[%d].%s", i, arg) }
		known := slices.ContainsFunc(s.RealServers, func(rs RealServer) bool { return rs.Backend == f.Backend })
		switch {
		case !known && !r.d.inside(s.Noun, "real_server"):
			r.fail(p.Noun, at("backend"), f.Range, "Not a real server", fmt.Sprintf("Name one of the real servers of %s.", s.Noun), "%s is no real server of %s.", f.Backend, s.Noun)
		case seen[f.Backend]:
			r.fail(p.Noun, at("backend"), f.Range, "Fails twice", "Keep one failure for each backend.", "%s has two failures of %s.", p.Noun, f.Backend)
		}
		seen[f.Backend] = true
		if f.At >= p.Duration {
			r.fail(p.Noun, at("at"), f.Range, "After the end", "Let it fail earlier, or ask longer.", "%s fails at %s, but %s ends at %s.", f.Backend, f.At, p.Noun, p.Duration)
		}
		if f.Back > 0 && f.Back <= f.At+f.Noticed {
			r.fail(p.Noun, at("back"), f.Range, "Back too early", "Let it come back after it was removed: at plus noticed.", "%s is removed at %s and comes back at %s.", f.Backend, f.At+f.Noticed, f.Back)
		}
	}
}
