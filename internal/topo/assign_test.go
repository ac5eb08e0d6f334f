package topo_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
)

// group is count machines of one label with one NIC.
type group struct {
	kind  addr.Kind
	label string
	count int
	each  int    // addresses a machine, 0 = 1
	fixed string // the first one's explicit address
}

func skeleton(cidr string, vips []string, groups ...group) *lang.Skeleton {
	lan := addr.N(addr.Network, "lan")
	sk := &lang.Skeleton{Networks: []lang.SkeletonNetwork{{Noun: lan, CIDR: netip.MustParsePrefix(cidr)}}}
	for i, v := range vips {
		sk.VIPs = append(sk.VIPs, lang.SkeletonVIP{Service: addr.N(addr.Service, fmt.Sprint("s", i)), Address: netip.MustParseAddr(v)})
	}
	for _, g := range groups {
		for i := range g.count {
			nic := lang.SkeletonNIC{Network: lan, Count: max(g.each, 1)}
			if g.fixed != "" && i == 0 {
				nic.Address = netip.MustParseAddr(g.fixed)
			}
			sk.Machines = append(sk.Machines, lang.SkeletonMachine{Noun: addr.N(g.kind, g.label).At(addr.Index(i)), NICs: []lang.SkeletonNIC{nic}})
		}
	}
	return sk
}

// plan renders an assignment in the order of the skeleton: label=last octets.
func plan(sk *lang.Skeleton, got map[string]netip.Addr) string {
	var out []string
	for _, m := range sk.Machines {
		for i, nic := range m.NICs {
			for _, key := range lang.SlotKeys(m.Noun, i, nic.Count) {
				out = append(out, got[key].String())
			}
		}
	}
	return strings.Join(out, " ")
}

func TestRoleRanges(t *testing.T) {
	all := []group{{kind: addr.Client, label: "c", count: 2}, {kind: addr.Director, label: "lb", count: 2}, {kind: addr.Backend, label: "ns", count: 3}, {kind: addr.Router, label: "r", count: 1}}
	for _, tc := range []struct {
		name, cidr string
		vips       []string
		groups     []group
		want       string
	}{
		{"/24", "198.18.0.0/24", nil, all, "198.18.0.128 198.18.0.129 198.18.0.10 198.18.0.11 198.18.0.30 198.18.0.31 198.18.0.32 198.18.0.1"},
		{"/16 scales by 256", "198.18.0.0/16", nil, all, "198.18.128.0 198.18.128.1 198.18.10.0 198.18.10.1 198.18.30.0 198.18.30.1 198.18.30.2 198.18.1.0"},
		{"/23 scales by 2", "198.18.2.0/23", nil, all, "198.18.3.0 198.18.3.1 198.18.2.20 198.18.2.21 198.18.2.60 198.18.2.61 198.18.2.62 198.18.2.2"},
		{"/25", "198.18.0.128/25", nil, all, "198.18.0.192 198.18.0.193 198.18.0.133 198.18.0.134 198.18.0.143 198.18.0.144 198.18.0.145 198.18.0.129"},
		{"/26", "198.18.0.64/26", nil, all, "198.18.0.96 198.18.0.97 198.18.0.66 198.18.0.67 198.18.0.71 198.18.0.72 198.18.0.73 198.18.0.65"},
		{"/28 in plain order", "198.18.0.16/28", nil, all, "198.18.0.23 198.18.0.24 198.18.0.18 198.18.0.19 198.18.0.20 198.18.0.21 198.18.0.22 198.18.0.17"},
		{"labels follow each other", "198.18.0.0/24", nil, []group{{kind: addr.Backend, label: "b", count: 2}, {kind: addr.Backend, label: "a", count: 2}},
			"198.18.0.30 198.18.0.31 198.18.0.32 198.18.0.33"},
		{"a VIP is stepped over", "198.18.0.0/24", []string{"198.18.0.31"}, []group{{kind: addr.Backend, label: "b", count: 3}}, "198.18.0.30 198.18.0.32 198.18.0.33"},
		{"an explicit address is stepped over", "198.18.0.0/24", nil, []group{{kind: addr.Backend, label: "b", count: 2}, {kind: addr.Director, label: "lb", count: 1, fixed: "198.18.0.30"}},
			"198.18.0.31 198.18.0.32 198.18.0.30"},
		{"several addresses of a client", "198.18.0.0/24", nil, []group{{kind: addr.Client, label: "c", count: 2, each: 2}}, "198.18.0.128 198.18.0.129 198.18.0.130 198.18.0.131"},
		{"a full range flows over its end", "198.18.0.0/24", nil, []group{{kind: addr.Client, label: "c", count: 1, each: 128}},
			"198.18.0.128 … 198.18.0.254 198.18.0.1"},
	} {
		sk := skeleton(tc.cidr, tc.vips, tc.groups...)
		got, ds := topo.Assign(sk, nil)
		if ds.HasErrors() {
			t.Errorf("%s: %v", tc.name, ds.Err())
			continue
		}
		p := plan(sk, got)
		if a, b, long := strings.Cut(tc.want, " … "); long {
			if !strings.HasPrefix(p, a) || !strings.HasSuffix(p, b) {
				t.Errorf("%s: got %s", tc.name, p)
			}
		} else if p != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, p, tc.want)
		}
	}
}

func TestPriorWins(t *testing.T) {
	sk := skeleton("198.18.0.0/24", nil, group{kind: addr.Backend, label: "new", count: 1}, group{kind: addr.Backend, label: "ns", count: 3})
	prior := map[string]netip.Addr{
		"backend.ns[0]/nic.0": netip.MustParseAddr("198.18.0.30"), "backend.ns[1]/nic.0": netip.MustParseAddr("198.18.0.200"),
		"backend.ns[2]/nic.0":  netip.MustParseAddr("198.19.0.7"), // of an earlier network: void
		"backend.old[0]/nic.0": netip.MustParseAddr("198.18.0.31"),
	}
	got, ds := topo.Assign(sk, prior)
	if want := "198.18.0.31 198.18.0.30 198.18.0.200 198.18.0.32"; ds.HasErrors() || plan(sk, got) != want {
		t.Errorf("got %s (%v), want %s", plan(sk, got), ds, want)
	}
	if len(got) != 4 {
		t.Errorf("machines that are gone must be gone: %v", got)
	}
	prior["backend.ns[2]/nic.0"] = netip.MustParseAddr("198.18.0.255") // the broadcast address
	prior["backend.new[0]/nic.0"] = netip.MustParseAddr("198.18.0.200")
	got, ds = topo.Assign(sk, prior)
	if ds.HasErrors() || got["backend.ns[2]/nic.0"] == prior["backend.ns[2]/nic.0"] || got["backend.ns[1]/nic.0"] == got["backend.new[0]/nic.0"] {
		t.Errorf("a broken state must not give bad addresses: %v %v", got, ds)
	}
}

func TestExplicitChange(t *testing.T) {
	sk := skeleton("198.18.0.0/24", nil, group{kind: addr.Director, label: "lb", count: 1, fixed: "198.18.0.21"})
	got, ds := topo.Assign(sk, map[string]netip.Addr{"director.lb[0]/nic.0": netip.MustParseAddr("198.18.0.20")})
	if ds.HasErrors() || got["director.lb[0]/nic.0"].String() != "198.18.0.21" {
		t.Errorf("what the file says now is asked for by the user: %v %v", got, ds)
	}
}

func TestConflicts(t *testing.T) {
	prior := map[string]netip.Addr{"backend.ns[0]/nic.0": netip.MustParseAddr("198.18.0.30")}
	for name, sk := range map[string]*lang.Skeleton{
		"explicit": skeleton("198.18.0.0/24", nil, group{kind: addr.Director, label: "lb", count: 1, fixed: "198.18.0.30"}, group{kind: addr.Backend, label: "ns", count: 1}),
		"vip":      skeleton("198.18.0.0/24", []string{"198.18.0.30"}, group{kind: addr.Backend, label: "ns", count: 1}),
	} {
		_, ds := topo.Assign(sk, prior)
		if len(ds) != 1 || ds[0].Summary != "Address already assigned" || ds[0].Remedy == "" {
			t.Errorf("%s: %v", name, ds)
		}
	}
	_, ds := topo.Assign(skeleton("198.18.0.0/28", nil, group{kind: addr.Client, label: "c", count: 20}), nil)
	if len(ds) != 1 || ds[0].Summary != "Network is full" || ds[0].Address != "client.c[14]" {
		t.Errorf("a full network is told once: %v", ds)
	}
	_, ds = topo.Assign(skeleton("198.18.0.0/24", []string{"198.18.0.20"}, group{kind: addr.Director, label: "lb", count: 1, fixed: "198.18.0.20"}), nil)
	if len(ds) != 1 || ds[0].Summary != "Address used twice" {
		t.Errorf("VIP and machine: %v", ds)
	}
}

func drawGroups(t *rapid.T, most int) []group {
	var out []group
	for i, k := range []addr.Kind{addr.Router, addr.Director, addr.Backend, addr.Client} {
		for j := range rapid.IntRange(0, 2).Draw(t, "labels") {
			out = append(out, group{kind: k, label: fmt.Sprintf("l%d%d", i, j), count: rapid.IntRange(0, most).Draw(t, "count"), each: rapid.IntRange(1, 3).Draw(t, "each")})
		}
	}
	return rapid.Permutation(out).Draw(t, "order")
}

// TestAssignProperties: inside the network, never twice, the same again, and
// adding machines never moves one.
func TestAssignProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cidr := rapid.SampledFrom([]string{"198.18.0.0/16", "198.18.4.0/22", "198.18.0.0/24", "198.18.0.128/25", "198.18.0.64/26"}).Draw(t, "cidr")
		groups := drawGroups(t, 2)
		sk := skeleton(cidr, []string{"198.18.0.100", "198.18.0.70"}, groups...)
		before, ds := topo.Assign(sk, nil)
		if ds.HasErrors() {
			t.Fatal(ds.Err())
		}
		sound(t, cidr, before)
		again, _ := topo.Assign(sk, nil)
		if d := cmp.Diff(before, again, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
			t.Fatalf("not deterministic: %s", d)
		}
		more := rapid.Permutation(append(groups, group{kind: addr.Backend, label: "extra", count: 2})).Draw(t, "more")
		for i := range more {
			more[i].count += rapid.IntRange(0, 1).Draw(t, "grow")
		}
		after, ds := topo.Assign(skeleton(cidr, []string{"198.18.0.100", "198.18.0.70"}, more...), before)
		if ds.HasErrors() && !strings.HasSuffix(cidr, "/26") {
			t.Fatal(ds.Err())
		}
		sound(t, cidr, after)
		for key, ip := range before {
			if after[key] != ip {
				t.Fatalf("%s moved from %s to %s", key, ip, after[key])
			}
		}
	})
}

func sound(t *rapid.T, cidr string, got map[string]netip.Addr) {
	p := netip.MustParsePrefix(cidr)
	first, last := lang.Ends(p)
	seen := map[netip.Addr]string{netip.MustParseAddr("198.18.0.100"): "a VIP", netip.MustParseAddr("198.18.0.70"): "a VIP"}
	for key, ip := range got {
		if !p.Contains(ip) || ip == first || ip == last {
			t.Fatalf("%s has %s", key, ip)
		}
		if by, twice := seen[ip]; twice {
			t.Fatalf("%s and %s have %s", key, by, ip)
		}
		seen[ip] = key
	}
}
