package experiment

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

func TestTreatmentsExpand(t *testing.T) {
	for _, c := range []struct {
		name    string
		factors []lang.Factor
		ids     []string
		slugs   []string
	}{
		{"none", nil, []string{"declared"}, []string{"declared"}},
		{"the last factor varies fastest",
			[]lang.Factor{factorOf("scheduler", "rr", "lc"), factorOf("one_packet", false, true)},
			[]string{"scheduler=rr,one_packet=false", "scheduler=rr,one_packet=true", "scheduler=lc,one_packet=false", "scheduler=lc,one_packet=true"},
			[]string{"rr-noops", "rr-ops", "lc-noops", "lc-ops"}},
		{"lists", []lang.Factor{factorOf("weights", []int{3, 2, 1}), factorOf("order", "reversed", []int{1, 0, 2})},
			[]string{"weights=3:2:1,order=reversed", "weights=3:2:1,order=1:0:2"},
			[]string{"w3.2.1-o-reversed", "w3.2.1-o-1.0.2"}},
		{"numbers", []lang.Factor{factorOf("sockets", 20), factorOf("rate", 0, 2500), factorOf("queries", 7)},
			[]string{"sockets=20,rate=0,queries=7", "sockets=20,rate=2500,queries=7"},
			[]string{"s20-r0-q7", "s20-r2500-q7"}},
		{"flags", []lang.Factor{factorOf("flags", []string{}, []string{"sh-port", "sh-fallback"})},
			[]string{"flags=none", "flags=sh-fallback:sh-port"}, []string{"none", "sh-fallback.sh-port"}},
		{"timeout", []lang.Factor{factorOf("timeout", "2s", "5m")}, []string{"timeout=2s", "timeout=5m"}, []string{"t2s", "t5m"}},
	} {
		top := paperTopology()
		e := top.Experiments[0]
		e.Factors = c.factors
		got, ds := Treatments(top, e)
		if ds.HasErrors() {
			t.Errorf("%s: %v", c.name, ds.Err())
			continue
		}
		var ids, slugs []string
		for _, tr := range got {
			ids, slugs = append(ids, tr.ID), append(slugs, tr.Slug)
		}
		if !slices.Equal(ids, c.ids) || !slices.Equal(slugs, c.slugs) {
			t.Errorf("%s:\n got %q %q\nwant %q %q", c.name, ids, slugs, c.ids, c.slugs)
		}
	}
}

func TestTreatmentsResolveSettings(t *testing.T) {
	top := paperTopology()
	top.Services[0].Timeouts.UDP = 60 * time.Second
	e := top.Experiments[0]
	e.Factors = []lang.Factor{
		factorOf("timeout", "7s"), factorOf("protocol", "udp", "tcp"), factorOf("order", "reversed"),
		factorOf("weights", []int{5, 0, 1}), factorOf("flags", []string{"sh-port"}),
	}
	got, ds := Treatments(top, e)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	udp, tcp := got[0].Setting, got[1].Setting
	if udp.Timeouts != (lang.Timeouts{TCP: 900 * time.Second, TCPFin: 120 * time.Second, UDP: 7 * time.Second}) {
		t.Errorf("udp timeouts %+v", udp.Timeouts)
	}
	if tcp.Timeouts != (lang.Timeouts{TCP: 7 * time.Second, TCPFin: 120 * time.Second, UDP: 60 * time.Second}) {
		t.Errorf("tcp timeouts %+v: the factor sets those of its run's protocol", tcp.Timeouts)
	}
	if !slices.Equal(udp.Order, []int{2, 1, 0}) || !slices.Equal(udp.Weights, []int{5, 0, 1}) || !slices.Equal(udp.Flags, []string{"sh-port"}) {
		t.Errorf("setting %+v", udp)
	}
	if udp.Queries != 12 || udp.Sockets != 1 || udp.Clients != 1 || udp.VIPs != 1 || udp.Within != 5*time.Second || udp.Scheduler != "rr" {
		t.Errorf("what no factor names must be what is declared: %+v", udp)
	}
}

func TestTreatmentsRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*lang.Topology, *lang.Experiment)
		want   []string // one for each diagnostic, a piece of its text
	}{
		{"unknown factor", with(factorOf("colour", "red")), []string{`cannot vary "colour"`}},
		{"all bad values at once", with(factorOf("scheduler", "rr", "fifo"), factorOf("sockets", 0, 1.5)),
			[]string{"Value 2 of factor \"scheduler\", fifo, must be one of rr, wrr", "Value 1 of factor \"sockets\", 0, must be a whole number from 1 to 256", "1.5"}},
		{"value twice", with(factorOf("sockets", 1, 1)), []string{"the value 1 more than once"}},
		{"factor twice", with(factorOf("sockets", 1), factorOf("sockets", 2)), []string{"two factor blocks"}},
		{"no values", with(factorOf("sockets")), []string{"list of values"}},
		{"weights too short", with(factorOf("weights", []int{1, 2})), []string{"a list of 3 whole numbers"}},
		{"order not a permutation", with(factorOf("order", []int{0, 0, 1}, "backwards")), []string{"each index from 0 to 2 once", `"declared", "reversed"`}},
		{"timeout with a fraction", with(factorOf("timeout", "1500ms", 3)), []string{"whole seconds", "whole seconds"}},
		{"more clients than there are", with(factorOf("clients", 2)), []string{"a whole number from 1 to 1"}},
		{"protocol", with(factorOf("protocol", "sctp")), []string{`"udp" or "tcp"`}},
		{"flag", with(factorOf("flags", []string{"sh-prt"})), []string{"must be a list of mh-fallback"}},
		{"wrong type", with(factorOf("one_packet", "yes"), factorOf("rate", -1)), []string{"true or false", "0 for no limit"}},
		{"one_packet over tcp", with(factorOf("protocol", "tcp"), factorOf("one_packet", true, false)), []string{"protocol=tcp,one_packet=true: one_packet acts on UDP only"}},
		{"rate that dnsperf cannot keep", with(factorOf("rate", 2500.5)), []string{"rate=2500.5: dnsperf is paced in whole queries"}},
		{"rate that two VIPs cannot share", func(top *lang.Topology, e *lang.Experiment) {
			top.Services[0].VIPs = append(top.Services[0].VIPs, ip("198.18.0.102"))
			e.Factors = []lang.Factor{factorOf("rate", 1000, 1001)}
		}, []string{"rate=1001: dnsperf is paced in whole queries a second, and a client runs 2"}},
		{"no real servers", func(top *lang.Topology, _ *lang.Experiment) { top.Services[0].RealServers = nil }, []string{"nobody to send a query to"}},
		{"no clients", func(_ *lang.Topology, e *lang.Experiment) { e.Clients = nil }, []string{"nobody who asks"}},
		{"no queries", func(_ *lang.Topology, e *lang.Experiment) { e.Load.Queries = 0 }, []string{"queries is 0"}},
		{"service missing", func(top *lang.Topology, _ *lang.Experiment) { top.Services = nil }, []string{"refers to service.dns"}},
	} {
		top := paperTopology()
		e := top.Experiments[0]
		c.change(top, &e)
		got, ds := Treatments(top, e)
		if got != nil || len(ds) != len(c.want) {
			t.Errorf("%s: %d treatments, %d diagnostics, want 0 and %d: %v", c.name, len(got), len(ds), len(c.want), ds)
			continue
		}
		for i, d := range ds {
			if d.Severity != diag.Error || d.Remedy == "" || d.Subject == nil || !strings.Contains(d.Detail, c.want[i]) {
				t.Errorf("%s: diagnostic %d is %+v, want %q with place and remedy", c.name, i, d, c.want[i])
			}
		}
	}
}

func with(factors ...lang.Factor) func(*lang.Topology, *lang.Experiment) {
	return func(_ *lang.Topology, e *lang.Experiment) { e.Factors = factors }
}

func TestSlugsAreUniqueAndShort(t *testing.T) {
	long := strings.Repeat("x", 200)
	list := []Treatment{{Slug: "a"}, {Slug: "a"}, {Slug: "a"}, {Slug: long}, {Slug: long}}
	uniqueSlugs(list)
	seen := map[string]bool{}
	for _, tr := range list {
		if seen[tr.Slug] || len(tr.Slug) > 90 {
			t.Errorf("slug %q is taken or too long", tr.Slug)
		}
		seen[tr.Slug] = true
	}
	if list[1].Slug != "a.2" || list[2].Slug != "a.3" {
		t.Errorf("got %q, %q", list[1].Slug, list[2].Slug)
	}
}
