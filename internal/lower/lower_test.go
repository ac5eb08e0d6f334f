package lower

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
	"github.com/lvslab/lvslab/topologies"
)

const lineage = "00112233445566778899aabbccddeeff"

var options = Options{LabDir: "/lab", Guests: map[lang.Guest]Guest{{}: {Kernel: "/image/vmlinuz", Initrd: "/image/initrd", Root: "/image/root.squashfs"}, {Server: "knot"}: {Root: "/image/knot.squashfs"}}, Accelerator: "tcg"}

// lowered lays a topology out and lowers it.
func lowered(t *testing.T, top *lang.Topology) []provider.Resource {
	t.Helper()
	layout, err := topo.Lay(top, lineage)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := Resources(top, layout, options)
	if err != nil {
		t.Fatal(err)
	}
	checkResources(t, rs)
	return rs
}

// checkResources: what holds for all resources of any topology.
func checkResources(t *testing.T, rs []provider.Resource) {
	t.Helper()
	known := map[addr.Resource]bool{}
	for _, r := range rs {
		if known[r.Addr] {
			t.Errorf("%s stands twice", r.Addr)
		}
		known[r.Addr] = true
		s, ok := schema.Of(r.Type)
		if !ok || !r.Attrs.Type().Equals(s.Type()) || !r.Attrs.IsWhollyKnown() {
			t.Errorf("%s: attributes are no known %s", r.Addr, r.Type)
		}
		if again, err := addr.ParseResource(r.Addr.String()); err != nil || again != r.Addr {
			t.Errorf("%s is not read back: %v, %v", r.Addr, again, err)
		}
		if r.Range == nil {
			t.Errorf("%s has no place in the topology", r.Addr)
		}
		if !slices.IsSortedFunc(r.DependsOn, addr.Resource.Compare) {
			t.Errorf("%s: dependencies are not sorted", r.Addr)
		}
	}
	for _, r := range rs {
		for _, d := range slices.Concat(r.DependsOn, r.ReplacedBy, []addr.Resource{r.Within}) {
			if !d.IsZero() && !known[d] {
				t.Errorf("%s needs %s, which nobody wants", r.Addr, d)
			}
		}
	}
}

// resolved reads a topology through the language, as apply does.
func resolved(t *testing.T, name string, text []byte) *lang.Topology {
	t.Helper()
	c, ds := lang.Parse(lang.BuiltinSource(name, text))
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	sk, ds := c.Skeleton(lang.Inputs{})
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	addresses, ds := topo.Assign(sk, nil)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	top, ds := c.Resolve(sk, addresses)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	return top
}

func dump(t *testing.T, rs []provider.Resource) string {
	t.Helper()
	var b strings.Builder
	for _, r := range rs {
		fmt.Fprintf(&b, "%s: %s\n", r.Addr, r.Type)
		if !r.Within.IsZero() {
			fmt.Fprintf(&b, "  within %s\n", r.Within)
		}
		for _, d := range r.DependsOn {
			fmt.Fprintf(&b, "  needs %s\n", d)
		}
		for _, d := range r.ReplacedBy {
			fmt.Fprintf(&b, "  replaced by %s\n", d)
		}
		raw, err := ctyjson.Marshal(r.Attrs, r.Attrs.Type())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := json.Indent(&out, raw, "  ", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  %s\n\n", out.String())
	}
	return b.String()
}

func TestBuiltins(t *testing.T) {
	for _, name := range topologies.Names() {
		text, _ := topologies.Get(name)
		golden.Check(t, name+".golden", dump(t, lowered(t, resolved(t, name, text))))
	}
}

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

var (
	lan   = addr.N(addr.Network, "lan")
	lb    = addr.N(addr.Director, "lb")
	ns0   = addr.N(addr.Backend, "ns").At(addr.Index(0))
	ns1   = addr.N(addr.Backend, "ns").At(addr.Index(1))
	zone  = addr.N(addr.Zone, "lab")
	tun0  = addr.N(addr.Tunnel, "t").At(addr.Name(ns0.String()))
	tun1  = addr.N(addr.Tunnel, "t").At(addr.Name(ns1.String()))
	first = addr.N(addr.Service, "first")
	other = addr.N(addr.Service, "other")
)

func card(a string) []lang.NIC {
	return []lang.NIC{{Network: lan, Addresses: []netip.Addr{ip(a)}}}
}

// small is a topology by hand: two backends, one service by tunnel with two
// VIPs, one that forwards directly.
func small() *lang.Topology {
	return &lang.Topology{
		Networks: []lang.Network{{Noun: lan, CIDR: netip.MustParsePrefix("198.18.0.0/24")}},
		Machines: []lang.Machine{
			{Noun: lb, Memory: 1 << 28, NICs: card("198.18.0.20"), Sysctl: map[string]string{"net.ipv4.vs.conn_reuse_mode": "0", "net.core.rmem_max": "1"}},
			{Noun: ns0, Memory: 1 << 28, NICs: card("198.18.0.30"), Serves: []addr.Noun{zone}},
			{Noun: ns1, Memory: 1 << 28, NICs: card("198.18.0.31"), Sysctl: map[string]string{"net.ipv4.conf.all.arp_ignore": "8"}},
			{Noun: addr.N(addr.Client, "c"), Memory: 1 << 28, NICs: card("198.18.0.128")},
		},
		Zones: []lang.Zone{{Noun: zone, Name: "lab.test", Records: []lang.Record{{Name: "@", Type: "TXT", TTL: 5, Values: []string{`"a b"`}}, {Name: "www", Type: "CNAME", TTL: 60, Values: []string{"host"}}}}},
		Tunnels: []lang.Tunnel{
			{Noun: tun0, Type: "ipip", From: lb, To: ns0, Local: ip("198.18.0.30"), Remote: ip("198.18.0.20")},
			{Noun: tun1, Type: "gue", Port: 6080, From: lb, To: ns1, Local: ip("198.18.0.31"), Remote: ip("198.18.0.20")},
		},
		Services: []lang.Service{
			{Noun: first, Director: lb, VIPs: []netip.Addr{ip("198.18.0.101"), ip("198.18.0.100")}, Port: 53, Protocol: "udp", Scheduler: "mh",
				Flags: []string{"mh-port", "mh-fallback"}, Forward: "tunnel", Timeouts: lang.Timeouts{UDP: 30 * time.Second}, Persistence: &lang.Persistence{Timeout: time.Minute, Netmask: 24},
				RealServers: []lang.RealServer{{Backend: ns1, Address: ip("198.18.0.31"), Port: 53, Tunnel: tun1, Weight: 2, Upper: 9, Lower: 3}, {Backend: ns0, Address: ip("198.18.0.30"), Port: 53, Tunnel: tun0}}},
			{Noun: other, Director: lb, VIPs: []netip.Addr{ip("198.18.0.100"), ip("203.0.113.9")}, Port: 80, Protocol: "tcp", Scheduler: "rr", Forward: "direct",
				RealServers: []lang.RealServer{{Backend: ns0, Address: ip("198.18.0.30"), Port: 80, Weight: 1}}},
		},
	}
}

// serving is the small topology with another name server on its first backend,
// which boots another root.
func serving(t *testing.T, server string) []provider.Resource {
	t.Helper()
	top := small()
	top.Machines[1].Server = server
	rs := lowered(t, top)
	if d, err := schema.DomainFrom(find(t, rs, "backend.ns[0]/domain").Attrs); err != nil || d.Root != "/image/"+server+".squashfs" {
		t.Errorf("it boots %q, %v", d.Root, err)
	}
	return rs
}

func find(t *testing.T, rs []provider.Resource, a string) provider.Resource {
	t.Helper()
	for _, r := range rs {
		if r.Addr.String() == a {
			return r
		}
	}
	t.Fatalf("there is no %s", a)
	return provider.Resource{}
}

func value[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWhereTheVIPsGo(t *testing.T) {
	rs := lowered(t, small())
	link := func(a string) []string {
		l, err := schema.LinkFrom(find(t, rs, a).Attrs)
		return value(t, l, err).Addresses
	}
	tunnel := func(n addr.Noun) []string {
		l, err := schema.TunnelFrom(find(t, rs, n.String()+"/tunnel").Attrs)
		return value(t, l, err).Addresses
	}
	cases := []struct {
		what      string
		got, want []string
	}{
		{"director", link("director.lb/link.lan"), []string{"198.18.0.20/24", "198.18.0.101/32", "198.18.0.100/32", "203.0.113.9/32"}},
		{"backend's card", link("backend.ns[0]/link.lan"), []string{"198.18.0.30/24"}},
		{"tunnel", tunnel(tun0), []string{"198.18.0.101/32", "198.18.0.100/32"}},
		{"loopback", link("backend.ns[0]/link.lo"), []string{"198.18.0.100/32", "203.0.113.9/32"}},
	}
	for _, c := range cases {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
	}
	lo, err := schema.LinkFrom(find(t, rs, "backend.ns[0]/link.lo").Attrs)
	if value(t, lo, err); lo.MAC != "" || lo.Name != "lo" || lo.MTU != 0 {
		t.Errorf("loopback: %+v", lo)
	}
	d, err := schema.DNSFrom(find(t, rs, "backend.ns[0]/dns").Attrs)
	if diff := cmp.Diff([]string{"198.18.0.30", "198.18.0.101", "198.18.0.100", "203.0.113.9"}, value(t, d, err).Listen); diff != "" {
		t.Errorf("named listens: %s", diff)
	}
	if other := find(t, serving(t, "knot"), "backend.ns[0]/dns"); other.Attrs.GetAttr("server").AsString() != "knot" {
		t.Errorf("the server: %#v", other.Attrs)
	}
	for _, r := range rs {
		if r.Addr.String() == "backend.ns[1]/dns" || r.Addr.String() == "backend.ns[1]/link.lo" {
			t.Errorf("%s was not asked for", r.Addr)
		}
	}
}

// reaches reports whether a needs b, directly or through others.
func reaches(rs []provider.Resource, a, b addr.Resource) bool {
	for _, r := range rs {
		if r.Addr != a {
			continue
		}
		for _, d := range slices.Concat(r.DependsOn, r.ReplacedBy, []addr.Resource{r.Within}) {
			if d == b || !d.IsZero() && reaches(rs, d, b) {
				return true
			}
		}
	}
	return false
}

func TestOrder(t *testing.T) {
	rs := lowered(t, small())
	chain := []string{"network.lan/network", "backend.ns[0]/domain", "backend.ns[0]/link.lan", "backend.ns[0]/sysctl",
		`tunnel.t["backend.ns[0]"]/tunnel`, "backend.ns[0]/dns", "service.first/ipvs"}
	for i := 1; i < len(chain); i++ {
		if a, b := find(t, rs, chain[i]).Addr, find(t, rs, chain[i-1]).Addr; !reaches(rs, a, b) {
			t.Errorf("%s does not wait for %s", a, b)
		}
	}
	pairs := [][2]string{
		{"backend.ns[0]/link.lo", "backend.ns[0]/sysctl"}, {"backend.ns[0]/dns", "backend.ns[0]/link.lo"},
		{"service.first/ipvs", "director.lb/link.lan"}, {"service.first/ipvs", `tunnel.t["backend.ns[1]"]/tunnel`},
		{"service.other/ipvs", "backend.ns[0]/dns"}, {"director.lb/sysctl", "director.lb/link.lan"},
	}
	for _, p := range pairs {
		if !reaches(rs, find(t, rs, p[0]).Addr, find(t, rs, p[1]).Addr) {
			t.Errorf("%s does not wait for %s", p[0], p[1])
		}
	}
	if w := find(t, rs, `tunnel.t["backend.ns[0]"]/tunnel`).Within.String(); w != "backend.ns[0]/domain" {
		t.Errorf("the tunnel's device is within %s", w)
	}
}

func TestService(t *testing.T) {
	rs := lowered(t, small())
	got, err := schema.IPVSFrom(find(t, rs, "service.first/ipvs").Attrs)
	value(t, got, err)
	one := schema.IPVSService{Protocol: "udp", VIP: "198.18.0.101", Port: 53, Scheduler: "mh", Flags: []string{"mh-fallback", "mh-port"},
		PersistenceS: 60, Netmask: 24, Timeouts: schema.IPVSTimeouts{TCP: 900, TCPFin: 120, UDP: 30}, Destinations: []schema.IPVSDestination{
			{Address: "198.18.0.31", Port: 53, Forward: "tunnel", Weight: 2, Upper: 9, Lower: 3, TunnelType: "gue", TunnelPort: 6080},
			{Address: "198.18.0.30", Port: 53, Forward: "tunnel", TunnelType: "ipip"}}}
	two := one
	two.VIP = "198.18.0.100"
	if d := cmp.Diff([]schema.IPVSService{one, two}, got.Services); d != "" {
		t.Error(d)
	}
	if got.Sysctl["net.ipv4.vs.conn_reuse_mode"] != "0" || got.Sysctl["net.ipv4.vs.run_estimation"] != "1" {
		t.Errorf("%v", got.Sysctl)
	}
	top := small()
	top.Services[0].FWMark = 7
	got, err = schema.IPVSFrom(find(t, lowered(t, top), "service.first/ipvs").Attrs)
	if value(t, got, err); len(got.Services) != 1 || got.Services[0].FWMark != 7 || got.Services[0].VIP != "" || got.Services[0].Protocol != "" {
		t.Errorf("by mark: %+v", got.Services)
	}
	mark, err := schema.MarkFrom(find(t, lowered(t, top), "service.first/mark").Attrs)
	if want := (schema.Mark{Node: "director.lb", Mark: 7, Targets: []string{"udp 198.18.0.101:53", "udp 198.18.0.100:53"}}); err != nil || !cmp.Equal(mark, want) {
		t.Errorf("%+v, %v, want %+v", mark, err, want)
	}
}

func TestSysctls(t *testing.T) {
	rs := lowered(t, small())
	values := func(a string) map[string]string {
		s, err := schema.SysctlFrom(find(t, rs, a).Attrs)
		return value(t, s, err).Values
	}
	want := map[string]string{
		"net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2",
		"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0",
	}
	if d := cmp.Diff(want, values("backend.ns[0]/sysctl")); d != "" {
		t.Errorf("backend: %s", d)
	}
	if got := values("backend.ns[1]/sysctl")["net.ipv4.conf.all.arp_ignore"]; got != "8" {
		t.Errorf("the user's own value lost: %s", got)
	}
	lb := values("director.lb/sysctl")
	if lb["net.ipv4.ip_forward"] != "0" || lb["net.ipv4.conf.lan.send_redirects"] != "0" || lb["net.core.rmem_max"] != "1" {
		t.Errorf("director: %v", lb)
	}
	if _, ok := lb["net.ipv4.vs.conn_reuse_mode"]; ok {
		t.Error("a parameter of IPVS is set before ip_vs is loaded")
	}
	top := small()
	top.Services[1].Forward = "masquerade"
	s, err := schema.SysctlFrom(find(t, lowered(t, top), "director.lb/sysctl").Attrs)
	if value(t, s, err); s.Values["net.ipv4.ip_forward"] != "1" {
		t.Error("masquerading needs forwarding")
	}
}

func TestImpairIsWhole(t *testing.T) {
	got := impair(&lang.Impair{Delay: 2 * time.Millisecond, Loss: 0.07, Reorder: 1, RateBits: 5, Limit: 3})
	if *got != (schema.Impair{DelayUS: 2000, LossPPM: 70000, ReorderPPM: 1000000, RateBits: 5, Limit: 3}) {
		t.Errorf("%+v", got)
	}
	if impair(nil) != nil {
		t.Error("nothing became an impairment")
	}
}

func TestZoneText(t *testing.T) {
	text := ZoneText(small().Zones[0])
	want := "$ORIGIN lab.test.\n" +
		"@ 3600 IN SOA ns.invalid. hostmaster.invalid. 1 3600 600 604800 300\n" +
		"@ 3600 IN NS ns.invalid.\n" +
		"@ 5 IN TXT \"a b\"\n" +
		"www 60 IN CNAME host\n"
	if d := cmp.Diff(want, text); d != "" {
		t.Error(d)
	}
	p := dns.NewZoneParser(strings.NewReader(text), "", "")
	var names []string
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		names = append(names, rr.Header().Name)
	}
	if p.Err() != nil || len(names) != 4 || names[3] != "www.lab.test." {
		t.Errorf("%v, %v", names, p.Err())
	}
}

func TestForeignLayoutIsRefused(t *testing.T) {
	layout, err := topo.Lay(small(), lineage)
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*topo.Layout){
		"machine": func(l *topo.Layout) { delete(l.Machines, lb) },
		"network": func(l *topo.Layout) { delete(l.Networks, lan) },
		"tunnel":  func(l *topo.Layout) { delete(l.Tunnels, tun0) },
	} {
		layout, err := topo.Lay(small(), lineage)
		if err != nil {
			t.Fatal(err)
		}
		edit(layout)
		if _, err := Resources(small(), layout, options); err == nil {
			t.Errorf("a layout without its %s was taken", name)
		}
	}
	top := small()
	top.Zones = nil
	if _, err := Resources(top, layout, options); err == nil {
		t.Error("a zone that does not exist was served")
	}
}
