package lower

import (
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan/graph"
)

// TestDependsOn: everything of a block waits for everything of what it names,
// except where the lab's own order goes the other way.
func TestDependsOn(t *testing.T) {
	c := addr.N(addr.Client, "c")
	res := func(n addr.Noun, part string) addr.Resource { return addr.Resource{Noun: n, Part: part} }
	for _, tc := range []struct {
		name   string
		needs  map[addr.Noun][]addr.Noun
		waits  [][2]addr.Resource
		waitsN [][2]addr.Resource // must not
	}{
		{"a machine for a machine", map[addr.Noun][]addr.Noun{lb: {ns0}},
			[][2]addr.Resource{{res(lb, "domain"), res(ns0, "dns")}, {res(lb, "sysctl"), res(ns0, "domain")}}, nil},
		{"a machine for a service", map[addr.Noun][]addr.Noun{c: {first}},
			[][2]addr.Resource{{res(c, "domain"), res(first, "ipvs")}}, [][2]addr.Resource{{res(first, "ipvs"), res(c, "domain")}}},
		{"a tunnel for its own backend", map[addr.Noun][]addr.Noun{tun0: {ns0}},
			[][2]addr.Resource{{tunnelOf(tun0), res(ns0, "sysctl")}, {res(ns0, "dns"), tunnelOf(tun0)}}, [][2]addr.Resource{{tunnelOf(tun0), res(ns0, "dns")}}},
		{"a chain against the tunnels", map[addr.Noun][]addr.Noun{tun0: {c}, c: {ns0}},
			[][2]addr.Resource{{tunnelOf(tun0), res(c, "domain")}, {res(c, "domain"), res(ns0, "domain")}}, [][2]addr.Resource{{res(c, "domain"), res(ns0, "dns")}}},
	} {
		top := small()
		top.DependsOn = tc.needs
		rs := lowered(t, top)
		g := graph.New[addr.Resource]()
		for _, r := range rs {
			g.Add(r.Addr)
			for _, d := range r.DependsOn {
				g.Connect(r.Addr, d)
			}
			if !r.Within.IsZero() {
				g.Connect(r.Addr, r.Within)
			}
		}
		if cycle := g.Cycle(); cycle != nil {
			t.Errorf("%s: a circle: %v", tc.name, cycle)
		}
		for _, w := range tc.waits {
			if !reaches(rs, w[0], w[1]) {
				t.Errorf("%s: %s does not wait for %s", tc.name, w[0], w[1])
			}
		}
		for _, w := range tc.waitsN {
			if reaches(rs, w[0], w[1]) {
				t.Errorf("%s: %s waits for %s", tc.name, w[0], w[1])
			}
		}
	}
}
