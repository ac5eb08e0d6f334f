package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Schedulers of the random cases: all that choose without chance.
var Schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"}

// author writes one random script, keeping what stands so that every control
// event is one that IPVS accepts.
type author struct {
	*rand.Rand
	lines    []string
	services []*standing
}

type standing struct {
	key, proto, vip, mark, scheduler string
	have                             []int       // last bytes of the destinations
	ports                            map[int]int // theirs
	// forward is how packets reach each of them. It stays: flows of a destination
	// whose method is changed are sent to nobody, see docs/findings.md.
	forward map[int]string
}

// Generate writes the n-th random script of a seed: one to three services, up
// to sixty events.
func Generate(seed, n uint64) []string {
	a := &author{Rand: rand.New(rand.NewPCG(seed, n))}
	nodest := false
	for _, name := range []string{"expire_nodest_conn", "expire_quiescent_template", "sloppy_tcp", "conn_reuse_mode"} {
		if a.IntN(6) == 0 {
			value := a.IntN(2)
			nodest = nodest || name == "expire_nodest_conn" && value == 1
			a.write("sysctl %s %d", name, value)
		}
	}
	for i := range 1 + a.IntN(3) {
		a.service(i)
	}
	for range 5 + a.IntN(55) {
		before := len(a.lines)
		if a.event(); nodest && (strings.HasPrefix(a.lines[len(a.lines)-1], "remove") || len(a.lines) > before+1) {
			a.write("wait 40ms") // the flush comes a jiffy later
		}
	}
	return a.lines
}

func (a *author) write(format string, args ...any) {
	a.lines = append(a.lines, fmt.Sprintf(format, args...))
}

func (a *author) service(i int) {
	s := &standing{vip: fmt.Sprintf("10.0.0.%d:53", 100+i), forward: map[int]string{}, ports: map[int]int{}}
	switch a.IntN(5) {
	case 0:
		s.mark, s.proto = fmt.Sprintf(" mark=%d", 7+i), []string{"udp", "tcp"}[a.IntN(2)]
		s.key = fmt.Sprintf("mark %d", 7+i)
	case 1, 2:
		s.proto, s.key = "tcp", "tcp "+s.vip
	default:
		s.proto, s.key = "udp", "udp "+s.vip
	}
	a.services = append(a.services, s)
	a.write("service %s %s", s.key, a.dress(s))
	for range 1 + a.IntN(6) {
		a.destination(s)
	}
}

// dress chooses a service's settings.
func (a *author) dress(s *standing) string {
	s.scheduler = Schedulers[a.IntN(len(Schedulers))]
	out := s.scheduler
	if (s.scheduler == "sh" || s.scheduler == "mh") && a.IntN(2) == 0 {
		flags := []string{s.scheduler + "-port", s.scheduler + "-fallback"}
		out += " flags=" + [...]string{flags[0], flags[1], strings.Join(flags, ",")}[a.IntN(3)]
	}
	if s.proto == "udp" && a.IntN(4) == 0 {
		out += " ops=true"
	}
	if a.IntN(5) == 0 {
		out += " persist=60s"
		if a.IntN(2) == 0 {
			out += " netmask=255.255.255.0"
		}
	}
	return out
}

func (a *author) settings(s *standing, destination int) string {
	out := fmt.Sprintf(" weight=%d", []int{0, 1, 1, 1, 2, 3, 4, 7, 10, 100}[a.IntN(10)])
	if a.IntN(6) == 0 {
		upper := 1 + a.IntN(8)
		out += fmt.Sprintf(" upper=%d", upper)
		if a.IntN(2) == 0 {
			out += fmt.Sprintf(" lower=%d", 1+a.IntN(upper))
		}
	}
	if s.forward[destination] == "" {
		s.forward[destination] = []string{"tunnel", "direct", "masquerade"}[a.IntN(3)]
	}
	return out + " forward=" + s.forward[destination]
}

func (a *author) destination(s *standing) {
	d := 3 + a.IntN(12)
	if slices.Contains(s.have, d) {
		return
	}
	s.have = append(s.have, d)
	if s.ports[d] = 53; s.mark != "" && a.IntN(3) == 0 {
		s.ports[d] = []int{0, 8053}[a.IntN(2)] // without one: the port that was asked
	}
	a.write("add %s 10.0.0.%d:%d%s", s.key, d, s.ports[d], a.settings(s, d))
}

func (a *author) event() {
	s := a.services[a.IntN(len(a.services))]
	switch kind := a.IntN(20); {
	case kind == 0:
		a.write("edit %s %s", s.key, a.dress(s))
	case kind == 1:
		a.destination(s)
		a.packets(s)
	case kind == 2 && len(s.have) > 0:
		d := s.have[a.IntN(len(s.have))]
		a.write("set %s 10.0.0.%d:%d%s", s.key, d, s.ports[d], a.settings(s, d))
	case kind == 3 && len(s.have) > 0:
		i := a.IntN(len(s.have))
		a.write("remove %s 10.0.0.%d:%d", s.key, s.have[i], s.ports[s.have[i]])
		s.have = slices.Delete(s.have, i, i+1)
	case kind == 4 && a.IntN(3) == 0:
		a.write("delete %s", s.key)
		a.write("wait 40ms")
		s.have = nil
		a.write("service %s %s", s.key, a.dress(s))
	default:
		a.packets(s)
	}
}

func (a *author) packets(s *standing) {
	// Few clients and ports: flows have to come again.
	host, port := 200+a.IntN(6), 1000+a.IntN(12)
	flags, vip, proto := "", s.vip, s.proto
	if s.mark != "" {
		// One service for many addresses and ports, and for both protocols; some
		// are other services' addresses, whose packets the mark takes away.
		vip = fmt.Sprintf("10.0.0.%d:%d", 100+a.IntN(6), []int{53, 53, 54}[a.IntN(3)])
		proto = []string{"udp", "udp", "tcp"}[a.IntN(3)]
	}
	if proto == "tcp" {
		flags = " flags=" + []string{"syn", "syn", "syn", "ack", "ack", "fin,ack", "rst"}[a.IntN(7)]
	}
	net := a.IntN(2)
	a.write("send %s 10.0.%d.%d:%d-%d %s%s%s", proto, net, host, port, port+a.IntN(4), vip, s.mark, flags)
}
