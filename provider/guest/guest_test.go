package guest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

const node = "director.lb"

var (
	link = schema.Link{Node: node, MAC: "52:54:00:00:00:01", Name: "lan", MTU: 1500,
		Addresses: []string{"198.18.0.20/24", "198.18.0.21/24", "198.18.0.101/32"}, // the kernel lists the last one second
		Impair:    &schema.Impair{DelayUS: 2000, LossPPM: 700, ReorderPPM: 3}}
	tunnel = schema.Tunnel{Node: node, Name: "lb-ns", Type: "ipip", Local: "198.18.0.30", Remote: "198.18.0.20", Addresses: []string{"198.18.0.101/32"}}
	route  = schema.Route{Node: node, To: "198.19.0.0/16", Via: "198.18.0.1"}
	sysctl = schema.Sysctl{Node: node, Values: map[string]string{"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.tcp_rmem": "4096\t131072\t6291456"}}
	dns    = schema.DNS{Node: node, ServerID: "backend.ns[0]", Zones: map[string]string{"lab.test": "text"}, Listen: []string{"198.18.0.101", "198.18.0.30"}}
	ipvs   = schema.IPVS{Node: node, Sysctl: map[string]string{"net.ipv4.vs.expire_nodest_conn": "0"}, Services: []schema.IPVSService{{
		Protocol: "udp", VIP: "198.18.0.101", Port: 53, Scheduler: "rr", Timeouts: schema.IPVSTimeouts{UDP: 300},
		Destinations: []schema.IPVSDestination{
			{Address: "198.18.0.30", Port: 53, Forward: "tunnel", Weight: 1, TunnelType: "ipip"},
			{Address: "198.18.0.31", Port: 53, Forward: "direct", Weight: 1},
		}}}}
)

var mark = schema.Mark{Node: node, Mark: 7, Targets: []string{"udp 198.18.0.101:53", "udp 198.18.0.100:53"}}

func resource(typ string, v cty.Value) provider.Resource {
	return provider.Resource{Addr: addr.Resource{Noun: addr.N(addr.Director, "lb"), Part: typ}, Type: typ, Attrs: v}
}

var kinds = []struct {
	typ    string
	value  cty.Value
	damage func(*agent) // what somebody does to it by hand
	says   string       // how Read sees that, "" = as a change
}{
	{schema.TypeLink, link.Value(), func(a *agent) {
		l := a.links[link.MAC]
		l.Addresses = l.Addresses[:1]
		a.links[link.MAC] = l
	}, ""},
	{schema.TypeLink, link.Value(), func(a *agent) {
		l := a.links[link.MAC]
		l.Up = false
		a.links[link.MAC] = l
	}, "the device has been set down"},
	{schema.TypeLink, link.Value(), func(a *agent) { delete(a.links, link.MAC) }, "is not there"},
	{schema.TypeLink, link.Value(), func(a *agent) { delete(a.netem, "lan") }, ""},
	{schema.TypeTunnel, tunnel.Value(), func(a *agent) { delete(a.tunnels, tunnel.Name) }, "is not there"},
	{schema.TypeTunnel, tunnel.Value(), func(a *agent) {
		st := a.tunnels[tunnel.Name]
		st.FallbackUp = true
		a.tunnels[tunnel.Name] = st
	}, "the fallback device beside it has been set up"},
	{schema.TypeTunnel, tunnel.Value(), func(a *agent) {
		st := a.tunnels[tunnel.Name]
		st.Remote = netip.MustParseAddr("198.18.0.77")
		a.tunnels[tunnel.Name] = st
	}, ""},
	{schema.TypeRoute, route.Value(), func(a *agent) { clear(a.routes) }, "is not there"},
	{schema.TypeSysctl, sysctl.Value(), func(a *agent) { a.sysctl["net.ipv4.conf.all.rp_filter"] = "1" }, ""},
	{schema.TypeSysctl, sysctl.Value(), func(a *agent) { delete(a.sysctl, "net.ipv4.tcp_rmem") }, ""},
	{schema.TypeDNS, dns.Value(), func(a *agent) { a.named.Running = false }, "named does not run"},
	{schema.TypeDNS, dns.Value(), func(a *agent) { a.named.Rewritten = true }, "named.conf has been rewritten"},
	{schema.TypeDNS, withServer("nsd").Value(), func(a *agent) { a.named.Running = false }, "nsd does not run"},
	{schema.TypeDNS, withServer("knot").Value(), func(a *agent) { a.named.Rewritten = true }, "knot.conf has been rewritten"},
	{schema.TypeDNS, withServer("unbound").Value(), func(a *agent) { a.named.Server = "" }, ""},
	{schema.TypeDNS, dns.Value(), func(a *agent) { delete(a.named.Zones, "lab.test") }, ""},
	{schema.TypeDNS, dns.Value(), func(a *agent) { a.named.Zones["lab.test"] = sum("other") }, ""},
	{schema.TypeDNS, dns.Value(), func(a *agent) { a.named.Listen = a.named.Listen[:1] }, ""},
	{schema.TypeMark, mark.Value(), func(a *agent) { clear(a.marks) }, "is not there"},
	{schema.TypeMark, mark.Value(), func(a *agent) {
		m := a.marks[proto.MarkRef{Mark: 7}]
		m.Targets = m.Targets[:1]
		a.marks[m.MarkRef] = m
	}, ""},
	{schema.TypeMark, mark.Value(), func(a *agent) {
		m := a.marks[proto.MarkRef{Mark: 7}]
		m.Targets = append(m.Targets, proto.MarkTarget{})
		a.marks[m.MarkRef] = m
	}, ""},
	{schema.TypeMasquerade, schema.Masquerade{Node: node, Dev: "lan"}.Value(), func(a *agent) { clear(a.nat) }, "is not there"},
	{schema.TypeMasquerade, schema.Masquerade{Node: node, Dev: "lan"}.Value(), func(a *agent) {
		m := a.nat["lan"]
		m.Other = true
		a.nat["lan"] = m
	}, ""},
	{schema.TypeIPVS, ipvs.Value(), func(a *agent) { a.services = nil }, "the virtual service has been deleted"},
	{schema.TypeIPVS, ipvs.Value(), func(a *agent) { a.services[0].Scheduler = "wlc" }, ""},
	{schema.TypeIPVS, ipvs.Value(), func(a *agent) { a.services[0].Timeouts.UDP = 5 }, ""},
	{schema.TypeIPVS, ipvs.Value(), func(a *agent) { a.sysctl["net.ipv4.vs.expire_nodest_conn"] = "1" }, ""},
}

func TestLifeOfASetting(t *testing.T) {
	for i, k := range kinds {
		t.Run(fmt.Sprintf("%d %s", i, k.typ), func(t *testing.T) {
			b, r, ctx := newBench(t), resource(k.typ, k.value), t.Context()
			made, err := b.Create(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			expectAction(t, b, r, made, provider.NoOp)
			if !made.Type().Equals(schema.Guest()[k.typ].Type()) || made.GetAttr("boot_id").AsString() != "boot-1" {
				t.Errorf("created: %#v", made)
			}
			read, err := b.Read(ctx, r, made)
			if err != nil || !read.RawEquals(made) {
				t.Fatalf("read %#v, %v\nwant %#v", read, err, made)
			}
			k.damage(b.agent)
			read, err = b.Read(ctx, r, made)
			if k.says != "" {
				if !errors.Is(err, provider.ErrGone) || !strings.Contains(err.Error(), k.says) {
					t.Errorf("Read says %v, want %q and gone", err, k.says)
				}
				read = cty.NullVal(read.Type())
				made, err = b.Create(ctx, r)
			} else {
				if err != nil {
					t.Fatal(err)
				}
				if p, _ := b.Plan(r, read); p.Action == provider.NoOp {
					t.Fatalf("the change is not seen: %#v", read)
				}
				made, err = b.Update(ctx, r, read)
			}
			if err != nil {
				t.Fatal(err)
			}
			expectAction(t, b, r, made, provider.NoOp)
			if err := b.Delete(ctx, r, made); err != nil {
				t.Fatal(err)
			}
			if k.typ != schema.TypeSysctl {
				if _, err := b.Read(ctx, r, made); !errors.Is(err, provider.ErrGone) {
					t.Errorf("after Delete, Read says %v", err)
				}
			}
			if err := b.Delete(ctx, r, made); err != nil {
				t.Errorf("second Delete: %v", err)
			}
		})
	}
}

func expectAction(t *testing.T, b *bench, r provider.Resource, prior cty.Value, want provider.Action) {
	t.Helper()
	p, err := b.Plan(r, prior)
	if err != nil || p.Action != want {
		t.Errorf("planned %s because of %v (%v), want %s", p.Action, p.Reasons, err, want)
	}
}

func TestAnotherBootIsGone(t *testing.T) {
	for _, k := range kinds {
		b, r := newBench(t), resource(k.typ, k.value)
		made, err := b.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		b.boot = "boot-2"
		if _, err := b.Read(t.Context(), r, made); !errors.Is(err, provider.ErrGone) || !strings.HasPrefix(err.Error(), "gone with its boot") {
			t.Errorf("%s: Read says %v", k.typ, err)
		}
		calls := len(b.agent.batches)
		if err := b.Delete(t.Context(), r, made); err != nil || len(b.agent.batches) != calls {
			t.Errorf("%s: Delete of what is gone: %v, %d calls", k.typ, err, len(b.agent.batches)-calls)
		}
	}
}

// What a call has set whose result nobody has recorded is looked for: it must not
// be left behind when it is not wanted any more.
func TestUnrecordedSettingsAreFound(t *testing.T) {
	for _, k := range kinds {
		b, r := newBench(t), resource(k.typ, k.value)
		if _, err := b.Read(t.Context(), r, r.Attrs); k.typ != schema.TypeSysctl && !errors.Is(err, provider.ErrGone) {
			t.Errorf("%s: before it was made, Read says %v", k.typ, err)
		}
		made, err := b.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := b.Read(t.Context(), r, r.Attrs); err != nil || !read.RawEquals(made) {
			t.Errorf("%s: %#v, %v", k.typ, read, err)
		}
	}
}

func TestUnreachableIsNotGone(t *testing.T) {
	b, r := newBench(t), resource(schema.TypeRoute, route.Value())
	made, err := b.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	b.err = errors.New("nobody answers")
	if _, err := b.Read(t.Context(), r, made); err == nil || errors.Is(err, provider.ErrGone) {
		t.Errorf("Read says %v", err)
	}
	if err := b.Delete(t.Context(), r, made); err == nil {
		t.Error("Delete of something unreachable succeeded")
	}
	b.err = fmt.Errorf("no such domain: %w", provider.ErrGone)
	if _, err := b.Read(t.Context(), r, made); !errors.Is(err, provider.ErrGone) {
		t.Errorf("Read says %v", err)
	}
	if err := b.Delete(t.Context(), r, made); err != nil {
		t.Errorf("Delete in a machine that is gone: %v", err)
	}
}

// TestUpdateDropsOldServices: a VIP that is taken out of the topology must not
// go on serving, and another resource's service must.
func TestUpdateDropsOldServices(t *testing.T) {
	b, other := newBench(t), ipvs
	other.Services = []schema.IPVSService{ipvs.Services[0]}
	other.Services[0].VIP = "198.18.0.110"
	two := ipvs
	two.Services = append([]schema.IPVSService{ipvs.Services[0]}, ipvs.Services[0])
	two.Services[1].VIP = "198.18.0.102"
	if _, err := b.Create(t.Context(), resource(schema.TypeIPVS, other.Value())); err != nil {
		t.Fatal(err)
	}
	made, err := b.Create(t.Context(), resource(schema.TypeIPVS, two.Value()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Update(t.Context(), resource(schema.TypeIPVS, ipvs.Value()), made); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, s := range b.agent.services {
		left = append(left, s.VIP.String())
	}
	if got := strings.Join(left, " "); got != "198.18.0.110 198.18.0.101" {
		t.Errorf("services left: %s", got)
	}
}

func TestWarnings(t *testing.T) {
	service := func(change func(*schema.IPVSService)) schema.IPVS {
		c := ipvs
		c.Services = []schema.IPVSService{ipvs.Services[0]}
		c.Services[0].Destinations = slices.Clone(ipvs.Services[0].Destinations)
		change(&c.Services[0])
		return c
	}
	less := service(func(s *schema.IPVSService) { s.Destinations = s.Destinations[1:] })
	moving := less
	moving.Sysctl = map[string]string{"net.ipv4.vs.expire_nodest_conn": "1"}
	once, fewer := service(func(s *schema.IPVSService) { s.OnePacket = true }), sysctl
	fewer.Values = map[string]string{"net.ipv4.conf.all.rp_filter": "0"}
	for _, c := range []struct {
		name        string
		want, prior cty.Value
		says        []string
	}{
		{"scheduler", service(func(s *schema.IPVSService) { s.Scheduler = "wlc" }).Value(), ipvs.Value(), []string{"silent for 300 s"}},
		{"weight and timeout", service(func(s *schema.IPVSService) { s.Destinations[0].Weight, s.Timeouts.UDP = 7, 20 }).Value(), ipvs.Value(), []string{"silent for 20 s"}},
		{"timeout", service(func(s *schema.IPVSService) { s.Timeouts.UDP = 20 }).Value(), ipvs.Value(), nil},
		{"the kernel's timeout", service(func(s *schema.IPVSService) { s.Destinations[0].Weight, s.Timeouts.UDP = 7, 0 }).Value(), ipvs.Value(), []string{"silent for 300 s"}},
		{"persistent", service(func(s *schema.IPVSService) { s.Destinations[0].Weight, s.PersistenceS = 7, 360 }).Value(), ipvs.Value(), []string{"silent for 360 s"}},
		{"TCP", service(func(s *schema.IPVSService) { s.Protocol, s.Scheduler = "tcp", "sh" }).Value(), service(func(s *schema.IPVSService) { s.Protocol = "tcp" }).Value(), []string{"silent for 900 s"}},
		{"a backend less", less.Value(), ipvs.Value(), []string{"entries of 198.18.0.30 stay, and a packet that matches one is dropped until it ends, at most 300 s"}},
		{"a backend less, moved", moving.Value(), ipvs.Value(), nil},
		{"a backend less and a weight", service(func(s *schema.IPVSService) { s.Destinations = s.Destinations[1:]; s.Destinations[0].Weight = 9 }).Value(), ipvs.Value(),
			[]string{"entries of 198.18.0.30", "silent for"}},
		{"rebuilt", service(func(s *schema.IPVSService) { slices.Reverse(s.Destinations); s.Scheduler = "wlc" }).Value(), ipvs.Value(), nil},
		{"one packet from now on", once.Value(), ipvs.Value(), []string{"silent for"}},
		{"one packet until now", ipvs.Value(), once.Value(), nil},
		{"parameter", fewer.Value(), sysctl.Value(), []string{"next boot: net.ipv4.tcp_r"}},
	} {
		typ := schema.TypeIPVS
		if c.name == "parameter" {
			typ = schema.TypeSysctl
		}
		r := resource(typ, c.want)
		p, err := newBench(t).Plan(r, c.prior)
		if err != nil || len(p.Warnings) != len(c.says) {
			t.Errorf("%s: warnings %v, %v", c.name, p.Warnings, err)
			continue
		}
		for i, w := range p.Warnings {
			flush := strings.Contains(w.Remedy, "lvslab apply --replace 'director.lb'")
			if !strings.Contains(w.Detail, c.says[i]) || w.Address != r.Addr.String() || flush != (typ == schema.TypeIPVS) {
				t.Errorf("%s: warning %+v", c.name, w)
			}
		}
	}
}

func TestErrorsAreExplained(t *testing.T) {
	place := diag.Range{Filename: "lab.hcl"}
	place.Start.Line = 7
	bad, unknown := dns, ipvs
	bad.Zones = map[string]string{"lab.test": "refused"}
	unknown.Services = []schema.IPVSService{ipvs.Services[0]}
	unknown.Services[0].Scheduler = "twos"
	for want, r := range map[string]provider.Resource{
		"lab.hcl:7,0: director.lb/dns: The name server refuses zone lab.test: named refuses the zone: line 1 (Correct the record that the message names.)": resource(schema.TypeDNS, bad.Value()),
		"lab.hcl:7,0: director.lb/ipvs: The guest lacks ip_vs_twos: no such module (Use an image whose kernel and packages have it, or another setting.)":  resource(schema.TypeIPVS, unknown.Value()),
	} {
		r.Range = &place
		_, err := newBench(t).Create(t.Context(), r)
		if err == nil || err.Error() != want {
			t.Errorf("error %v\nwant  %s", err, want)
		}
		if ds := diag.From(err); len(ds) != 1 || ds[0].Subject == nil || ds[0].Remedy == "" {
			t.Errorf("diagnostics %+v", ds)
		}
	}
}

// withServer is the name server's setting with another program.
func withServer(name string) schema.DNS {
	d := dns
	d.Server = name
	return d
}
