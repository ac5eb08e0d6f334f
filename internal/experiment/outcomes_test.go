package experiment

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
)

func TestRunSharesSocketsOut(t *testing.T) {
	r := runFake(t, oneTreatment(factorOf("sockets", 4)), nil)
	run, rows, _ := r.only(t)
	got := []int{rows[0].AnswersOK, rows[1].AnswersOK, rows[2].AnswersOK}
	if !run.Valid || !slices.Equal(got, []int{6, 3, 3}) || *run.Decisions != 4 || run.SourcePorts != 4 || run.ConnRowsAfter != 4 {
		t.Errorf("4 sockets over 3 backends gave %v: %+v", got, run)
	}
	if *rows[0].ShareIPVS != 0.5 || *rows[1].ShareAnswersOK != 0.25 {
		t.Errorf("shares %v, %v", *rows[0].ShareIPVS, *rows[1].ShareAnswersOK)
	}
}

func TestRunOnePacketDecidesForEachPacket(t *testing.T) {
	r := runFake(t, oneTreatment(factorOf("one_packet", true)), nil)
	run, rows, _ := r.only(t)
	if !run.Valid || *run.Decisions != 12 || run.ConnRowsAfter != 0 || rows[2].AnswersOK != 4 || *run.JainWeighted < 0.9999 || *run.JainBound != 1 {
		t.Errorf("%+v", run)
	}
}

func TestRunPersistenceHasNoDecisions(t *testing.T) {
	r := runFake(t, func(top *lang.Topology, e *lang.Experiment) {
		top.Services[0].Persistence = &lang.Persistence{Timeout: time.Minute, Netmask: 32}
		e.Factors = nil
	}, func(f *fakeLab) {
		f.cheat = func(st *proto.IPVSStats) { // the template
			c := st.Conns[0]
			c.Client = netip.AddrPortFrom(c.Client.Addr(), 0)
			st.Conns = append(st.Conns, c)
		}
	})
	run, _, _ := r.only(t)
	if run.Decisions != nil || run.ConnRowsAfter != 1 || !run.Valid {
		t.Errorf("decisions %v, %d rows", run.Decisions, run.ConnRowsAfter)
	}
}

func TestRunWeightsAndOrder(t *testing.T) {
	r := runFake(t, oneTreatment(factorOf("order", []int{2, 0, 1}), factorOf("weights", []int{1, 0, 3})), nil)
	run, rows, _ := r.only(t)
	if j := *run.JainWeighted; j != 0.5 {
		t.Errorf("Jain %v, want all on one of the two that have a weight", j)
	}
	for i, want := range []struct{ backend, weight int }{{2, 3}, {0, 1}, {1, 0}} {
		if rows[i].Backend != backend(want.backend).String() || rows[i].Weight != want.weight || rows[i].Position != i {
			t.Errorf("position %d: %+v, want backend %d with weight %d", i, rows[i], want.backend, want.weight)
		}
	}
}

// Losses, rejections and named gaps are outcomes: the run stays valid, and is
// never made again.
func TestRunNamesGaps(t *testing.T) {
	second := func(how fate) func(int) fate {
		return func(i int) fate {
			if i == 2 || i == 5 {
				return how
			}
			return fate{}
		}
	}
	for _, c := range []struct {
		flag  string
		how   fate
		count func(artifact.Run) int
	}{
		{"lost_before_director", fate{lostBefore: true}, func(r artifact.Run) int { return r.Unanswered }},
		{"lost_in_tunnel", fate{lostTunnel: true}, func(r artifact.Run) int { return r.Unanswered }},
		{"backend_drop", fate{lostBackend: true}, func(r artifact.Run) int { return r.Unanswered }},
		{"not_answered", fate{mute: true}, func(r artifact.Run) int { return r.Unanswered }},
		{"lost_on_return", fate{lostReturn: true}, func(r artifact.Run) int { return r.Unanswered }},
		{"rejected_by_client", fate{source: ip("198.18.0.30")}, func(r artifact.Run) int { return r.AnswersWrongSource }},
		{"rejected_by_client", fate{rcode: 2}, func(r artifact.Run) int { return r.AnswersBadRcode }},
		{"rejected_by_client", fate{late: 6 * time.Second}, func(r artifact.Run) int { return r.AnswersLate }},
	} {
		r := runFake(t, oneTreatment(), func(f *fakeLab) { f.packet = second(c.how) })
		run, _, _ := r.only(t)
		if !run.Valid || !slices.Equal(run.OutcomeFlags, []string{c.flag}) || c.count(run) != 2 || run.AnswersOK != 10 || run.QueriesSent != 12 {
			t.Errorf("%s: %+v", c.flag, run)
		}
		if run.Unanswered > 0 && run.BatchS != nil {
			t.Errorf("%s: batch_s %v although a query is unanswered", c.flag, *run.BatchS)
		}
		if n := r.f.count("client", "load.dnsperf"); n != 1 {
			t.Errorf("%s: the load ran %d times", c.flag, n)
		}
	}
}

// A lossy client must not look complete because its capture cannot see what
// netem took before it.
func TestRunCountsWhatTheCaptureCannotSee(t *testing.T) {
	r := runFake(t, oneTreatment(), func(f *fakeLab) { f.packet = func(i int) fate { return fate{lostEgress: i == 3} } })
	run, _, _ := r.only(t)
	if !run.Valid || run.QueriesSent != 11 || run.Unanswered != 1 || run.BatchS != nil || run.QPS != nil || run.MbpsClientL2Both != nil ||
		!slices.Equal(run.OutcomeFlags, []string{"lost_before_director"}) {
		t.Errorf("%+v", run)
	}
}

func TestRunCountsDuplicates(t *testing.T) {
	r := runFake(t, oneTreatment(), func(f *fakeLab) { f.packet = func(i int) fate { return fate{duplicate: i == 3} } })
	run, _, _ := r.only(t)
	if !run.Valid || run.AnswersDuplicate != 1 || run.AnswersOK != 12 || run.Unanswered != 0 || !slices.Equal(run.OutcomeFlags, []string{FlagDuplicateAnswers}) {
		t.Errorf("%+v", run)
	}
}

func TestRunSeesQueriesPastTheDirector(t *testing.T) {
	r := runFake(t, oneTreatment(), func(f *fakeLab) { f.onLoad = func() { f.thief = backend(2) } })
	run, _, raw := r.only(t)
	if !slices.Equal(run.OutcomeFlags, []string{FlagPastDirector}) || !strings.Contains(string(raw["notes.txt"]), "12 queries went to backend.ns[2]") {
		t.Errorf("%v %q", run.OutcomeFlags, raw["notes.txt"])
	}
}

func TestRunIsInvalid(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults func(*fakeLab)
		note   string
	}{
		{"capture dropped", func(f *fakeLab) { f.dropped = 3 }, "dropped 3"},
		{"counters contradict", func(f *fakeLab) {
			f.cheat = func(st *proto.IPVSStats) { st.Services[0].Destinations[0].Stats.InPackets -= 5 }
		}, "tunnel"},
		{"a stranger answers", func(f *fakeLab) { f.packet = func(i int) fate { return fate{stranger: i == 7} } }, "1 answers came from 02:00:00:00:99:99"},
		{"the parts do not add up", func(f *fakeLab) {
			f.cheat = func(st *proto.IPVSStats) { st.Services[0].Stats.InPackets++ }
		}, "more than"},
		{"counters unsettled", func(f *fakeLab) { f.cheat = func(st *proto.IPVSStats) { st.Settled = false } }, "settle"},
		{"dnsperf was stopped", func(f *fakeLab) { f.status = "[Status] Testing complete (interruption)\n" }, "stopped after 12 of 12"},
		{"dnsperf failed", func(f *fakeLab) { f.exit = 1 }, "exit code 1"},
		{"dnsperf was killed", func(f *fakeLab) {
			f.fail = func(_ addr.Noun, op string, _ int) error {
				if op == proto.DNSPerf.Op {
					return guestError(proto.CodeTimeout, op, "killed after 40s")
				}
				return nil
			}
		}, "killed after 40s"},
		{"reading failed", func(f *fakeLab) {
			f.fail = func(n addr.Noun, op string, k int) error {
				if n == backend(1) && op == proto.Counters.Op && k == 2 {
					return guestError(proto.CodeFailed, op, "statistics channel: connection refused")
				}
				return nil
			}
		}, "statistics channel"},
	} {
		r := runFake(t, oneTreatment(), c.faults)
		run, _, raw := r.only(t)
		if run.Valid || !strings.Contains(string(raw["notes.txt"]), c.note) {
			t.Errorf("%s: valid %v, flags %v, notes %q", c.name, run.Valid, run.OutcomeFlags, raw["notes.txt"])
		}
		if n := r.f.count("client", "load.dnsperf"); n != 1 {
			t.Errorf("%s: the load ran %d times", c.name, n)
		}
	}
}

// masqueraded lets the director translate the answers, which come from its MAC.
func masqueraded(top *lang.Topology, e *lang.Experiment) {
	e.Factors = nil
	top.Services[0].Forward = masquerade
	for i := range top.Services[0].RealServers {
		top.Services[0].RealServers[i].Tunnel = addr.Noun{}
	}
}

// routed puts a router between the client and the others.
func routed(top *lang.Topology, e *lang.Experiment) {
	e.Factors = nil
	wan := addr.N(addr.Network, "wan")
	top.Networks = append(top.Networks, lang.Network{Noun: wan, CIDR: netip.MustParsePrefix("198.18.1.0/24"), MTU: 1500})
	top.Machines[0].NICs = []lang.NIC{{Network: wan, Addresses: []netip.Addr{ip("198.18.1.128")}}}
	top.Machines = append(top.Machines, lang.Machine{Noun: router, NICs: []lang.NIC{
		{Network: wan, Addresses: []netip.Addr{ip("198.18.1.1")}}, {Network: netLAN, Addresses: []netip.Addr{ip("198.18.0.1")}}}})
}

var router = addr.N(addr.Router, "r")

// TestRunHidden: where the MAC of an answer is the director's or a router's, the
// answers say themselves who gave them, and each backend is counted by that.
func TestRunHidden(t *testing.T) {
	for name, change := range map[string]func(*lang.Topology, *lang.Experiment){"masquerade": masqueraded, "router": routed} {
		faults := func(f *fakeLab) {
			f.packet = func(i int) fate { return fate{mute: i == 4} }
			if name == "router" {
				f.via = router
			}
		}
		r := runFake(t, func(top *lang.Topology, e *lang.Experiment) { change(top, e); e.Load.Sockets = 3 }, faults)
		run, rows, _ := r.only(t)
		if !run.Valid || run.AnswersOK != 11 || !slices.Equal(run.OutcomeFlags, []string{"not_answered"}) || (rows[0].TunnelRxPackets == nil) != (name == "masquerade") {
			t.Errorf("%s: %+v", name, run)
		}
		for _, b := range rows {
			if want := b.NamedRequests; want != 4 || b.AnswersOK < int(want)-1 {
				t.Errorf("%s: %+v", name, b)
			}
		}
		// An answer that does not say so is nobody's: it is not guessed.
		faults2 := func(f *fakeLab) { faults(f); f.packet = func(i int) fate { return fate{nameless: i == 4} } }
		r = runFake(t, change, faults2)
		if run, _, raw := r.only(t); run.Valid || !strings.Contains(string(raw["notes.txt"]), "1 answers came from ") {
			t.Errorf("%s: %+v, %s", name, run, raw["notes.txt"])
		}
	}
}

// TestRunPastTheRouter: queries that leave for another machine than the router.
func TestRunPastTheRouter(t *testing.T) {
	r := runFake(t, routed, func(f *fakeLab) { f.via = backend(0) })
	if run, _, raw := r.only(t); !slices.Contains(run.OutcomeFlags, FlagPastDirector) || !strings.Contains(string(raw["notes.txt"]), "queries went to backend.ns[0]") {
		t.Errorf("%+v, %s", run, raw["notes.txt"])
	}
}
