package topologies_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/topologies"
)

// resolve takes a source through all steps before the runs; what is shipped
// must have neither errors nor warnings, and nothing that cannot be carried out.
func resolve(t *testing.T, src lang.Source) (*lang.Topology, map[string]netip.Addr) {
	t.Helper()
	clean := func(ds diag.Diagnostics) {
		t.Helper()
		if len(ds) > 0 {
			t.Fatal(ds)
		}
	}
	for _, f := range src.Files {
		out, ds := lang.Format(f.Bytes, f.Name)
		clean(ds)
		if string(out) != string(f.Bytes) {
			t.Errorf("%s is not in the canonical format", f.Name)
		}
	}
	c, ds := lang.Parse(src)
	clean(ds)
	sk, ds := c.Skeleton(lang.Inputs{})
	clean(ds)
	addresses, ds := topo.Assign(sk, nil)
	clean(ds)
	tp, ds := c.Resolve(sk, addresses)
	clean(ds)
	_, ds = c.Conclude(sk, tp, nil)
	clean(ds)
	if _, err := topo.Lay(tp, "lineage"); err != nil {
		t.Fatal(err)
	}
	return tp, addresses
}

func builtin(t *testing.T, name string) lang.Source {
	t.Helper()
	b, ok := topologies.Get(name)
	if !ok {
		t.Fatalf("no builtin topology %q", name)
	}
	return lang.BuiltinSource(name, b)
}

func TestStudyOfThePaper(t *testing.T) {
	tp, addresses := resolve(t, builtin(t, "lvs-tun-dns"))
	want := map[string]string{
		"client.c[0]/nic.0": "198.18.0.128", "director.lb/nic.0": "198.18.0.20",
		"backend.ns[0]/nic.0": "198.18.0.30", "backend.ns[1]/nic.0": "198.18.0.31", "backend.ns[2]/nic.0": "198.18.0.32",
	}
	for key, ip := range want {
		if addresses[key].String() != ip {
			t.Errorf("%s has %s, want %s", key, addresses[key], ip)
		}
	}
	s, x := tp.Services[0], tp.Experiments[0]
	if fmt.Sprint(s.VIPs, len(s.RealServers), s.RealServers[0].Backend) != "[198.18.0.101] 3 backend.ns[0]" {
		t.Errorf("service: %+v", s)
	}
	if len(x.Factors) != 1 || len(x.Factors[0].Values) != 10 || x.Iterations != 3 || x.Controls == nil || *x.Controls != (lang.Controls{AA: true, Direct: true, Rotate: true}) || x.Load.Queries != 1000 || x.Load.Sockets != 1 || x.Seed != 2026 {
		t.Errorf("experiment: %+v", x)
	}
	if tp.Lab.Name != "lvs-tun-dns" || tp.Lab.Teardown != lang.TeardownOnSuccess || len(tp.Zones[0].Records) != 100 {
		t.Errorf("lab: %+v", tp.Lab)
	}
	// The kernel's hash of the VIP (hash32 of ip_vs_dh) picks a backend that
	// is not the head of the list; with .100 it would be the head.
	for vip, backend := range map[string]uint32{"198.18.0.101": 2, "198.18.0.100": 0} {
		b := netip.MustParseAddr(vip).As4()
		h := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		if got := (h * 0x61C88647) >> 24 % 3; got != backend {
			t.Errorf("dh sends %s to ns[%d], want ns[%d]", vip, got, backend)
		}
	}
}

func TestGet(t *testing.T) {
	for _, name := range topologies.Names() {
		resolve(t, builtin(t, name))
	}
	if fmt.Sprint(topologies.Names()) != "[ipv6 lvs-dr lvs-nat lvs-tun-dns many-vips mechanism multi-client nat-groups persistence routed-tun slow-backend triac-2026 triac-2026-fixed tun-gre tun-gue two-directors udp-and-tcp weighted]" {
		t.Errorf("names: %v", topologies.Names())
	}
	for _, name := range []string{"", "nothing", "../topologies/lvs-tun-dns", "embed"} {
		if _, ok := topologies.Get(name); ok {
			t.Errorf("there should be no %q", name)
		}
	}
}

func TestExamples(t *testing.T) {
	entries, err := os.ReadDir("../examples")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*lang.Topology{}
	for _, e := range entries {
		inside, _ := filepath.Glob(filepath.Join("../examples", e.Name(), "*"+lang.Extension)) // none in a directory of scripts
		if len(inside) == 0 && filepath.Ext(e.Name()) != lang.Extension {
			continue
		}
		src, ds := lang.ReadSource(filepath.Join("../examples", e.Name()))
		if ds.HasErrors() {
			t.Fatal(ds)
		}
		tp, _ := resolve(t, src)
		got[tp.Lab.Name] = tp
	}
	if farms := got["two-farms"]; farms == nil || len(farms.Machines) != 8 || farms.Experiments[0].Service.String() != `module.farm["large"].service.dns` {
		t.Errorf("farms: %+v", farms)
	}
	ports, weighted := got["ports-or-packets"], got["weighted-direct"]
	if ports == nil || weighted == nil {
		t.Fatalf("examples: %v", got)
	}
	if m, _ := ports.Machine(addr.N(addr.Backend, "resolver").At(addr.Index(2))); m.Address().String() != "198.18.40.80" {
		t.Errorf("resolver[2]: %v", m.Address())
	}
	if r := ports.Zones[0].Records[6]; r.Name != "lab" || r.Type != "AAAA" || r.Values[0] != "2001:db8:7::b" {
		t.Errorf("record: %+v", r)
	}
	s := weighted.Services[0]
	if fmt.Sprint(s.VIPs) != "[198.18.97.144 198.18.97.145 198.18.97.146]" || s.RealServers[0].Weight != 4 || s.RealServers[0].Backend.String() != `backend.dns["large"]` {
		t.Errorf("service: %+v", s)
	}
	if m, _ := weighted.Machine(s.RealServers[0].Backend); m.Memory != 320<<20 || m.NICs[0].Impair == nil {
		t.Errorf("large: %+v", m)
	}
}
