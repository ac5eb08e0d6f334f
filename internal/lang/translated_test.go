package lang

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
)

// masked is [chain] with routers that masquerade on networks.
func masked(by map[string]string) *Topology {
	t := chain()
	for i, m := range t.Machines {
		if n := by[m.Noun.Name()]; n != "" {
			t.Machines[i].Masquerade = addr.N(addr.Network, n)
		}
	}
	return t
}

func TestTranslated(t *testing.T) {
	from, to := addr.N(addr.Client, "c"), netip.MustParseAddr("198.18.2.30")
	for _, c := range []struct {
		by   map[string]string
		want string
	}{
		{nil, "[]"},
		{map[string]string{"r1": "b"}, "[{router.r1 198.18.1.1}]"},
		{map[string]string{"r1": "b", "r2": "c"}, "[{router.r1 198.18.1.1} {router.r2 198.18.2.2}]"}, // a household behind a provider
		{map[string]string{"r3": "d"}, "[]"},                                                         // not on the way
		{map[string]string{"r1": "a"}, "[]"},                                                         // the other direction; and the client has no way
		{map[string]string{"r2": "b"}, "[{router.r4 198.18.2.4}]"},                                   // the way by r2 is closed
	} {
		if c.by["r2"] == "b" {
			c.by["r4"] = "c"
		}
		top := masked(c.by)
		m, _ := top.Machine(from)
		if got := fmt.Sprint(Routes(top).Translated(top, m, to)); got != c.want {
			t.Errorf("%v: %s, want %s", c.by, got, c.want)
		}
		s := Service{VIPs: []netip.Addr{to}}
		seen := top.Seen(s, []addr.Noun{from})
		if (len(seen) > 0) != (c.want != "[]") {
			t.Errorf("%v: seen as %v", c.by, seen)
		}
	}
}

// Nobody outside has a way to what is behind.
func TestBehindMasquerade(t *testing.T) {
	top := masked(map[string]string{"r1": "b"})
	ways := Routes(top)
	ns, _ := top.Machine(addr.N(addr.Backend, "ns"))
	if r, ok := ways.Way(top, ns, netip.MustParseAddr("198.18.0.128")); ok {
		t.Errorf("a backend reaches the client behind: %+v", r)
	}
	if _, ok := ways.Way(top, ns, netip.MustParseAddr("198.18.1.1")); !ok {
		t.Error("a backend does not reach the router's outer address")
	}
	c, _ := top.Machine(addr.N(addr.Client, "c"))
	if _, ok := ways.Way(top, c, netip.MustParseAddr("198.18.2.30")); !ok {
		t.Error("the client does not get out")
	}
}
