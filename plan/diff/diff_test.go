package diff_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/graph"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
	"github.com/lvslab/lvslab/provider/schema"
)

func at(s string) addr.Resource {
	a, err := addr.ParseResource(s)
	if err != nil {
		panic(err)
	}
	return a
}

// typed is a fake of the product's own types.
type typed struct{ provider.Provider }

func (typed) Schemas() map[string]provider.Schema { return schema.All() }
func (typed) Plan(r provider.Resource, prior cty.Value) (provider.Planned, error) {
	s, _ := schema.Of(r.Type)
	p := provider.PlanBySchema(s, r, prior)
	if r.Type == schema.TypeIPVS && p.Action == provider.Update {
		p.Warnings = diag.Diagnostics{diag.Warnf("living entries keep their backends", "", "a new scheduler decides only about new ports")}
	}
	return p, nil
}

func providers(t *testing.T) *plan.Providers {
	t.Helper()
	w, err := fake.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ps, err := plan.NewProviders(typed{}, fake.New(fake.Schemas(), w))
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

// lab is a small lab of the product's types: network, one machine, its
// settings, and a service on another machine's director.
func lab() []provider.Resource {
	vm := schema.Domain{Name: "lab-ns-0", UUID: "u1", Address: "backend.ns[0]", Lineage: "l", Memory: 256 << 20, VCPUs: 1, Accelerator: "tcg",
		NICs: []schema.NIC{{Network: "lab-lan", MAC: "52:54:00:00:00:01"}}}
	lb := vm
	lb.Name, lb.UUID, lb.Address = "lab-lb", "u2", "director.lb"
	service := schema.IPVS{Node: "director.lb", Sysctl: map[string]string{"net.ipv4.vs.conntrack": "0"},
		Services: []schema.IPVSService{{Protocol: "udp", VIP: "198.18.0.101", Port: 53, Scheduler: "rr",
			Destinations: []schema.IPVSDestination{{Address: "198.18.0.30", Port: 53, Forward: "tunnel", Weight: 1, TunnelType: "ipip"}}}}}
	net, d0, lbd := at("network.lan/network"), at("backend.ns[0]/domain"), at("director.lb/domain")
	return []provider.Resource{
		{Addr: net, Type: "network", Attrs: schema.Network{Name: "lab-lan", UUID: "u0", Bridge: "lv0", MTU: 1500}.Value()},
		{Addr: d0, Type: "domain", Attrs: vm.Value(), ReplacedBy: []addr.Resource{net}},
		{Addr: lbd, Type: "domain", Attrs: lb.Value(), ReplacedBy: []addr.Resource{net}},
		{Addr: at("backend.ns[0]/link.lan"), Type: "link", Within: d0, Attrs: schema.Link{Node: "backend.ns[0]", MAC: "52:54:00:00:00:01", Name: "lan",
			MTU: 1500, Addresses: []string{"198.18.0.30/24"}, Impair: &schema.Impair{DelayUS: 2000}}.Value()},
		{Addr: at("backend.ns[0]/dns"), Type: "dns", Within: d0, DependsOn: []addr.Resource{at("backend.ns[0]/link.lan")},
			Attrs: schema.DNS{Node: "backend.ns[0]", ServerID: "backend.ns[0]", Zones: map[string]string{"lab.test": "a\nb\nc\n"}, Listen: []string{"198.18.0.30"}}.Value()},
		{Addr: at("service.dns/ipvs"), Type: "ipvs", Within: lbd, DependsOn: []addr.Resource{at("backend.ns[0]/dns")}, Attrs: service.Value()},
	}
}

// made returns what exists once the wanted has been made.
func made(wanted []provider.Resource) []plan.Existing {
	var out []plan.Existing
	for _, r := range wanted {
		attrs := r.Attrs.AsValueMap()
		if _, ok := attrs["boot_id"]; ok {
			attrs["boot_id"] = cty.StringVal("boot 1")
		}
		deps := slices.Concat(r.DependsOn, r.ReplacedBy)
		out = append(out, plan.Existing{Addr: r.Addr, Type: r.Type, Value: cty.ObjectVal(attrs), DependsOn: deps, Within: r.Within})
	}
	return out
}

func edit(rs []provider.Resource, a, attr string, v cty.Value) {
	for i := range rs {
		if rs[i].Addr == at(a) {
			m := rs[i].Attrs.AsValueMap()
			m[attr] = v
			rs[i].Attrs = cty.ObjectVal(m)
		}
	}
}

func drop[T any](in []T, addrOf func(T) addr.Resource, names ...string) []T {
	return slices.DeleteFunc(slices.Clone(in), func(x T) bool { return slices.Contains(names, addrOf(x).String()) })
}

func haveAddr(e plan.Existing) addr.Resource     { return e.Addr }
func wantAddr(r provider.Resource) addr.Resource { return r.Addr }

// cases are whole plans; each has a golden file.
var cases = map[string]func(in *diff.Input){
	"create_all": func(in *diff.Input) { in.Have = nil },
	"no_changes": func(in *diff.Input) {},
	"destroy":    func(in *diff.Input) { in.Wanted = nil },
	"one_backend_less": func(in *diff.Input) {
		in.Wanted = drop(in.Wanted, wantAddr, "backend.ns[0]/domain", "backend.ns[0]/link.lan", "backend.ns[0]/dns")
		for i := range in.Wanted {
			in.Wanted[i].DependsOn = nil
		}
		edit(in.Wanted, "service.dns/ipvs", "services", schema.IPVS{Services: []schema.IPVSService{{Protocol: "udp", VIP: "198.18.0.101", Port: 53, Scheduler: "sed"}}}.Value().GetAttr("services"))
	},
	"update_in_place": func(in *diff.Input) {
		edit(in.Wanted, "backend.ns[0]/dns", "zones", cty.MapVal(map[string]cty.Value{"lab.test": cty.StringVal("a\nB\nc\nd\n")}))
		edit(in.Wanted, "backend.ns[0]/link.lan", "impair", schema.Link{}.Value().GetAttr("impair"))
	},
	"replace_machine": func(in *diff.Input) {
		edit(in.Wanted, "backend.ns[0]/domain", "memory", cty.NumberIntVal(512<<20))
	},
	"replace_network": func(in *diff.Input) {
		edit(in.Wanted, "network.lan/network", "mtu", cty.NumberIntVal(9000))
	},
	"machine_gone": func(in *diff.Input) {
		in.Have = drop(in.Have, haveAddr, "backend.ns[0]/domain", "backend.ns[0]/link.lan")
		in.Gone = map[addr.Resource]string{at("backend.ns[0]/domain"): "found gone"}
	},
	"changed_outside": func(in *diff.Input) {
		in.Recorded = map[addr.Resource]cty.Value{at("service.dns/ipvs"): in.Have[5].Value}
		m := in.Have[5].Value.AsValueMap()
		m["sysctl"] = cty.MapVal(map[string]cty.Value{"net.ipv4.vs.conntrack": cty.StringVal("1")})
		in.Have[5].Value = cty.ObjectVal(m)
		edit(in.Wanted, "service.dns/ipvs", "services", schema.IPVS{Services: []schema.IPVSService{{Protocol: "udp", VIP: "198.18.0.101", Port: 53, Scheduler: "sed",
			Destinations: []schema.IPVSDestination{{Address: "198.18.0.31", Port: 53, Forward: "tunnel", Weight: 1, TunnelType: "ipip"}}}}}.Value().GetAttr("services"))
	},
	"tainted": func(in *diff.Input) { in.Have[4].Tainted = true },
	"forced":  func(in *diff.Input) { in.Replace = []addr.Noun{addr.N(addr.Backend, "ns")} },
	"target":  func(in *diff.Input) { in.Have, in.Targets = nil, []addr.Noun{addr.N(addr.Backend, "ns")} },
	"target_destroy": func(in *diff.Input) {
		in.Wanted, in.Targets = nil, []addr.Noun{addr.N(addr.Backend, "ns").At(addr.Index(0))}
	},
}

func TestPlans(t *testing.T) {
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			in := diff.Input{Providers: providers(t), Wanted: lab(), Have: made(lab())}
			prepare(&in)
			p, err := diff.Compute(in)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := diff.Render(&b, p); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name+".golden", b.String())
		})
	}
}

func TestBadInput(t *testing.T) {
	box := func(name string, needs ...string) provider.Resource {
		r := provider.Resource{Addr: at(name), Type: "box", Attrs: fake.Box("round", 1)}
		for _, n := range needs {
			r.DependsOn = append(r.DependsOn, at(n))
		}
		return r
	}
	unknown := box("backend.a/box")
	unknown.Attrs = cty.UnknownVal(fake.Schemas()["box"].Type())
	other := box("backend.a/box")
	other.Type = "nothing"
	cases := []struct {
		in   diff.Input
		want string
	}{
		{diff.Input{Wanted: []provider.Resource{box("backend.a/box"), box("backend.a/box")}}, "backend.a/box is wanted twice"},
		{diff.Input{Wanted: []provider.Resource{box("backend.a/box", "backend.b/box")}}, "backend.a/box needs backend.b/box, which nobody wants"},
		{diff.Input{Wanted: []provider.Resource{box("backend.a/box", "backend.b/box"), box("backend.b/box", "backend.a/box")}}, "dependency cycle"},
		{diff.Input{Wanted: []provider.Resource{unknown}}, "the wanted attributes are not a known box"},
		{diff.Input{Wanted: []provider.Resource{other}}, `no provider knows the resource type "nothing"`},
		{diff.Input{Have: []plan.Existing{{Addr: at("backend.a/box"), Type: "nothing"}}}, `no provider knows the resource type "nothing"`},
		{diff.Input{Wanted: []provider.Resource{box("backend.a/box")}, Targets: []addr.Noun{addr.N(addr.Backend, "b")}}, "nothing is called backend.b"},
	}
	for _, c := range cases {
		c.in.Providers = providers(t)
		if _, err := diff.Compute(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// For any wanted graph and anything that exists: each address has exactly one
// change, the action fits what is wanted and what exists, and what is within
// something replaced or made anew is never left alone.
func TestAnyPlanIsConsistent(t *testing.T) {
	ps := providers(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		name := func(i int) addr.Resource { return at(fmt.Sprintf("backend.m%d/box", i)) }
		in := diff.Input{Providers: ps}
		wanted := map[addr.Resource]provider.Resource{}
		for i := range n {
			r := provider.Resource{Addr: name(i), Type: "box", Attrs: fake.Box(rapid.SampledFrom([]string{"round", "flat"}).Draw(t, "shape"), rapid.IntRange(0, 1).Draw(t, "size"))}
			if i > 0 && rapid.Bool().Draw(t, "needs") {
				d := name(rapid.IntRange(0, i-1).Draw(t, "what"))
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					r.DependsOn = []addr.Resource{d}
				case 1:
					r.Within = d
				case 2:
					r.ReplacedBy = []addr.Resource{d}
				}
			}
			wanted[r.Addr] = r
			in.Wanted = append(in.Wanted, r)
		}
		have := map[addr.Resource]plan.Existing{}
		for i := range n + 2 {
			if rapid.Bool().Draw(t, "exists") {
				e := plan.Existing{Addr: name(i), Type: "box", Value: fake.Box("round", 0), Tainted: rapid.IntRange(0, 4).Draw(t, "taint") == 0, Within: wanted[name(i)].Within}
				have[e.Addr] = e
				in.Have = append(in.Have, e)
			}
		}
		p, err := diff.Compute(in)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[addr.Resource]provider.Action{}
		for _, c := range p.Changes {
			if seen[c.Addr] != "" {
				t.Fatalf("%s has two changes", c.Addr)
			}
			seen[c.Addr] = c.Action
			_, isWanted := wanted[c.Addr]
			if (c.Want != nil) != isWanted || (c.Action == provider.Delete) == isWanted {
				t.Fatalf("%s: %s, wanted %v", c.Addr, c.Action, isWanted)
			}
			if c.Action != provider.Create && c.Have == nil || c.Action == provider.Create && c.Have != nil {
				t.Fatalf("%s: %s of %v", c.Addr, c.Action, c.Have)
			}
			if c.Action == provider.NoOp && have[c.Addr].Tainted {
				t.Fatalf("%s is in doubt and left alone", c.Addr)
			}
			if c.Action != provider.NoOp && len(c.Reasons) == 0 {
				t.Fatalf("%s: %s without a reason", c.Addr, c.Action)
			}
		}
		for a, r := range wanted {
			for _, d := range append(slices.Clone(r.ReplacedBy), r.Within) {
				if act := seen[d]; (act == provider.Create || act == provider.Replace) && seen[a] != provider.Create && seen[a] != provider.Replace {
					t.Fatalf("%s is %s, but %s is %s", d, act, a, seen[a])
				}
			}
		}
		if len(seen) != len(wanted)+len(in.Have)-overlap(wanted, have) {
			t.Fatalf("%d changes", len(seen))
		}
	})
}

func overlap(w map[addr.Resource]provider.Resource, h map[addr.Resource]plan.Existing) int {
	n := 0
	for a := range w {
		if _, ok := h[a]; ok {
			n++
		}
	}
	return n
}

func TestCycleErrorSurvives(t *testing.T) {
	a := provider.Resource{Addr: at("backend.a/box"), Type: "box", Attrs: fake.Box("round", 1), Within: at("backend.a/box")}
	_, err := diff.Compute(diff.Input{Providers: providers(t), Wanted: []provider.Resource{a}})
	var cycle *graph.CycleError
	if !errors.As(err, &cycle) {
		t.Errorf("%v", err)
	}
}
