package experiment

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// nattedTopology is the paper's with its client, which has two addresses, and another
// one behind a router that masquerades.
func nattedTopology() *lang.Topology {
	t := paperTopology()
	home, nat := addr.N(addr.Network, "home"), addr.N(addr.Router, "nat")
	t.Networks = append(t.Networks, lang.Network{Noun: home, CIDR: netip.MustParsePrefix("198.18.1.0/24"), MTU: 1500})
	t.Machines[0].NICs = []lang.NIC{{Network: home, Addresses: []netip.Addr{ip("198.18.1.128"), ip("198.18.1.129")}}}
	t.Machines = append(t.Machines,
		lang.Machine{Noun: nat, Addresses: 1, Masquerade: netLAN, NICs: []lang.NIC{
			{Network: netLAN, Addresses: []netip.Addr{ip("198.18.0.1")}}, {Network: home, Addresses: []netip.Addr{ip("198.18.1.1")}, Impair: &lang.Impair{Loss: 0.1}}}},
		lang.Machine{Noun: addr.N(addr.Client, "out"), Addresses: 1, NICs: []lang.NIC{{Network: netLAN, Addresses: []netip.Addr{ip("198.18.0.150")}}}})
	t.Experiments[0].Clients = append(t.Experiments[0].Clients, addr.N(addr.Client, "out"))
	return t
}

// What the director and the backends see of clients behind NAT, and the ways there.
func TestCastBehindNAT(t *testing.T) {
	top := nattedTopology()
	c, err := newFakeLab(t, top).lab().cast(serviceS, top.Experiments[0].Clients)
	if err != nil {
		t.Fatal(err)
	}
	s := declaredSetting(top, c.service, top.Experiments[0])
	if got := fmt.Sprint(s.Seen); got != "map[198.18.1.128:198.18.0.1 198.18.1.129:198.18.0.1]" {
		t.Errorf("seen: %s", got)
	}
	for clients, want := range map[int]int{1: 1, 2: 2} {
		if s.Clients = clients; s.Sources(top, top.Experiments[0]) != want {
			t.Errorf("%d clients are %d sources, want %d", clients, s.Sources(top, top.Experiments[0]), want)
		}
	}
	home, out := c.clients[0], c.clients[1]
	for _, none := range []int{0, 1} { // the proof's setting has no VIP
		s.VIPs = none
		if a, b := fmt.Sprint(c.seenOf(home, s)), fmt.Sprint(c.seenOf(out, s)); a != "[198.18.0.1]" || b != "[198.18.0.150]" {
			t.Errorf("seen as %s and %s", a, b)
		}
	}
	if got := fmt.Sprint(c.translators(s)); got != "[router.nat]" {
		t.Errorf("translators: %s", got)
	}
	if !c.hidden() {
		t.Error("the MAC of an answer is the router's and tells no backend")
	}
	way := ""
	for _, s := range c.circle(home, ip("198.18.0.101"), c.service.RealServers[1]) {
		way += fmt.Sprintf("%s→%s ", s.from, s.to)
	}
	if way != "client.c[0]→router.nat router.nat→director.lb director.lb→backend.ns[1] backend.ns[1]→router.nat router.nat→client.c[0] " {
		t.Errorf("the way is %s", way)
	}
	if _, arrives := c.asked(c.circle(home, ip("198.18.0.101"), c.service.RealServers[1])); arrives != 0.9 {
		t.Errorf("%v arrives: the router's inner card loses a tenth of the answers", arrives)
	}
	if c, _ = newFakeLab(t, top).lab().cast(serviceS, top.Experiments[0].Clients[1:]); c.hidden() {
		t.Error("nobody is between this client and the backends")
	}
}
