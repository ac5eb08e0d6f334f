package lower

import (
	"slices"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan/graph"
	"github.com/lvslab/lvslab/provider"
)

// awaits reports whether a is made after b.
func awaits(rs []provider.Resource, a, b addr.Resource) bool {
	for _, r := range rs {
		if r.Addr != a {
			continue
		}
		for _, d := range slices.Concat(r.DependsOn, r.ReplacedBy, []addr.Resource{r.Within}) {
			if !slices.Contains(r.NotAwaited, d) && (d == b || !d.IsZero() && awaits(rs, d, b)) {
				return true
			}
		}
	}
	return false
}

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
			[][2]addr.Resource{{res(c, "domain"), res(first, "ipvs")}, {res(c, "domain"), res(ns0, "dns")}, {res(c, "sysctl"), tunnelOf(tun0)}}, [][2]addr.Resource{{res(first, "ipvs"), res(c, "domain")}}},
		{"a service for a backend of its own", map[addr.Noun][]addr.Noun{first: {ns0}}, [][2]addr.Resource{{res(first, "ipvs"), res(ns0, "dns")}}, nil},
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
			if !awaits(rs, w[0], w[1]) {
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
