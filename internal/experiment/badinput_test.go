package experiment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/golden"
)

// second changes what a machine reads after the load.
func second(n addr.Noun, change func(*proto.CounterSet)) func(*fakeLab) {
	return func(f *fakeLab) {
		f.reading = func(node addr.Noun, k int, set *proto.CounterSet) {
			set.Boot, set.Clock = "boot-1", &proto.ClockReading{OffsetNS: 1_000_000_000, WithinNS: 900}
			if set.Named != nil {
				set.Named.Started = "2026-12-01T09:59:00.000Z"
			}
			if k == 2 && node == n {
				change(set)
			}
		}
	}
}

// TestRunNamesBadInput is what is said about input that cannot be trusted: the run
// is recorded, invalid, and made once.
func TestRunNamesBadInput(t *testing.T) {
	tunnel := func(set *proto.CounterSet, change func(*proto.LinkCounters)) {
		for name, c := range set.Links {
			change(&c)
			set.Links[name] = c
		}
	}
	whole := func(out string) string { return out }
	reply := func(change func(string) string) func(*fakeLab) { return func(f *fakeLab) { f.output = change } }
	var text strings.Builder
	for _, c := range []struct {
		name   string
		faults func(*fakeLab)
		valid  bool
	}{
		{"all is well", reply(whole), true},
		{"dnsperf's output is truncated", reply(func(out string) string { return out[:strings.Index(out, "  Run time")] }), false},
		{"another program's output", reply(func(string) string { return "queryperf 1.0\nQueries sent: 12\n" }), false},
		{"output without a version", reply(func(out string) string { return strings.Replace(out, "Version 2.10.0", "", 1) }), false},
		{"an unknown version of dnsperf", reply(func(out string) string { return strings.Replace(out, "2.10.0", "2.15.1", 1) }), false},
		{"a number of dnsperf that is none", reply(func(out string) string {
			return strings.Replace(out, "Queries lost:         0", "Queries lost: none", 1)
		}), false},
		{"no output at all", reply(func(string) string { return "" }), false},
		{"a capture with drops", func(f *fakeLab) { f.dropped = 3 }, false},
		{"a capture that is cut", func(f *fakeLab) { f.cutCapture = 10 }, false},
		{"the client's clock is set", second(clientC, func(set *proto.CounterSet) { set.Clock.OffsetNS += 3_600_000_000_000 }), false},
		{"the client's clock is set back a little", second(clientC, func(set *proto.CounterSet) { set.Clock.OffsetNS -= 20_000_000 }), false},
		{"two readings of one clock", second(clientC, func(set *proto.CounterSet) { set.Clock.OffsetNS += 400_000 }), true},
		{"a backend's clock is set", second(backend(1), func(set *proto.CounterSet) { set.Clock.OffsetNS += 3_600_000_000_000 }), true},
		{"a backend is started anew", second(backend(1), func(set *proto.CounterSet) { set.Boot = "boot-2" }), false},
		{"named is started anew", second(backend(1), func(set *proto.CounterSet) { set.Named.Started = "2026-12-01T10:01:00.000Z" }), false},
		{"named's counters go back", second(backend(1), func(set *proto.CounterSet) { set.Named.Requests = 2 }), false},
		{"a tunnel is made anew", second(backend(1), func(set *proto.CounterSet) {
			tunnel(set, func(c *proto.LinkCounters) { c.Index = 9 })
		}), false},
		{"a tunnel's counter goes back", second(backend(1), func(set *proto.CounterSet) {
			tunnel(set, func(c *proto.LinkCounters) { c.RxPackets = 1 })
		}), false},
		{"the director counts from zero", second(director, func(set *proto.CounterSet) { set.SNMP["Ip.InReceives"] = 7 }), false},
		{"a 32-bit counter wraps", func(f *fakeLab) {
			f.reading = func(node addr.Noun, k int, set *proto.CounterSet) {
				set.LongBits = 32
				set.SNMP["Icmp.InMsgs"] = map[int]uint64{1: 1<<32 - 4, 2: 6}[k]
				if k == 2 {
					set.SNMP["Ip.InReceives"] += 10
				}
			}
		}, true},
		{"a 64-bit counter goes past 2^32", func(f *fakeLab) {
			f.reading = func(node addr.Noun, _ int, set *proto.CounterSet) { set.SNMP["Ip.InReceives"] += 1<<32 - 105 }
		}, true},
		{"IPVS is zeroed", func(f *fakeLab) {
			f.cheat = func(st *proto.IPVSStats) { st.Totals.InPackets -= 400; st.Settled = false }
		}, false},
		{"the service is removed", func(f *fakeLab) { f.cheat = func(st *proto.IPVSStats) { st.Services = nil; st.Settled = false } }, false},
		{"a destination is removed", func(f *fakeLab) {
			f.cheat = func(st *proto.IPVSStats) {
				st.Services[0].Destinations = st.Services[0].Destinations[:2]
				st.Settled = false
			}
		}, false},
	} {
		r := runFake(t, oneTreatment(), c.faults)
		run, _, raw := r.only(t)
		if run.Valid != c.valid {
			t.Errorf("%s: valid %v, notes %q", c.name, run.Valid, raw["notes.txt"])
		}
		if n := r.f.count("client", "load.dnsperf"); n != 1 {
			t.Errorf("%s: the load ran %d times", c.name, n)
		}
		fmt.Fprintf(&text, "%s: valid %v\n%s\n", c.name, run.Valid, raw["notes.txt"])
	}
	golden.Check(t, "bad-input.txt", text.String())
}

// TestRunNeverMakesAnOutcomeAgain: a loss is what was measured, and stays the only
// try of its run even after tries without preconditions.
func TestRunNeverMakesAnOutcomeAgain(t *testing.T) {
	r := runFake(t, oneTreatment(), func(f *fakeLab) {
		f.packet = func(i int) fate { return fate{lostReturn: i < 6, rcode: 2 * (i % 2)} }
		f.fail = func(_ addr.Noun, op string, k int) error {
			if op == proto.IPVSFresh.Op && k <= 2 {
				return guestError(proto.CodeTimeout, op, fmt.Sprintf("try %d fails", k))
			}
			return nil
		}
	})
	run, _, raw := r.only(t)
	if !run.Valid || run.Unanswered != 6 || len(run.PreconditionFailures) != 2 || r.f.count("client", "load.dnsperf") != 1 {
		t.Errorf("%+v", run)
	}
	for n, want := range map[string]string{"try-1.txt": "try 1 fails", "try-2.txt": "try 2 fails"} {
		if !strings.Contains(string(raw[n]), want) {
			t.Errorf("%s is %q", n, raw[n])
		}
	}
}
