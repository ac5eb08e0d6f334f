package topo_test

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
)

func machine(n addr.Noun, ip string, networks ...addr.Noun) lang.Machine {
	m := lang.Machine{Noun: n}
	for _, w := range networks {
		m.NICs = append(m.NICs, lang.NIC{Network: w, Addresses: []netip.Addr{netip.MustParseAddr(ip)}})
	}
	return m
}

func tunnelTo(label string, to addr.Noun) lang.Tunnel {
	return lang.Tunnel{Noun: addr.N(addr.Tunnel, label).At(addr.Name(to.String())), To: to}
}

func sample() *lang.Topology {
	lan := addr.N(addr.Network, "lan")
	long := addr.N(addr.Network, "a-network-with-a-long-name").At(addr.Name("north/east"))
	long2 := addr.N(addr.Network, "a-network-with-a-long-name").At(addr.Name("north east"))
	lo := addr.N(addr.Network, "lo")
	ns := addr.N(addr.Backend, "ns")
	t := &lang.Topology{
		Networks: []lang.Network{{Noun: lan, CIDR: netip.MustParsePrefix("198.18.0.0/24")}, {Noun: long, CIDR: netip.MustParsePrefix("198.18.1.0/25")},
			{Noun: long2, CIDR: netip.MustParsePrefix("198.18.2.0/24")}, {Noun: lo, CIDR: netip.MustParsePrefix("198.18.3.0/24")}},
		Machines: []lang.Machine{
			machine(addr.N(addr.Client, "ns"), "198.18.0.128", lan),
			machine(ns.At(addr.Index(0)), "198.18.0.30", lan, long, long2, lo),
			machine(ns.At(addr.Index(1)), "198.18.0.31", lan),
			machine(addr.N(addr.Backend, "ns-0"), "198.18.0.32", lan),
			machine(addr.N(addr.Backend, "x_y").At(addr.Name("ä/b")), "198.18.0.33", lan),
			machine(addr.N(addr.Backend, strings.Repeat("long", 15)).At(addr.Index(7)), "198.18.0.34", lan),
		},
		Tunnels: []lang.Tunnel{tunnelTo("lb-ns", ns.At(addr.Index(0))), tunnelTo("lb-ns", ns.At(addr.Index(1))), tunnelTo("lan", ns.At(addr.Index(1))),
			tunnelTo("tunl0", ns.At(addr.Index(1))), tunnelTo("a-tunnel-with-a-long-name", ns.At(addr.Index(1)))},
		Services: []lang.Service{{Noun: addr.N(addr.Service, "dns"), RealServers: []lang.RealServer{{Backend: ns.At(addr.Index(1))}, {Backend: ns.At(addr.Index(0))}}}},
	}
	return t
}

func TestLayout(t *testing.T) {
	l, err := topo.Lay(sample(), "lineage-1")
	if err != nil {
		t.Fatal(err)
	}
	unique := map[string]string{}
	once := func(kind, value, owner string) {
		if other, twice := unique[kind+value]; twice {
			t.Errorf("%s and %s have the same %s %q", owner, other, kind, value)
		}
		unique[kind+value] = owner
	}
	for n, m := range l.Machines {
		once("uuid", m.UUID, n.String())
		once("name", m.Domain, n.String())
		once("host", m.Hostname, n.String())
		if u, err := uuid.Parse(m.UUID); err != nil || u.Version() != 5 {
			t.Errorf("%s: UUID %s", n, m.UUID)
		}
		if len(m.Domain) > 60 || !regexp.MustCompile(`^lvslab-[0-9a-f]{8}-[A-Za-z0-9_-]+$`).MatchString(m.Domain) {
			t.Errorf("%s: domain %q", n, m.Domain)
		}
		if len(m.Hostname) > 63 || !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`).MatchString(m.Hostname) {
			t.Errorf("%s: host name %q", n, m.Hostname)
		}
		for _, nic := range m.NICs {
			once("mac", nic.MAC, n.String())
			once("device of "+n.String(), nic.Device, n.String())
			checkDevice(t, nic.Device)
			if hw, err := net.ParseMAC(nic.MAC); err != nil || hw[0] != 2 {
				t.Errorf("%s: MAC %q is not a locally administered unicast address", n, nic.MAC)
			}
		}
	}
	for n, w := range l.Networks {
		once("uuid", w.UUID, n.String())
		once("name", w.Name, n.String())
		once("bridge", w.Bridge, n.String())
		checkDevice(t, w.Bridge)
	}
	for n, tun := range l.Tunnels {
		once("device of "+tun.Machine.String(), tun.Device, n.String())
		checkDevice(t, tun.Device)
	}
	if got := fmt.Sprint(l.Order[addr.N(addr.Service, "dns")]); got != "[backend.ns[1] backend.ns[0]]" {
		t.Errorf("order: %s", got)
	}
	ns0 := l.Machines[addr.N(addr.Backend, "ns").At(addr.Index(0))]
	if got := fmt.Sprint(ns0.NICs[0].Device, ns0.NICs[0].Addresses, ns0.NICs[1].Addresses); got != "lan[198.18.0.30/24] [198.18.0.30/25]" {
		t.Errorf("NICs: %s", got)
	}
	ns1 := addr.N(addr.Backend, "ns").At(addr.Index(1))
	if l.Machines[ns1].Hostname != "ns-1" || l.Tunnels[tunnelTo("lb-ns", ns1).Noun].Device != "lb-ns" {
		t.Errorf("plain names: %+v", l.Machines[ns1])
	}
}

func checkDevice(t *testing.T, name string) {
	t.Helper()
	if len(name) > 15 || name == "" || name == "lo" || name == "tunl0" || strings.ContainsAny(name, "/ .:") {
		t.Errorf("device name %q", name)
	}
}

// TestLineageDecides: the lab's name and the addresses do not change
// identities, another lineage changes all of them.
func TestLineageDecides(t *testing.T) {
	a, err := topo.Lay(sample(), "one")
	if err != nil {
		t.Fatal(err)
	}
	renamed := sample()
	renamed.Lab.Name = "another"
	b, err := topo.Lay(renamed, "one")
	if err != nil {
		t.Fatal(err)
	}
	same := cmp.Options{cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b addr.Noun) bool { return a == b })}
	if d := cmp.Diff(a, b, same); d != "" {
		t.Errorf("renaming the lab changed:\n%s", d)
	}
	c, err := topo.Lay(sample(), "two")
	if err != nil {
		t.Fatal(err)
	}
	for n, m := range a.Machines {
		o := c.Machines[n]
		if m.UUID == o.UUID || m.Domain == o.Domain || m.NICs[0].MAC == o.NICs[0].MAC {
			t.Errorf("%s is the same in another lineage: %+v", n, m)
		}
		if d := cmp.Diff(m.NICs[0].Addresses, o.NICs[0].Addresses, same); d != "" || m.Hostname != o.Hostname || m.NICs[0].Device != o.NICs[0].Device {
			t.Errorf("%s: addresses and names inside the guest must not depend on the lineage", n)
		}
	}
}

// TestGrowingKeepsIdentities: a machine's identity does not depend on its neighbours.
func TestGrowingKeepsIdentities(t *testing.T) {
	small := sample()
	small.Machines = small.Machines[1:2]
	small.Tunnels = small.Tunnels[:1]
	a, err := topo.Lay(small, "one")
	if err != nil {
		t.Fatal(err)
	}
	b, err := topo.Lay(sample(), "one")
	if err != nil {
		t.Fatal(err)
	}
	for n, m := range a.Machines {
		if m.UUID != b.Machines[n].UUID || m.Domain != b.Machines[n].Domain || m.NICs[0].MAC != b.Machines[n].NICs[0].MAC {
			t.Errorf("%s changed: %+v and %+v", n, m, b.Machines[n])
		}
	}
}

func TestLayRefuses(t *testing.T) {
	if _, err := topo.Lay(sample(), ""); err == nil {
		t.Error("no lineage must be an error")
	}
	s := sample()
	s.Networks = s.Networks[1:]
	if _, err := topo.Lay(s, "x"); err == nil {
		t.Error("a missing network must be an error")
	}
	s = sample()
	s.Machines = s.Machines[:1]
	if _, err := topo.Lay(s, "x"); err == nil {
		t.Error("a missing machine must be an error")
	}
}
