package lang

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
)

// chain is client ── a ── r1 ── b ── r2 ── c ── backend, with a director on a and a
// slower way from a to c over d.
func chain() *Topology {
	t := &Topology{}
	for i, n := range []string{"a", "b", "c", "d"} {
		t.Networks = append(t.Networks, Network{Noun: addr.N(addr.Network, n), CIDR: netip.MustParsePrefix(fmt.Sprintf("198.18.%d.0/24", i))})
	}
	machine := func(n addr.Noun, host int, networks string) {
		m := Machine{Noun: n}
		for _, l := range networks {
			m.NICs = append(m.NICs, NIC{Network: addr.N(addr.Network, string(l)), Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("198.18.%d.%d", l-'a', host))}})
		}
		t.Machines = append(t.Machines, m)
	}
	machine(addr.N(addr.Client, "c"), 128, "a")
	machine(addr.N(addr.Director, "lb"), 10, "a")
	machine(addr.N(addr.Backend, "ns"), 30, "c")
	machine(addr.N(addr.Router, "r1"), 1, "ab")
	machine(addr.N(addr.Router, "r2"), 2, "bc")
	machine(addr.N(addr.Router, "r3"), 3, "bd")
	machine(addr.N(addr.Router, "r4"), 4, "dc")
	return t
}

func told(w Ways, n addr.Noun) string {
	var out []string
	for _, r := range w[n] {
		out = append(out, fmt.Sprintf("%s via %s nic %d (%s, %d)", r.To, r.Via, r.NIC, r.Next, r.Hops))
	}
	return strings.Join(out, "; ")
}

func TestRoutes(t *testing.T) {
	top := chain()
	ways := Routes(top)
	for n, want := range map[addr.Noun]string{
		addr.N(addr.Client, "c"):   "198.18.1.0/24 via 198.18.0.1 nic 0 (router.r1, 1); 198.18.2.0/24 via 198.18.0.1 nic 0 (router.r1, 2); 198.18.3.0/24 via 198.18.0.1 nic 0 (router.r1, 2)",
		addr.N(addr.Backend, "ns"): "198.18.0.0/24 via 198.18.2.2 nic 0 (router.r2, 2); 198.18.1.0/24 via 198.18.2.2 nic 0 (router.r2, 1); 198.18.3.0/24 via 198.18.2.4 nic 0 (router.r4, 1)",
		addr.N(addr.Router, "r1"):  "198.18.2.0/24 via 198.18.1.2 nic 1 (router.r2, 1); 198.18.3.0/24 via 198.18.1.3 nic 1 (router.r3, 1)",
	} {
		if got := told(ways, n); got != want {
			t.Errorf("%s: %s\nwant %s", n, got, want)
		}
	}
	lb, _ := top.Machine(addr.N(addr.Director, "lb"))
	ns, _ := top.Machine(addr.N(addr.Backend, "ns"))
	if r, ok := ways.Way(top, lb, netip.MustParseAddr("198.18.0.77")); !ok || !r.Next.IsZero() || r.Via.String() != "198.18.0.77" {
		t.Errorf("on its own network: %+v", r)
	}
	if _, ok := ways.Way(top, lb, netip.MustParseAddr("198.19.0.1")); ok {
		t.Error("there is a way to a network that does not exist")
	}
	if a, b := top.facing(lb, ns, false); a.String() != "198.18.0.10" || b.String() != "198.18.2.30" {
		t.Errorf("facing: %s %s", a, b)
	}
}

// TestRoutesBack: a director that masquerades forwards, and is the only way for
// its backends.
func TestRoutesBack(t *testing.T) {
	top := chain()
	lb, ns := addr.N(addr.Director, "lb"), addr.N(addr.Backend, "ns")
	m := &top.Machines[1]
	m.NICs = append(m.NICs, NIC{Network: addr.N(addr.Network, "c"), Addresses: []netip.Addr{netip.MustParseAddr("198.18.2.10")}})
	if got := told(Routes(top), ns); !strings.Contains(got, "198.18.0.0/24 via 198.18.2.2") {
		t.Errorf("a director forwards nothing by itself: %s", got)
	}
	top.Services = []Service{{Noun: addr.N(addr.Service, "s"), Director: lb, Forward: "masquerade", RealServers: []RealServer{{Backend: ns}}}}
	ways := Routes(top)
	if got := told(ways, ns); got != "0.0.0.0/0 via 198.18.2.10 nic 0 (director.lb, 1)" {
		t.Errorf("backend: %s", got)
	}
	if got := told(ways, addr.N(addr.Client, "c")); !strings.Contains(got, "198.18.2.0/24 via 198.18.0.10 nic 0 (director.lb, 1)") {
		t.Errorf("client: %s", got)
	}
	if !top.Forwards(lb) || top.Forwards(ns) || !top.Forwards(addr.N(addr.Router, "r1")) {
		t.Error("who forwards")
	}
}
