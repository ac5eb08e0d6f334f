package symptom

import (
	"net/netip"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

var (
	client   = addr.N(addr.Client, "probe")
	director = addr.N(addr.Director, "front")
	web      = addr.N(addr.Backend, "web").At(addr.Index(1))
	vip      = netip.MustParseAddr("198.18.0.101")
	own      = netip.MustParseAddr("198.18.0.31")
)

// fine is a query that was answered as it should be.
func fine() Path {
	return Path{
		Client: client, Backend: web, Director: director, VIP: vip, Scheduled: 1, Tunnelled: true, Arrived: 1, Fallback: "tunl0", Requests: 1,
		Answer: &proto.QueryAnswer{Rcode: "NOERROR", Answers: []string{`"backend.web[1]"`}, Source: vip},
		Tunnel: proto.TunnelState{Up: true, TunnelSpec: proto.TunnelSpec{Name: "up", Local: own, Addresses: []netip.Prefix{netip.PrefixFrom(vip, 32)}}},
		Named:  proto.NamedState{Running: true, Listen: []netip.Addr{own, vip}},
	}
}

// quiet is a VIP as it should be.
func quiet() VIP {
	return VIP{
		Client: client, Director: director, Service: addr.N(addr.Service, "s"), Address: vip, Port: 53, Local: true, OnLink: true,
		Answers: []Owner{{"02:00:00:00:00:01", director}}, Table: Table{Rows: 4, Counted: 9, Settled: true},
	}
}

func lost(p *Path) { p.Answer, p.Requests = nil, 0 }

func refused(p *Path) { p.Answer, p.Requests = &proto.QueryAnswer{Refused: true}, 0 }

// What each symptom leaves on the counters, and its name. Where a symptom shows in
// more than one way each has a row.
var onThePath = []struct {
	name  string
	want  Name
	spoil func(*Path)
}{
	{"all is well", "", func(*Path) {}},
	{"all is well without a tunnel", "", func(p *Path) { p.Tunnelled, p.Arrived, p.Tunnel = false, 0, proto.TunnelState{} }},
	{"the fallback is up, and the named device receives", "", func(p *Path) { p.Tunnel.FallbackUp = true }},
	{"a stray packet on the fallback", "", func(p *Path) { p.OnFallback = 1 }},
	{"the fallback receives", Fallback, func(p *Path) { p.Arrived, p.OnFallback = 0, 1 }},
	{"the fallback receives, the device is gone", Fallback, func(p *Path) { p.Arrived, p.OnFallback, p.Tunnel = 0, 1, proto.TunnelState{} }},
	{"the fallback receives, and there is no VIP", Fallback, func(p *Path) { lost(p); p.Arrived, p.OnFallback, p.Tunnel.Addresses = 0, 1, nil }},
	{"strict filtering", RPFilter, func(p *Path) { lost(p); p.RPFiltered = 1 }},
	{"strict filtering of the fallback", RPFilter, func(p *Path) { lost(p); p.Arrived, p.OnFallback, p.RPFiltered = 0, 1, 1 }},
	{"strict filtering without a tunnel", RPFilter, func(p *Path) { lost(p); p.Tunnelled, p.Arrived, p.RPFiltered = false, 0, 1 }},
	{"another packet was filtered", "", func(p *Path) { p.RPFiltered = 3 }},
	{"named is elsewhere", NamedAddress, func(p *Path) { refused(p); p.Named.Listen = []netip.Addr{own} }},
	{"named is elsewhere and a filter drops the ICMP", NamedAddress, func(p *Path) { lost(p); p.Named.Listen = []netip.Addr{own} }},
	{"nsd is elsewhere", NamedAddress, func(p *Path) { refused(p); p.Named.Server, p.Named.Listen = proto.ServerNSD, []netip.Addr{own} }},
	{"named is dead", NamedAddress, func(p *Path) { refused(p); p.Named = proto.NamedState{} }},
	{"the own address answers", OwnAddress, func(p *Path) { p.Answer.Source = own }},
	{"the own address answers through the fallback", OwnAddress, func(p *Path) { p.Answer.Source, p.Arrived, p.OnFallback = own, 0, 1 }},
	{"the director refuses", NobodyChosen, func(p *Path) { refused(p); p.Scheduled, p.Arrived = 0, 0 }},
	{"IPVS never saw it", NotScheduled, func(p *Path) { lost(p); p.Scheduled, p.Arrived = 0, 0 }},
	{"no receiver", NoReceiver, func(p *Path) { refused(p); p.Arrived, p.Tunnel.Up = 0, false }},
	{"lost in the tunnel", LostInTunnel, func(p *Path) { lost(p); p.Arrived = 0 }},
	{"no VIP on the backend", NoVIP, func(p *Path) { lost(p); p.Tunnel.Addresses = nil }},
	{"lost in the backend", LostInBackend, lost},
	{"lost on the way back", LostOnReturn, func(p *Path) { p.Answer = nil }},
	{"an error code", ErrorAnswer, func(p *Path) { p.Answer.Rcode = "SERVFAIL" }},
	{"another backend", OtherBackend, func(p *Path) { p.Answer.Answers = []string{`"backend.web[0]"`} }},
}

func TestPathNamesCauses(t *testing.T) {
	for _, c := range onThePath {
		p := fine()
		c.spoil(&p)
		switch f := p.Judge(); {
		case f == nil && c.want != "", f != nil && f.Symptom != c.want:
			t.Errorf("%s: found %+v, want %q", c.name, f, c.want)
		case f != nil && (f.Remedy == "" || f.Evidence == "" || f.Summary == "" || f.At.IsZero()):
			t.Errorf("%s: no place, evidence or remedy: %+v", c.name, f)
		}
	}
}

var atTheVIP = []struct {
	name  string
	want  []Name
	at    addr.Noun
	spoil func(*VIP)
}{
	{"all is well", nil, addr.Noun{}, func(*VIP) {}},
	{"routed to the director", nil, addr.Noun{}, func(v *VIP) { v.OnLink, v.Answers = false, nil }},
	{"held by a device that is not looked at", nil, addr.Noun{}, func(v *VIP) { v.Local = false }},
	{"the director is not heard", nil, addr.Noun{}, func(v *VIP) { v.Answers, v.Silent = nil, []netip.Addr{own} }},
	{"a thief beside the director", []Name{ARP}, web, func(v *VIP) { v.Answers = append(v.Answers, Owner{"02:00:00:00:00:02", web}) }},
	{"a thief in the place of the director", []Name{ARP, VIPNotLocal}, web, func(v *VIP) { v.Local, v.Answers = false, []Owner{{"02:00:00:00:00:02", web}} }},
	{"a stranger", []Name{ARP}, addr.Noun{}, func(v *VIP) { v.Answers = append(v.Answers, Owner{MAC: "02:00:00:00:00:09"}) }},
	{"the VIP is gone", []Name{VIPNotLocal}, director, func(v *VIP) { v.Local, v.Answers = false, nil }},
	{"the routed VIP is gone", []Name{VIPNotLocal}, director, func(v *VIP) { v.Local, v.OnLink, v.Answers = false, false, nil }},
	{"the director does not answer", []Name{VIPSilent}, director, func(v *VIP) { v.Answers = nil }},
	{"entries of before", []Name{StaleEntries}, director, func(v *VIP) { v.Table.Rows = 10 }},
	{"entries that are not counted yet", nil, addr.Noun{}, func(v *VIP) { v.Table.Rows, v.Table.Settled = 10, false }},
	{"as many entries as were counted", nil, addr.Noun{}, func(v *VIP) { v.Table.Rows = 9 }},
}

func TestVIPNamesCauses(t *testing.T) {
	for _, c := range atTheVIP {
		v := quiet()
		c.spoil(&v)
		got := v.Judge()
		names := Names(got)
		if len(names) != len(c.want) || len(got) > 0 && got[0].At != c.at {
			t.Errorf("%s: found %+v, want %v at %s", c.name, got, c.want, c.at)
			continue
		}
		for i := range names {
			if names[i] != c.want[i] || got[i].Remedy == "" || got[i].Evidence == "" || got[i].Address == "" {
				t.Errorf("%s: found %+v, want %v", c.name, got[i], c.want)
			}
		}
	}
}

// TestNoneIsTakenForAnother plants two symptoms of the path at once, every pair: the
// name is always that of one of them.
func TestNoneIsTakenForAnother(t *testing.T) {
	pairs := 0
	for _, a := range onThePath {
		for _, b := range onThePath {
			if a.want == "" || b.want == "" {
				continue
			}
			p := fine()
			a.spoil(&p)
			if p.Answer == nil || p.Answer.Refused || p.OnFallback > 0 && a.want != Fallback {
				continue // nothing of the answer is left to spoil, or there are two already
			}
			b.spoil(&p)
			pairs++
			if f := p.Judge(); f == nil || f.Symptom != a.want && f.Symptom != b.want {
				t.Errorf("%s and %s: found %+v", a.name, b.name, f)
			}
		}
	}
	if pairs < 50 {
		t.Errorf("only %d pairs", pairs)
	}
}

func TestPlantNamed(t *testing.T) {
	p := Plant{Symptom: RPFilter, At: web}
	for i, c := range []struct {
		found []Finding
		want  bool
	}{
		{nil, false},
		{[]Finding{{Symptom: RPFilter, At: web}}, true},
		{[]Finding{{Symptom: RPFilter, At: web}, {Symptom: RPFilter, At: web}}, true}, // under two VIPs
		{[]Finding{{Symptom: RPFilter, At: director}}, false},
		{[]Finding{{Symptom: NoVIP, At: web}}, false},
		{[]Finding{{Symptom: RPFilter, At: web}, {Symptom: NoVIP, At: web}}, false},
	} {
		if got := p.Named(c.found); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}
