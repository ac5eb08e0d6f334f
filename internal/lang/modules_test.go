package lang_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
)

// site is a module: a number of backends with their zone, on a network that it
// is given.
const site = `
variable "network" {}
variable "size" {
  type    = number
  default = 2
}
variable "memory" {
  type     = string
  nullable = false
  default  = "256MiB"
}
variable "zone" { default = "own.test" }
locals { label = "${lab.name}-${var.size}" }
backend "ns" {
  count  = var.size
  memory = var.memory
  serves = [zone.own]
  nic { network = var.network }
}
zone "own" {
  name    = var.zone
  records = [{ name = local.label, type = "A", values = ["192.0.2.1"] }]
}
output "backends" { value = backend.ns }
output "zone" { value = zone.own }
output "first" { value = try(backend.ns[0].address, null) }
`

// front is a module that calls another: a director with a service for backends
// that it is given, and the experiment on it.
const front = `
variable "network" {}
variable "backends" {}
variable "vip" { type = string }
director "lb" {
  nic { network = var.network }
}
tunnel "t" {
  from = director.lb
  to   = var.backends
}
service "dns" {
  director = director.lb
  vip      = var.vip
  real_server {
    backends = var.backends
    tunnel   = tunnel.t
  }
}
module "probe" {
  source  = "./probe"
  network = var.network
  service = service.dns
}
check "answered" {
  assert {
    condition     = module.probe.unanswered == 0
    error_message = "unanswered: ${module.probe.unanswered}"
  }
}
output "probe" { value = module.probe.unanswered }
`

const probe = `
variable "network" {}
variable "service" {}
client "c" {
  nic { network = var.network }
}
experiment "x" {
  service = var.service
  clients = client.c
  factor "scheduler" { values = ["rr"] }
  load "dnsperf" {}
}
output "unanswered" { value = experiment.x.unanswered }
`

const nested = `
lab "nest" {}
network "lan" { cidr = "198.18.0.0/24" }
module "site" {
  source  = "./site"
  network = network.lan
  size    = 3
}
module "front" {
  source   = "./front"
  network  = network.lan
  backends = module.site.backends
  vip      = cidrhost(network.lan.cidr, 101)
}
output "first" { value = module.site.first }
output "all" { value = module.site.backends[*].id }
output "probe" { value = module.front.probe }
`

func withModules(root string, modules map[string]string) lang.Source {
	src := text("test.hcl", root)
	src.Modules = map[string]lang.Module{}
	for dir, body := range modules {
		src.Modules[dir] = lang.Module{Files: []lang.File{{Name: dir + "/main.hcl", Bytes: []byte(body)}}}
	}
	return src
}

func mustLoadSource(t *testing.T, src lang.Source) loaded {
	t.Helper()
	l, ds := load(src, lang.Inputs{})
	if ds.HasErrors() {
		t.Fatalf("unexpected errors:\n%s", plain(ds, src))
	}
	return l
}

// TestModules: blocks go into modules and come out of them as handles, and
// everything inside has its path.
func TestModules(t *testing.T) {
	l := mustLoadSource(t, withModules(nested, map[string]string{"site": site, "front": front, "front/probe": probe}))
	var got []string
	for _, m := range l.topology.Machines {
		got = append(got, fmt.Sprintf("%s %s on %s", m.Noun, m.Address(), m.NICs[0].Network))
	}
	s := l.topology.Services[0]
	for _, r := range s.RealServers {
		got = append(got, fmt.Sprintf("%s of %s: %s %s by %s", s.Noun, s.Director, r.Backend, r.Address, r.Tunnel))
	}
	x := l.topology.Experiments[0]
	got = append(got, fmt.Sprintf("%s on %s by %s", x.Noun, x.Service, x.Clients), l.topology.Zones[0].Noun.String()+" "+l.topology.Zones[0].Records[0].Name)
	want := []string{
		"module.site.backend.ns[0] 198.18.0.30 on network.lan",
		"module.site.backend.ns[1] 198.18.0.31 on network.lan",
		"module.site.backend.ns[2] 198.18.0.32 on network.lan",
		"module.front.director.lb 198.18.0.10 on network.lan",
		"module.front.module.probe.client.c 198.18.0.128 on network.lan",
		`module.front.service.dns of module.front.director.lb: module.site.backend.ns[0] 198.18.0.30 by module.front.tunnel.t["module.site.backend.ns[0]"]`,
		`module.front.service.dns of module.front.director.lb: module.site.backend.ns[1] 198.18.0.31 by module.front.tunnel.t["module.site.backend.ns[1]"]`,
		`module.front.service.dns of module.front.director.lb: module.site.backend.ns[2] 198.18.0.32 by module.front.tunnel.t["module.site.backend.ns[2]"]`,
		"module.front.module.probe.experiment.x on module.front.service.dns by [module.front.module.probe.client.c]",
		"module.site.zone.own nest-3",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := topo.Lay(l.topology, "lineage"); err != nil {
		t.Error(err)
	}
	results := &lang.Results{Experiments: map[string]lang.ExperimentResult{"module.front.module.probe.x": {Runs: 1, Unanswered: 7}}}
	c, ds := l.config.Conclude(l.skeleton, l.topology, results)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	if show(c.Outputs["first"].Value) != `"198.18.0.30"` || show(c.Outputs["probe"].Value) != "7" || len(c.Outputs) != 3 ||
		show(c.Outputs["all"].Value) != `["module.site.backend.ns[0]", "module.site.backend.ns[1]", "module.site.backend.ns[2]"]` {
		t.Errorf("outputs: %+v", c.Outputs)
	}
	if len(c.Checks) != 1 || c.Checks[0].Name != "module.front.answered" || c.Checks[0].Passed || c.Checks[0].Message != "unanswered: 7" {
		t.Errorf("checks: %+v", c.Checks)
	}
}

// TestModuleInstances: count and for_each make several of everything inside.
func TestModuleInstances(t *testing.T) {
	l := mustLoadSource(t, withModules(`
network "lan" {
  for_each = { a = 0, b = 1 }
  cidr     = "198.18.${each.value}.0/24"
}
module "site" {
  source   = "./site"
  for_each = { a = 1, b = 2 }
  network  = network.lan[each.key]
  zone     = "${each.key}.test"
  size     = each.value
  memory   = null
}
module "more" {
  source  = "./site"
  count   = 2
  network = network.lan["a"]
  size    = count.index
  zone    = "m${count.index}.test"
  memory  = "320MiB"
}
module "none" {
  source  = "./site"
  count   = 0
  network = network.lan["a"]
}
output "by_key" { value = { for k, m in module.site : k => length(m.backends) } }
output "by_number" { value = module.more[*].zone.name }
output "none" { value = length(module.none) }
output "one" { value = module.site["b"].backends[1].nic[0].network }
`, map[string]string{"site": site}))
	var got []string
	for _, m := range l.topology.Machines {
		got = append(got, fmt.Sprintf("%s %d MiB on %s", m.Noun, m.Memory>>20, m.NICs[0].Network))
	}
	want := []string{
		`module.site["a"].backend.ns[0] 256 MiB on network.lan["a"]`,
		`module.site["b"].backend.ns[0] 256 MiB on network.lan["b"]`, `module.site["b"].backend.ns[1] 256 MiB on network.lan["b"]`,
		`module.more[1].backend.ns[0] 320 MiB on network.lan["a"]`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for name, want := range map[string]string{
		"by_key": "{a = 1, b = 2}", "by_number": `["m0.test", "m1.test"]`, "none": "0", "one": `"network.lan[\"b\"]"`,
	} {
		if got := show(l.conclusion.Outputs[name].Value); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	layout, err := topo.Lay(l.topology, "lineage")
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]bool{}
	for _, m := range layout.Machines {
		hosts[m.Hostname], hosts[m.Domain] = true, true
	}
	if len(hosts) != 8 || !hosts["site-b-ns-1"] {
		t.Errorf("names: %v", hosts)
	}
}

// TestModuleDependsOn: a call's depends_on is that of everything inside, and a
// module that is named stands for everything inside.
func TestModuleDependsOn(t *testing.T) {
	l := mustLoadSource(t, withModules(`
network "lan" { cidr = "198.18.0.0/24" }
director "lb" {
  depends_on = [module.site]
  nic { network = network.lan }
}
client "c" {
  nic { network = network.lan }
}
module "site" {
  source     = "./site"
  network    = network.lan
  depends_on = [client.c]
}
`, map[string]string{"site": site}))
	for noun, want := range map[string]string{
		"director.lb":               "[module.site.backend.ns[0] module.site.backend.ns[1]]",
		"module.site.backend.ns[1]": "[client.c]",
		"client.c":                  "[]",
	} {
		n, err := addr.ParseNoun(noun)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(l.topology.DependsOn[n]); got != want {
			t.Errorf("%s depends on %s, want %s", noun, got, want)
		}
	}
}

// TestModuleMoves: what stands in a module's moved blocks is seen from there.
func TestModuleMoves(t *testing.T) {
	l := mustLoadSource(t, withModules(`
network "lan" { cidr = "198.18.0.0/24" }
module "site" {
  source  = "./site"
  count   = 2
  network = network.lan
  zone    = "${count.index}.test"
  size    = 1
}
moved {
  from = backend.old
  to   = module.site[0].backend.ns
}
`, map[string]string{"site": site + `
moved {
  from = backend.before
  to   = backend.ns
}
`}))
	exists := func(list ...string) []addr.Noun {
		var out []addr.Noun
		for _, s := range list {
			n, err := addr.ParseNoun(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
		return out
	}
	renames, ds := topo.Follow(l.skeleton, exists("backend.old[0]", "module.site[1].backend.before[0]", "network.lan"))
	want := "[{backend.old[0] module.site[0].backend.ns[0]} {module.site[1].backend.before[0] module.site[1].backend.ns[0]}]"
	if got := fmt.Sprint(renames.Sorted()); got != want || len(ds) > 0 {
		t.Errorf("%s, want %s; %v", got, want, ds)
	}
}
