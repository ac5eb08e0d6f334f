package lang

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
)

func (r *rules) experiment(x Experiment) {
	s, ok := r.t.Service(x.Service)
	if !ok {
		return
	}
	if len(s.RealServers) == 0 {
		if r.d.inside(s.Noun, "real_server") {
			return
		}
		r.fail(x.Noun, "service", x.Range, "Service without real servers", fmt.Sprintf("Add a real_server block to %s.", s.Noun), "%s has nothing to measure: %s has no real servers.", x.Noun, s.Noun)
		return
	}
	if x.Load.Kind == "" {
		x.Load.Protocol = s.Protocol // the block is missing, which was told
	}
	r.clients(x, s)
	varied := map[string]bool{}
	runs := x.Iterations
	for i, f := range x.Factors {
		varied[f.Name] = true
		runs = min(runs*max(len(f.Values), 1), maxRuns+1)
		r.factor(x, s, i)
	}
	if runs > maxRuns {
		r.fail(x.Noun, "iterations", x.Range, "Too many runs", "Use fewer values or iterations.", "%s would need more than %d runs.", x.Noun, maxRuns)
	}
	if x.Load.Protocol != s.Protocol && !r.d.arg(s.Noun, "protocol") && !r.d.arg(x.Noun, "load[0].protocol") && !varied["protocol"] {
		r.fail(x.Noun, "load[0].protocol", x.Load.Range, "Protocols differ", "Use the service's protocol, or another service.", "The load of %s speaks %s, but %s is a %s service.", x.Noun, x.Load.Protocol, s.Noun, s.Protocol)
	}
	r.kernels(x, s)
	r.load(x, varied)
	if s.v6() && x.Load.Kind == LoadLVSLab && !r.d.noun(s.Noun) {
		r.fail(x.Noun, "service", x.Range, "Generator of IPv4", `Use load "dnsperf".`,
			"%s asks %s of %s with load %q, which sends over IPv4 only.", x.Noun, s.VIPs[0], s.Noun, LoadLVSLab)
	}
	r.queries(x, s)
}

func (r *rules) clients(x Experiment, s Service) {
	if len(x.Clients) == 0 && !r.d.arg(x.Noun, "clients") {
		r.fail(x.Noun, "clients", x.Range, "No clients", "Name a client block whose count is 1 or more.", "%s has nobody to send queries.", x.Noun)
	}
	seen := map[addr.Noun]bool{}
	for _, n := range x.Clients {
		if seen[n] {
			r.fail(x.Noun, "clients", x.Range, "Client twice", "Name each client once.", "%s has %s twice.", x.Noun, n)
		}
		seen[n] = true
		m, ok := r.t.Machine(n)
		if !ok || r.d.noun(n) {
			continue
		}
		for _, ip := range s.VIPs {
			if way, ok := r.way(m, ip); ok && way.NIC > 0 {
				r.fail(x.Noun, "clients", x.Range, "Not by the first NIC", fmt.Sprintf("Put the nic block with the way to the VIP first in %s.", n.Block()),
					"%s sends from the address of its first NIC, but its way to the VIP %s of %s leaves by another one.", n, ip, s.Noun)
				break
			} else if !ok {
				r.fail(x.Noun, "clients", x.Range, "Client out of reach", fmt.Sprintf("Give %s a NIC on the VIP's network, or put a router between.", n.Block()),
					"%s is on %s and cannot reach the VIP %s of %s.", n, r.cidrs(m), ip, s.Noun)
				break
			}
		}
	}
}

// factor checks a factor's values against the service and the other blocks.
func (r *rules) factor(x Experiment, s Service, i int) {
	f := x.Factors[i]
	arg := fmt.Sprintf("factor[%d].values", i)
	if r.d.inside(s.Noun, "real_server") && (f.Name == "weights" || f.Name == "order") {
		return
	}
	for _, v := range f.Values {
		switch f.Name {
		case "weights":
			if n := v.LengthInt(); n != len(s.RealServers) {
				r.fail(x.Noun, arg, f.Range, "Weights do not fit", fmt.Sprintf("Give %s in the order of the real servers.", count(len(s.RealServers), "weight")),
					"%s of factor \"weights\" has %s, but %s has %s.", render(v), count(n, "weight"), s.Noun, count(len(s.RealServers), "real server"))
			}
		case "order":
			if v.Type().IsListType() && !permutation(v.AsValueSlice(), len(s.RealServers)) {
				r.fail(x.Noun, arg, f.Range, "Order does not fit", fmt.Sprintf("Name each index from 0 to %d once.", len(s.RealServers)-1),
					"%s of factor \"order\" does not put the %s of %s in order.", render(v), count(len(s.RealServers), "real server"), s.Noun)
			}
		case "clients":
			r.atMost(x, arg, f, v, len(x.Clients), "client")
		case "vips":
			r.atMost(x, arg, f, v, len(s.VIPs), "VIP")
		case "one_packet":
			if v.True() {
				r.onePacket(x.Noun, arg, s)
			}
		case "protocol":
			if s.FWMark != 0 && v.AsString() != s.Protocol {
				r.fail(x.Noun, arg, f.Range, "Another protocol than the mark's", "Leave the factor out, or the service's fwmark.",
					"The director of %s marks what comes by %s; %s of factor \"protocol\" would not be marked.", s.Noun, s.Protocol, render(v))
			}
			if v.AsString() == "tcp" && s.OnePacket {
				r.fail(x.Noun, arg, f.Range, "one_packet with TCP", "Leave one_packet out of the service, or tcp out of the factor.", "%s has one_packet, which the kernel knows for UDP only.", s.Noun)
			}
		}
	}
}

// permutation: the values are distinct already.
func permutation(list []cty.Value, n int) bool {
	for _, v := range list {
		if i, _ := exactInt(v.AsBigFloat()); i >= n {
			return false
		}
	}
	return len(list) == n
}

func (r *rules) atMost(x Experiment, arg string, f Factor, v cty.Value, have int, noun string) {
	if n, _ := exactInt(v.AsBigFloat()); n > have {
		r.fail(x.Noun, arg, f.Range, "More than there are", fmt.Sprintf("Give at most %d.", have), "Factor %q of %s has the value %s, but there is %s.", f.Name, x.Noun, render(v), count(have, noun))
	}
}

// queries looks at what will be asked: the records of the zones served.
func (r *rules) queries(x Experiment, s Service) {
	first, ok := r.t.Machine(s.RealServers[0].Backend)
	if !ok || r.d.arg(first.Noun, "serves") {
		return
	}
	for _, rs := range s.RealServers[1:] {
		m, ok := r.t.Machine(rs.Backend)
		if ok && !r.d.arg(m.Noun, "serves") && !sameNouns(m.Serves, first.Serves) {
			r.warn(s.Noun, "", rs.Range, "Backends differ", "Let all real servers of a service serve the same zones.", "%s serves other zones than %s: it refuses some of the queries of %s.", m.Noun, first.Noun, x.Noun)
		}
	}
	records := 0
	for _, zn := range first.Serves {
		z, ok := r.t.Zone(zn)
		if !ok || r.d.noun(zn) {
			return
		}
		records += len(z.Records)
		if x.Load.Protocol == "udp" {
			r.largeAnswers(z)
		}
	}
	if records == 0 && len(first.Serves) > 0 {
		r.fail(x.Noun, "service", x.Range, "Nothing to ask for", "Give a zone some records: their names are the queries.", "The zones that %s serves have no records.", first.Noun)
	}
}

// plainUDP is the largest answer to a query without EDNS (RFC 1035 §4.2.1),
// which is how dnsperf asks; a larger one comes back truncated.
const plainUDP = 512

func (r *rules) largeAnswers(z Zone) {
	for i, rec := range z.Records {
		m := new(dns.Msg)
		owner := dns.Fqdn(rec.Name + "." + z.Name)
		if rec.Name == "@" {
			owner = dns.Fqdn(z.Name)
		}
		m.SetQuestion(owner, dns.StringToType[rec.Type])
		m.Compress = true
		for _, v := range rec.Values {
			if rr, err := dns.NewRR(fmt.Sprintf("%s %d IN %s %s", owner, rec.TTL, rec.Type, v)); err == nil && rr != nil {
				m.Answer = append(m.Answer, rr)
			}
		}
		if n := m.Len(); n > plainUDP {
			r.warn(z.Noun, "records", z.Range, "Answer too large for UDP", "Give the record fewer or shorter values, or use TCP.",
				"The answer for record %d of %s (%s %s) has %d bytes; over %d it is truncated.", i, z.Noun, rec.Name, rec.Type, n, plainUDP)
			return // one is enough: a generated zone would repeat it for each
		}
	}
}

func sameNouns(a, b []addr.Noun) bool {
	if len(a) != len(b) {
		return false
	}
	have := map[addr.Noun]bool{}
	for _, n := range a {
		have[n] = true
	}
	for _, n := range b {
		if !have[n] {
			return false
		}
	}
	return true
}

// kernels: the factor "kernel" compares kernels of one director that is made anew
// for each run.
func (r *rules) kernels(x Experiment, s Service) {
	for i, f := range x.Factors {
		arg := fmt.Sprintf("factor[%d].values", i)
		if f.Name != FactorKernel || r.d.arg(x.Noun, arg) {
			continue
		}
		if len(f.Values) == 1 {
			r.fail(x.Noun, arg, f.Range, "One kernel alone", "Name two images or more; or leave the factor out and give "+s.Director.String()+" its image.",
				"factor %q of %s has one value, %s: there is nothing to compare it with.", FactorKernel, x.Noun, f.Values[0].AsString())
		}
		for _, n := range x.Kernels() {
			if i, ok := r.t.ImageNamed(n); ok && i.Disk != "" {
				r.fail(x.Noun, arg, f.Range, "A disk is no kernel", "Give "+n.String()+" a kernel = …, or make a lab of its own for it and compare the results.",
					"factor %q of %s names %s, which is a whole system on a disk: more than its kernel would differ.", FactorKernel, x.Noun, n)
			}
		}
		if x.Isolation == IsolationFlush && !r.d.arg(x.Noun, "isolation") {
			r.fail(x.Noun, "isolation", x.Range, "Kernels need new directors", `Leave isolation out: it is "restore" then.`,
				"%s has a factor %q: its director is made anew for each run, and isolation is %q.", x.Noun, FactorKernel, x.Isolation)
		}
		var others []string
		for _, m := range r.t.Machines {
			if m.Noun.Kind == addr.Director && m.Noun != s.Director {
				others = append(others, m.Noun.String())
			}
		}
		if len(others) > 0 {
			r.fail(x.Noun, arg, f.Range, "Whose kernel?", "Describe the other directors in a lab of their own.",
				"factor %q of %s has the director boot another kernel for each run, and the lab has %s beside %s.", FactorKernel, x.Noun, strings.Join(others, ", "), s.Director)
		}
	}
}
