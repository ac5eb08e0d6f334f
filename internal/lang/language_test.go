package lang_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
)

// lab is a whole small topology with a place for more.
const lab = `
network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  count = 2
  nic {
    network = network.lan
  }
}

director "lb" {
  nic {
    network = network.lan
    address = cidrhost(network.lan.cidr, 20)
  }
}

backend "ns" {
  count  = 3
  serves = [zone.lab]
  nic {
    network = network.lan
  }
}

zone "lab" {
  name    = "Lab.Test."
  records = [for i in range(4) : { name = "Host${i}", type = "a", values = ["192.0.2.${i}"] }]
}

tunnel "lb-ns" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director  = director.lb
  vip       = cidrhost(network.lan.cidr, 101)
  scheduler = "rr"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

experiment "x" {
  service = service.dns
  clients = client.c
  factor "scheduler" { values = ["rr", "dh"] }
  load "dnsperf" {}
}
`

func nouns(list []addr.Noun) string { return fmt.Sprint(list) }

func TestResolvedValues(t *testing.T) {
	l := mustLoad(t, lab)
	tp := l.topology
	s, _ := tp.Service(addr.N(addr.Service, "dns"))
	var real []string
	for _, rs := range s.RealServers {
		real = append(real, fmt.Sprintf("%s %s:%d w%d via %s", rs.Backend, rs.Address, rs.Port, rs.Weight, rs.Tunnel))
	}
	want := []string{
		`backend.ns[0] 198.18.0.30:53 w1 via tunnel.lb-ns["backend.ns[0]"]`,
		`backend.ns[1] 198.18.0.31:53 w1 via tunnel.lb-ns["backend.ns[1]"]`,
		`backend.ns[2] 198.18.0.32:53 w1 via tunnel.lb-ns["backend.ns[2]"]`,
	}
	if d := cmp.Diff(want, real); d != "" {
		t.Errorf("real servers (-want +got):\n%s", d)
	}
	if got := fmt.Sprintf("%v %d %s %s %s %v", s.VIPs, s.Port, s.Protocol, s.Scheduler, s.Forward, s.OnePacket); got != "[198.18.0.101] 53 udp rr tunnel false" {
		t.Errorf("service: %s", got)
	}
	z := tp.Zones[0]
	if z.Name != "lab.test" || z.Records[3].Name != "host3" || z.Records[3].Type != "A" || z.Records[3].TTL != 300 {
		t.Errorf("zone: %+v", z)
	}
	x := tp.Experiments[0]
	if nouns(x.Clients) != "[client.c[0] client.c[1]]" || x.Iterations != 1 || x.Load.Queries != 1000 || x.Load.Sockets != 1 ||
		x.Load.Timeout != 5*time.Second || x.Load.Protocol != "udp" || x.Isolation != "flush" || x.Capture {
		t.Errorf("experiment defaults: %+v", x)
	}
	tun := tp.Tunnels[2]
	if tun.Type != "ipip" || tun.Local.String() != "198.18.0.32" || tun.Remote.String() != "198.18.0.20" || tun.From.String() != "director.lb" {
		t.Errorf("tunnel: %+v", tun)
	}
	m, _ := tp.Machine(addr.N(addr.Backend, "ns").At(addr.Index(1)))
	if m.Memory != 256<<20 || nouns(m.Serves) != "[zone.lab]" || m.Address().String() != "198.18.0.31" {
		t.Errorf("machine: %+v", m)
	}
	if tp.Lab.Name != "test" || tp.Lab.Teardown != lang.TeardownOnSuccess || tp.Provider.URI != "embedded" {
		t.Errorf("lab without a lab block: %+v, %+v", tp.Lab, tp.Provider)
	}
	if r := tp.Place(s.Noun, "scheduler", s.Range); r.Start.Line != 39 {
		t.Errorf("place of the scheduler: %v", r)
	}
}

// expressions are what users write about blocks, and what it comes to.
var expressions = []struct{ expr, want string }{
	{`backend.ns[0].address`, `"198.18.0.30"`},
	{`backend.ns[*].address`, `["198.18.0.30", "198.18.0.31", "198.18.0.32"]`},
	{`[for b in backend.ns : b.id]`, `["backend.ns[0]", "backend.ns[1]", "backend.ns[2]"]`},
	{`{for b in backend.ns : b.id => b.address if b.address != backend.ns[1].address}`, `{"backend.ns[0]" = "198.18.0.30", "backend.ns[2]" = "198.18.0.32"}`},
	{`length(backend.ns)`, `3`},
	{`length(director.lb)`, `1`},
	{`director.lb[*].address`, `["198.18.0.20"]`},
	{`backend.ns[length(client.c)].nic[0].network`, `"network.lan"`},
	{`(true ? backend.ns[0] : backend.ns[1]).address`, `"198.18.0.30"`},
	{`length(true ? backend.ns : client.c)`, `3`},
	{`backend.ns[0] == backend.ns[0]`, `true`},
	{`backend.ns[0] == backend.ns[1]`, `false`},
	{`contains(backend.ns, backend.ns[2])`, `true`},
	{`length(toset(concat(backend.ns, backend.ns)))`, `3`},
	{`keys(director.lb)`, `["address", "addresses", "id", "nic"]`},
	{`jsonencode(network.lan)`, `"{\"cidr\":\"198.18.0.0/24\",\"id\":\"network.lan\"}"`},
	{`network.lan`, `{cidr = "198.18.0.0/24", id = "network.lan"}`},
	{`keys(tunnel.lb-ns)`, `["backend.ns[0]", "backend.ns[1]", "backend.ns[2]"]`},
	{`tunnel.lb-ns["backend.ns[1]"].type`, `"ipip"`},
	{`values(tunnel.lb-ns)[*].id`, `["tunnel.lb-ns[\"backend.ns[0]\"]", "tunnel.lb-ns[\"backend.ns[1]\"]", "tunnel.lb-ns[\"backend.ns[2]\"]"]`},
	{`service.dns.vip`, `"198.18.0.101"`},
	{`service.dns.vips`, `["198.18.0.101"]`},
	{`"${service.dns.scheduler} ${service.dns.port} ${service.dns.one_packet}"`, `"rr 53 false"`},
	{`zone.lab.records[1].values[0]`, `"192.0.2.1"`},
	{`lab.name`, `"test"`},
	{`try(backend.ns[9].address, "none")`, `"none"`},
	{`can(backend.ns[9])`, `false`},
	{`cidrhost("198.18.0.0/24", -2)`, `"198.18.0.254"`},
	{`cidrnetmask("198.18.0.0/20")`, `"255.255.240.0"`},
	{`cidrsubnet("198.18.0.0/16", 8, 7)`, `"198.18.7.0/24"`},
	{`cidrsubnets("198.18.0.0/16", 8, 4, 8)`, `["198.18.0.0/24", "198.18.16.0/20", "198.18.32.0/24"]`},
	{`cidrsubnet("2001:db8::/32", 16, 1)`, `"2001:db8:1::/48"`},
	{`sum([1, 2.5])`, `3.5`},
	{`[alltrue([true, false]), anytrue([true, false]), alltrue([]), anytrue([])]`, `[false, true, true, false]`},
	{`[one([]), one(["a"])]`, `[null, "a"]`},
	{`[tonumber("7"), tostring(7), tobool("true")]`, `[7, "7", true]`},
	{`[tolist(["a"]), toset(["b", "b"]), tomap({ c = 1 })]`, `[["a"], ["b"], {c = 1}]`},
	{`[replace("a.b", ".", "-"), replace("a1b2", "/[0-9]/", "")]`, `["a-b", "ab"]`},
	{`[startswith("abc", "ab"), endswith("abc", "ab"), strcontains("abc", "b")]`, `[true, false, true]`},
	{`[length("äö"), strrev("ab"), upper("x"), title("a b")]`, `[2, "ba", "X", "A B"]`},
	{`format("%03d %s", 7, "x")`, `"007 x"`},
	{`jsondecode("[1, {\"a\": true}]")`, `[1, {a = true}]`},
	{`index(["a", "b"], "b")`, `1`},
	{`index(backend.ns, backend.ns[2])`, `2`},
	{`coalesce(null, "", "x")`, `"x"`},
	{`coalesce(null, backend.ns[1]).id`, `"backend.ns[1]"`},
	{`lookup({ a = 1 }, "b", 2)`, `2`},
	{`element(["a", "b"], 3)`, `"b"`},
	{`[issensitive(1), issensitive(sensitive(1)), issensitive([sensitive(1)]), issensitive(nonsensitive([sensitive(1)]))]`, `[false, true, true, false]`},
	{`nonsensitive(sensitive({ a = "x" })).a`, `"x"`},
	{`compact(["a", "", null])`, `["a"]`},
	{`flatten([["a"], ["b", ["c"]]])`, `["a", "b", "c"]`},
	{`merge({ a = 1 }, { b = 2 })`, `{a = 1, b = 2}`},
	{`setproduct(["a"], ["b", "c"])`, `[["a", "b"], ["a", "c"]]`},
	{`chunklist(range(5), 2)`, `[[0, 1], [2, 3], [4]]`},
	{`<<-EOT
		  text
		EOT
		`, `"text\n"`},
}

func TestExpressions(t *testing.T) {
	l := mustLoad(t, lab)
	for _, tc := range expressions {
		v, ds := l.config.Eval(l.skeleton, l.topology, nil, tc.expr)
		if ds.HasErrors() {
			t.Errorf("%s: %v", tc.expr, ds.Err())
			continue
		}
		if got := show(v); got != tc.want {
			t.Errorf("%s\n got %s\nwant %s", tc.expr, got, tc.want)
		}
	}
	if _, ds := l.config.Eval(l.skeleton, l.topology, nil, `backend.nss[0]`); !ds.HasErrors() {
		t.Error("a wrong reference in a console expression must be an error")
	}
}

// show writes a value compactly and fully.
func show(v cty.Value) string {
	ty := v.Type()
	switch {
	case v.IsNull():
		return "null"
	case !v.IsKnown():
		return "unknown " + ty.FriendlyName()
	case ty == cty.String:
		return fmt.Sprintf("%q", v.AsString())
	case ty == cty.Number:
		return v.AsBigFloat().Text('g', 12)
	case ty == cty.Bool:
		return fmt.Sprint(v.True())
	}
	var parts []string
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if ty.IsMapType() || ty.IsObjectType() {
			key := k.AsString()
			if strings.ContainsAny(key, "[.=") {
				key = fmt.Sprintf("%q", key)
			}
			parts = append(parts, key+" = "+show(e))
		} else {
			parts = append(parts, show(e))
		}
	}
	if ty.IsMapType() || ty.IsObjectType() {
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// TestHandles: where a block is expected, whole blocks in all forms do, and
// they create no edges that would make a cycle.
func TestHandles(t *testing.T) {
	l := mustLoad(t, `
variable "small" { default = true }
locals {
  servers = { first = backend.a, rest = backend.b }
  count   = length(backend.b)
}
network "n" {
  count = length(backend.b)
  cidr  = "198.18.${count.index}.0/24"
}
client "c" {
  for_each = toset(["x", "y"])
  nic {
    network = network.n[0]
  }
}
director "lb" {
  count = 1
  nic {
    network = network.n[0]
  }
}
backend "a" {
  serves = [zone.lab]
  nic {
    network = network.n[0]
  }
}
backend "b" {
  count  = 2
  serves = [zone.lab]
  nic {
    network = network.n[0]
  }
  nic {
    network = network.n[1]
  }
}
zone "lab" {
  name    = "lab.test"
  records = [for b in backend.b : { name = replace(b.id, "/[^a-z0-9]/", ""), type = "A", values = [b.address] }]
}
tunnel "each" {
  for_each = { for b in backend.b : b.id => b }
  from     = director.lb[0]
  to       = each.value
}
service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  port     = local.count + 51
  forward  = "direct"
  real_server {
    backends = var.small ? concat(local.servers.rest, [local.servers.first]) : backend.b
  }
}
service "tcp" {
  director  = director.lb[0]
  vip       = "198.18.0.101"
  protocol  = "tcp"
  scheduler = service.dns.scheduler
  real_server {
    backends = backend.b[*]
    tunnel   = values(tunnel.each)
    port     = service.dns.port
  }
}
experiment "x" {
  service = service.dns
  clients = [client.c["y"], client.c["x"]]
  factor "order" { values = ["declared", [2, 0, 1]] }
  load "dnsperf" {
    sockets = length(backend.b[*].address)
    queries = length(client.c) * 10
  }
}
`)
	dns := l.topology.Services[0]
	var order []string
	for _, rs := range dns.RealServers {
		order = append(order, rs.Backend.String())
	}
	if got := fmt.Sprint(order); got != "[backend.b[0] backend.b[1] backend.a]" {
		t.Errorf("order of real servers: %s", got)
	}
	tcp := l.topology.Services[1]
	if tcp.Scheduler != "wlc" || len(tcp.RealServers) != 2 || tcp.RealServers[1].Tunnel.String() != `tunnel.each["backend.b[1]"]` {
		t.Errorf("second service: %+v", tcp)
	}
	if got := l.topology.Zones[0].Records[1]; got.Name != "backendb1" || got.Values[0] != "198.18.0.32" {
		t.Errorf("record from a machine's address: %+v", got)
	}
	if x := l.topology.Experiments[0]; nouns(x.Clients) != `[client.c["y"] client.c["x"]]` || x.Load.Sockets != 2 || x.Load.Queries != 20 {
		t.Errorf("experiment: %+v", x)
	}
}

// TestEachValueLooksAgain: a machine taken by for_each before addresses exist
// has its address where arguments are evaluated.
func TestEachValueLooksAgain(t *testing.T) {
	l := mustLoad(t, strings.Replace(lab, `tunnel "lb-ns" {`, `
service "per" {
  for_each = { for b in backend.ns : b.id => b }
  director = director.lb
  vip      = "198.18.0.1${trimsuffix(trimprefix(each.key, "backend.ns["), "]")}"
  port     = tonumber(split(".", each.value.address)[3]) + 23
  forward  = "direct"
}
tunnel "lb-ns" {`, 1))
	if got := l.topology.Services[2].Port; got != 55 {
		t.Errorf("port %d, want 55: each.value.address was not known", got)
	}
}

func TestNotKnownYetThroughFor(t *testing.T) {
	src := text("t.hcl", strings.Replace(lab, `cidrhost(network.lan.cidr, 20)`, `[for b in backend.ns : b.address][0]`, 1))
	_, ds := load(src, lang.Inputs{})
	if len(ds) != 1 || ds[0].Summary != "Not known yet" {
		t.Errorf("want one message that the address is not known yet, got:\n%s", plain(ds, src))
	}
}

func TestConclude(t *testing.T) {
	l := mustLoad(t, lab+`
check "nothing_lost" {
  assert {
    condition     = experiment.x.unanswered == 0
    error_message = "Lost ${experiment.x.unanswered} of ${service.dns.vip}"
  }
  assert {
    condition     = !contains(experiment.x.flags, "lost_in_tunnel")
    error_message = "tunnel"
  }
}
output "head" {
  value       = experiment.x.shares["scheduler=rr"][backend.ns[0].id]
  description = "share of the head"
}
output "decisions" { value = experiment.x.decisions }
output "servers" { value = backend.ns }
`)
	before := l.conclusion
	if len(before.Checks) != 2 || !before.Checks[0].Unknown || before.Checks[0].Passed || before.Outputs["head"].Value.IsKnown() {
		t.Errorf("before the runs: %+v", before)
	}
	if ty := before.Outputs["decisions"].Value.Type(); !ty.Equals(cty.Map(cty.Number)) {
		t.Errorf("an unknown must have its type, not %s", ty.FriendlyName())
	}
	res := &lang.Results{Experiments: map[string]lang.ExperimentResult{"x": {Runs: 2, ValidRuns: 2, Unanswered: 3, AnswersOK: 1997, Flags: []string{"not_answered"},
		Shares:    map[string]map[string]float64{"scheduler=rr": {"backend.ns[0]": 1}},
		Decisions: map[string]float64{"scheduler=rr": 1, "scheduler=dh": 1}}}}
	c, ds := l.config.Conclude(l.skeleton, l.topology, res)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	if k := c.Checks[0]; k.Passed || k.Unknown || k.Name != "nothing_lost" || k.Message != "Lost 3 of 198.18.0.101" || len(k.Values) != 1 || k.Values[0].Rendered != "3" {
		t.Errorf("failed check: %+v", k)
	}
	if k := c.Checks[1]; !k.Passed || k.Message != "" {
		t.Errorf("passed check: %+v", k)
	}
	if got := show(c.Outputs["head"].Value); got != "1" || c.Outputs["head"].Description != "share of the head" {
		t.Errorf("output: %s", got)
	}
	if got := show(c.Outputs["servers"].Value); strings.Contains(got, "handle") || !strings.Contains(got, "198.18.0.32") {
		t.Errorf("a block as output: %s", got)
	}
	res.Experiments["x"] = lang.ExperimentResult{}
	if _, ds = l.config.Conclude(l.skeleton, l.topology, res); !ds.HasErrors() {
		t.Error("a missing treatment must be an error after the runs")
	}
}

// The paths of a proof: unknown but typed before it, and no hindrance to a service as
// an output where there was none.
func TestPathsOfServices(t *testing.T) {
	l := mustLoad(t, lab+`
check "straight" {
  assert {
    condition     = alltrue([for p in service.dns.paths : p.straight_back && p.encapsulations == 1 && p.backend != backend.ns[2].id])
    error_message = "Detours: ${join(" ", flatten(service.dns.paths[*].defects))}"
  }
}
output "service" { value = service.dns }
output "tunnels" { value = toset(service.dns.paths[*].tunnel) }
`)
	if k := l.conclusion.Checks[0]; !k.Unknown || k.Passed {
		t.Errorf("before the proof: %+v", k)
	}
	unproved, ds := l.config.Conclude(l.skeleton, l.topology, &lang.Results{})
	if ds.HasErrors() || !unproved.Checks[0].Unknown || unproved.Outputs["tunnels"].Value.IsWhollyKnown() {
		t.Errorf("without a proof: %+v, %v", unproved, ds)
	}
	if v := unproved.Outputs["service"].Value; !v.IsWhollyKnown() || !v.GetAttr("paths").IsNull() {
		t.Errorf("a service as output: %s", show(v))
	}
	path := lang.PathResult{Client: "client.c[0]", VIP: "198.18.0.101", Backend: "backend.ns[0]", Tunnel: "ipip", Encapsulations: 1, StraightBack: true, Whole: true}
	res := &lang.Results{Paths: map[string][]lang.PathResult{"dns": {path}}}
	c, ds := l.config.Conclude(l.skeleton, l.topology, res)
	if ds.HasErrors() || !c.Checks[0].Passed || show(c.Outputs["tunnels"].Value) != `["ipip"]` || c.Outputs["service"].Value.GetAttr("paths").LengthInt() != 1 {
		t.Errorf("%+v, %v", c, ds)
	}
	path.StraightBack, path.Defects = false, []string{"through-director-on-return"}
	res.Paths["dns"] = append(res.Paths["dns"], path)
	if c, ds = l.config.Conclude(l.skeleton, l.topology, res); ds.HasErrors() || c.Checks[0].Passed || c.Checks[0].Message != "Detours: through-director-on-return" {
		t.Errorf("a detour: %+v, %v", c.Checks[0], ds)
	}
}

func TestAddressesStayWithTheirKey(t *testing.T) {
	l := mustLoad(t, strings.Replace(lab, "count = 2\n", "count = 2\n  addresses = 3\n", 1))
	c1, _ := l.topology.Machine(addr.N(addr.Client, "c").At(addr.Index(1)))
	if got := fmt.Sprint(c1.NICs[0].Addresses); got != "[198.18.0.131 198.18.0.132 198.18.0.133]" || c1.Addresses != 3 {
		t.Errorf("addresses of client.c[1]: %s", got)
	}
	if l.addresses["client.c[1]/nic.0.2"] != netip.MustParseAddr("198.18.0.133") {
		t.Errorf("keys: %v", l.addresses)
	}
	delete(l.addresses, "client.c[1]/nic.0.2")
	if _, ds := l.config.Resolve(l.skeleton, l.addresses); !ds.HasErrors() {
		t.Error("a missing address must be an error")
	}
	l.addresses["client.c[1]/nic.0.2"] = netip.MustParseAddr("198.18.0.30")
	if _, ds := l.config.Resolve(l.skeleton, l.addresses); !ds.HasErrors() {
		t.Error("an address twice must be an error")
	}
}

// TestImpairment: the NIC's own wins over its network's.
func TestImpairment(t *testing.T) {
	hcl := strings.Replace(lab, `network "lan" { cidr = "198.18.0.0/24" }`, `
network "lan" {
  cidr = "198.18.0.0/24"
  mtu  = 1400
  impair {
    delay = "2ms"
    loss  = "1%"
    rate  = "10Mbit"
  }
}`, 1)
	hcl = strings.Replace(hcl, "address = cidrhost", "impair { duplicate = 0.25 }\n address = cidrhost", 1)
	l := mustLoad(t, hcl)
	c, _ := l.topology.Machine(addr.N(addr.Client, "c").At(addr.Index(0)))
	if im := c.NICs[0].Impair; im == nil || im.Delay != 2*time.Millisecond || im.Loss != 0.01 || im.RateBits != 10_000_000 {
		t.Errorf("inherited: %+v", im)
	}
	d, _ := l.topology.Machine(addr.N(addr.Director, "lb"))
	if im := d.NICs[0].Impair; im == nil || im.Delay != 0 || im.Duplicate != 0.25 {
		t.Errorf("own: %+v", im)
	}
	if l.topology.Networks[0].MTU != 1400 {
		t.Errorf("mtu: %d", l.topology.Networks[0].MTU)
	}
}

func TestManyFilesAreOneTopology(t *testing.T) {
	cut := strings.Index(lab, "zone \"lab\"")
	src := lang.Source{Name: "two", Files: []lang.File{{Name: "a.hcl", Bytes: []byte(lab[:cut])}, {Name: "b.hcl", Bytes: []byte(lab[cut:])}}}
	l, ds := load(src, lang.Inputs{})
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	one := mustLoad(t, lab)
	if d := cmp.Diff(one.addresses, l.addresses, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
	if _, err := topo.Lay(l.topology, "x"); err != nil {
		t.Error(err)
	}
}
