package operation

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/labtest"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// live is the demonstration's lab as it is up, for plans by the real providers.
type live struct {
	t         *testing.T
	ps        *plan.Providers
	wanted    []provider.Resource
	addresses map[string]netip.Addr
}

func lowered(t *testing.T, prior map[string]netip.Addr, edits ...string) ([]provider.Resource, map[string]netip.Addr) {
	t.Helper()
	top, err := labtest.Read(labtest.Demo(edits...))
	if err != nil {
		t.Fatal(err)
	}
	wanted, addresses, err := top.Lower("00112233445566778899aabbccddeeff", prior)
	if err != nil {
		t.Fatal(err)
	}
	return wanted, addresses
}

func newLive(t *testing.T) live {
	t.Helper()
	ps, err := offline()
	if err != nil {
		t.Fatal(err)
	}
	wanted, addresses := lowered(t, nil)
	return live{t, ps, wanted, addresses}
}

// up is what exists when everything is as wanted.
func (l live) up() []plan.Existing {
	var out []plan.Existing
	for _, r := range l.wanted {
		attrs := r.Attrs.AsValueMap()
		if _, ok := attrs["boot_id"]; ok {
			attrs["boot_id"] = cty.StringVal("boot 1")
		}
		out = append(out, plan.Existing{Addr: r.Addr, Type: r.Type, Value: cty.ObjectVal(attrs), DependsOn: slices.Concat(r.DependsOn, r.ReplacedBy), Within: r.Within})
	}
	return out
}

func (l live) plan(in diff.Input) (plan.Plan, string) {
	l.t.Helper()
	in.Providers = l.ps
	p, err := diff.Compute(in)
	if err != nil {
		l.t.Fatal(err)
	}
	var b strings.Builder
	if err := diff.Render(&b, p); err != nil {
		l.t.Fatal(err)
	}
	return p, b.String()
}

// TestLiveUpdates: what can be changed while traffic runs is changed without
// touching a machine that stays, and the plan says what will not follow at once.
func TestLiveUpdates(t *testing.T) {
	l := newLive(t)
	var all strings.Builder
	for _, e := range []struct {
		name  string
		edits []string
	}{
		{"weights", []string{`weight   = 1`, `weight   = 3`}},
		{"scheduler", []string{`scheduler  = "rr"`, `scheduler  = "wrr"`}},
		{"one_packet", []string{`one_packet = false`, `one_packet = true`}},
		{"timeouts", []string{`udp = "300s"`, `udp = "60s"`}},
		{"zone records", []string{"range(100)", "range(90)"}},
		{"impairment", []string{"  count = 1\n\n  nic { network = network.lan }", "  count = 1\n\n  nic {\n    network = network.lan\n    impair {\n      delay = \"2ms\"\n    }\n  }"}},
		{"a backend more", []string{"  count  = 3\n", "  count  = 4\n"}},
		{"a backend less", []string{"  count  = 3\n", "  count  = 2\n"}},
		{"a backend less, its connections moved", []string{"  count  = 3\n", "  count  = 2\n", "director \"lb\" {", "director \"lb\" {\n  sysctl = { \"net.ipv4.vs.expire_nodest_conn\" = 1 }"}},
		{"a backend less, with other weights", []string{"  count  = 3\n", "  count  = 2\n", `weight   = 1`, `weight   = 3`}},
		{"only the second backend", []string{"    backends = backend.ns\n", "    backends = backend.ns[1]\n"}},
	} {
		wanted, _ := lowered(t, l.addresses, e.edits...)
		p, text := l.plan(diff.Input{Wanted: wanted, Have: l.up()})
		for _, c := range p.Changes {
			stays := slices.ContainsFunc(wanted, func(r provider.Resource) bool { return r.Addr == c.Addr })
			if c.Have != nil && stays && c.Action == provider.Replace || c.Type == schema.TypeDomain && c.Action == provider.Update {
				t.Errorf("%s: %s of %s", e.name, c.Action, c.Addr)
			}
		}
		all.WriteString("== " + e.name + "\n" + text + "\n")
	}
	have := l.up()
	for i, h := range have {
		if d, err := schema.DomainFrom(h.Value); h.Type == schema.TypeDomain && h.Addr.Noun.Kind == addr.Client && err == nil {
			d.Initrd = "/image/of an older lvslab"
			have[i].Value = d.Value()
		}
	}
	_, text := l.plan(diff.Input{Wanted: l.wanted, Have: have})
	all.WriteString("== another lvslab\n" + text + "\n")
	_, text = l.plan(diff.Input{Wanted: l.wanted, Have: l.up(), Replace: []addr.Noun{addr.N(addr.Service, "dns")}})
	golden.Check(t, "live_updates"+".golden", all.String()+"== entries flushed\n"+text)
}

// TestForeignChanges: what was changed behind lvslab's back is named as that.
func TestForeignChanges(t *testing.T) {
	l := newLive(t)
	var all strings.Builder
	service, dns, link := resourceAt(addr.N(addr.Service, "dns"), schema.TypeIPVS), resourceAt(addr.N(addr.Backend, "ns").At(addr.Index(0)), schema.TypeDNS), addr.Resource{}
	for _, r := range l.wanted {
		if r.Type == schema.TypeLink && r.Addr.Noun == addr.N(addr.Client, "c").At(addr.Index(0)) {
			link = r.Addr
		}
	}
	cases := map[string]struct {
		at     addr.Resource
		change func(cty.Value) cty.Value
	}{
		"a weight": {service, func(v cty.Value) cty.Value {
			s, _ := schema.IPVSFrom(v)
			s.Services[0].Destinations[1].Weight = 9
			return s.Value()
		}},
		"the first real server removed": {service, func(v cty.Value) cty.Value {
			s, _ := schema.IPVSFrom(v)
			s.Services[0].Destinations = s.Services[0].Destinations[1:]
			return s.Value()
		}},
		"the last real server removed": {service, func(v cty.Value) cty.Value {
			s, _ := schema.IPVSFrom(v)
			s.Services[0].Destinations = s.Services[0].Destinations[:2]
			return s.Value()
		}},
		"a real server added": {service, func(v cty.Value) cty.Value {
			s, _ := schema.IPVSFrom(v)
			d := s.Services[0].Destinations[0]
			d.Address = "198.18.0.77"
			s.Services[0].Destinations = append([]schema.IPVSDestination{d}, s.Services[0].Destinations...)
			return s.Value()
		}},
		"a kernel parameter": {service, func(v cty.Value) cty.Value {
			s, _ := schema.IPVSFrom(v)
			s.Sysctl["net.ipv4.vs.expire_nodest_conn"] = "1"
			return s.Value()
		}},
		"a zone": {dns, func(v cty.Value) cty.Value {
			d, _ := schema.DNSFrom(v)
			for name := range d.Zones {
				d.Zones[name] = "another text, sha256 0011aabb"
			}
			return d.Value()
		}},
		"a NIC taken out": {resourceAt(addr.N(addr.Client, "c").At(addr.Index(0)), schema.TypeDomain), func(v cty.Value) cty.Value {
			d, _ := schema.DomainFrom(v)
			d.NICs = nil
			return d.Value()
		}},
		"an address": {link, func(v cty.Value) cty.Value {
			k, _ := schema.LinkFrom(v)
			k.Addresses = nil
			return k.Value()
		}},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c, have, recorded := cases[name], l.up(), map[addr.Resource]cty.Value{}
		for i, h := range have {
			recorded[h.Addr] = h.Value
			if h.Addr == c.at {
				have[i].Value = c.change(h.Value)
			}
		}
		_, text := l.plan(diff.Input{Wanted: l.wanted, Have: have, Recorded: recorded})
		if !strings.Contains(text, "changed outside lvslab") || strings.Contains(text, "changed in the topology") {
			t.Errorf("%s: %s", name, text)
		}
		all.WriteString("== " + name + "\n" + text + "\n")
	}
	var have []plan.Existing
	tunnel := resourceAt(addr.N(addr.Tunnel, "lb-ns").At(addr.Name("backend.ns[1]")), schema.TypeTunnel)
	gone := map[addr.Resource]string{service: "changed outside lvslab: the virtual service has been deleted",
		tunnel: "changed outside lvslab: lb-ns is not there", dns: "changed outside lvslab: named does not run"}
	for _, h := range l.up() {
		if _, is := gone[h.Addr]; !is {
			have = append(have, h)
		}
	}
	_, text := l.plan(diff.Input{Wanted: l.wanted, Have: have, Gone: gone})
	golden.Check(t, "foreign_changes"+".golden", all.String()+"== gone\n"+text)
}

func resourceAt(n addr.Noun, part string) addr.Resource { return addr.Resource{Noun: n, Part: part} }

// A block is drawn by the worst that is found of it.
func TestConditions(t *testing.T) {
	l := newLive(t)
	up := l.up()
	old, err := addr.ParseResource("client.old/domain")
	if err != nil {
		t.Fatal(err)
	}
	changed, gone, missing := up[0].Addr, up[1].Addr, up[2].Addr
	r := reality{have: append(up[3:], up[0], plan.Existing{Addr: old}), changed: []addr.Resource{changed}, gone: map[addr.Resource]string{gone: "it has ended"}}
	found := r.conditions(l.wanted)
	want := map[addr.Resource]condition{changed: {State: liveChanged}, gone: {State: liveGone, Reason: "it has ended"}, missing: {State: liveNotMade}, old: {State: liveLeftOver}, up[3].Addr: {State: liveAsRecorded}}
	for a, w := range want {
		if found[a] != w {
			t.Errorf("%s: %+v, want %+v", a, found[a], w)
		}
	}
	if len(found) != len(l.wanted)+1 {
		t.Errorf("%d found", len(found))
	}
	backend := addr.N(addr.Backend, "ns")
	dns, vm := addr.Resource{Noun: backend, Part: "dns"}, addr.Resource{Noun: backend, Part: "domain"}
	nouns := ofNouns(map[addr.Resource]condition{vm: {State: liveAsRecorded}, dns: {State: liveGone, Reason: "named does not run"}})
	went := reality{existing: []plan.Existing{{Addr: vm}, {Addr: dns, Within: vm}}, gone: map[addr.Resource]string{vm: "it was killed", dns: "gone with it"}}.conditions(nil)
	if went[vm].follows || !went[dns].follows {
		t.Errorf("what follows what: %+v", went)
	}
	cause := condition{State: liveGone, Reason: "it was killed"}
	if got := ofNouns(map[addr.Resource]condition{dns: {State: liveGone, Reason: "gone with backend.ns/domain", follows: true}, vm: cause})[backend]; got != cause {
		t.Errorf("the cause is not shown: %+v", got)
	}
	if got := nouns[vm.Noun]; got != (condition{State: liveGone, Reason: "named does not run"}) || len(nouns) != 1 {
		t.Errorf("%+v", nouns)
	}
}
