package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/golden"
)

// The scenes are the cases that the rules were made for; their whole text is
// kept in golden files, so that a change of wording is seen.
func scenes() map[string]Input {
	list := map[string]Input{
		"paper":     newScene(ten, 5).pinTo(2).build(),
		"vip100":    newScene(ten, 5).pinTo(0).build(),
		"sockets20": newScene(ten, 5).sockets20().build(),
	}
	ops := newScene([]string{"rr", "lc", "sed"}, 3)
	ops.Factors = []string{"scheduler", "one_packet"}
	for i := range ops.Treatments {
		t := &ops.Treatments[i]
		t.OnePacket, t.ID, t.Factors["one_packet"] = true, t.ID+",one_packet=true", "true"
	}
	ops.ports = 20
	ops.give = func(scheduler string, block int) []int {
		return map[string][]int{"rr": {334, 333, 333}, "lc": {1000 - 5*block, 5 * block, 0}, "sed": {1000, 0, 0}}[scheduler]
	}
	list["one-packet"] = ops.build()

	kvm := newScene([]string{"rr", "lc", "wlc"}, 20).sockets20().profile()
	kvm.batch = func(scheduler string, block int) float64 {
		jitter := 1 + float64(block*37%11)/1000
		if scheduler == "wlc" {
			return 0.012 * jitter
		}
		return 0.010 * jitter * (1 + float64((block*13+len(scheduler))%7)/10000)
	}
	list["kvm"] = kvm.build()

	lossy := newScene([]string{"rr", "lc"}, 5).sockets20()
	in := lossy.build()
	for _, i := range []int{1, 4} {
		r := &in.Runs[i]
		r.AnswersOK, r.Unanswered, r.BatchS, r.OutcomeFlags = 970, 30, nil, []string{"backend_drop"}
		row := &in.Backends[3*i]
		row.AnswersOK -= 30
	}
	in.Runs[7].Valid, in.Runs[7].PreconditionFailures = false, []string{"connection table not empty"}
	in.Runs[8].DNSPerfCompleted = ptr(1001)
	list["lossy"] = in
	return list
}

func TestGolden(t *testing.T) {
	for name, in := range scenes() {
		got := render(Judge(in))
		golden.Check(t, name+".golden", got)
	}
}

func find(list []Verdict, id string) (Verdict, bool) {
	i := slices.IndexFunc(list, func(v Verdict) bool { return v.ID == id })
	if i < 0 {
		return Verdict{}, false
	}
	return list[i], true
}

// expect checks level and parts of the text of one verdict, or its absence
// when no level is given.
func expect(t *testing.T, list []Verdict, id string, level Level, parts ...string) {
	t.Helper()
	v, ok := find(list, id)
	if level == "" {
		if ok {
			t.Errorf("%s is there: %s", id, v.Text)
		}
		return
	}
	if !ok {
		t.Errorf("%s is missing in:\n%s", id, render(list))
		return
	}
	if v.Level != level {
		t.Errorf("%s has level %s, want %s", id, v.Level, level)
	}
	for _, p := range parts {
		if !strings.Contains(v.Text, p) {
			t.Errorf("%s: %q lacks %q", id, v.Text, p)
		}
	}
	if len(v.Evidence) == 0 {
		t.Errorf("%s has no evidence", id)
	}
	if v.Level != OK && v.Remedy == "" && !strings.HasPrefix(id, "spread") && id != "time" {
		t.Errorf("%s has no remedy", id)
	}
}

func TestPaper(t *testing.T) {
	list := Judge(scenes()["paper"])
	expect(t, list, "decisions-few", Refusal, "50 of 50 runs", "1 source port", "1 decision", "1 of 3 backends", "10 schedulers")
	expect(t, list, "confounded", Caution, "dh sent everything to ns[2] in 5 of 5 runs", "the other 9 treatments sent everything to ns[0], the list head, in 45 of 45 runs")
	expect(t, list, "same-backend", "")
	expect(t, list, "never-active-hidden", Caution, "sed and nq", "10 of 10 runs")
	expect(t, list, "never-active", "")
	expect(t, list, "one-key", "")
	expect(t, list, "time-refused", Refusal, "(tcg)", "5 complete blocks", "0.0625", "45 pairs need 11 blocks", "9 comparisons against one control 9", "different backends")
	expect(t, list, "rate-is-time", Caution, "1.232 Mbit")
	expect(t, list, "no-controls", Caution, "0 of 50 runs")
	expect(t, list, "counts-agree", OK, "50 of 50 runs", "150 of 150 rows")
	expect(t, list, "nothing-lost", OK, "50,000 of 50,000")
	expect(t, list, "valid-runs", OK, "50 of 50 runs")
	if list[0].ID != "decisions-few" || list[1].ID != "confounded" {
		t.Errorf("the two findings that matter are not first:\n%s", render(list))
	}
}

func TestVIP100(t *testing.T) {
	list := Judge(scenes()["vip100"])
	expect(t, list, "confounded", "")
	expect(t, list, "same-backend", Finding, "All 10 treatments sent everything to ns[0], the list head", "50 of 50 runs", "10 treatments were one and the same")
	v, _ := find(list, "time-refused")
	if strings.Contains(v.Text, "different backends") {
		t.Errorf("one backend was used: %s", v.Text)
	}
}

func TestSockets20(t *testing.T) {
	list := Judge(scenes()["sockets20"])
	expect(t, list, "decisions-few", "")
	expect(t, list, "decisions-enough", OK, "50 runs", "20 decisions")
	expect(t, list, "spread-even", Finding, "rr, wrr, lc and wlc", "20 decisions over 3 backends", "20 of 20 runs", "(7/7/6)", "350/350/300", "0.9950")
	expect(t, list, "spread-uneven", "")
	expect(t, list, "never-active", Finding, "sed and nq", "20 decisions", "ns[0] (list head)", "10 of 10 runs")
	expect(t, list, "one-key", Finding, "lblc, lblcr and dh choose by the destination address", "sh chooses by the source address", "20 of 20 runs")
	expect(t, list, "confounded", Caution, "dh sent everything to ns[2] in 5 of 5 runs", "in 25 of 25 runs", "rr, wrr, lc and wlc used several")
}

func TestOnePacket(t *testing.T) {
	list := Judge(scenes()["one-packet"])
	expect(t, list, "one-packet-on", OK, "9 of 9 runs")
	expect(t, list, "one-packet-collapse", Finding, "lc one_packet=true", "98.5 % to 99.5 %", "3 of 3 runs")
	expect(t, list, "spread-even", Finding, "1,000 decisions", "334/333/333")
	expect(t, list, "never-active", Finding, "sed one_packet=true", "1,000 decisions")
	expect(t, list, "spread-uneven", "")

	in := scenes()["one-packet"]
	in.Runs[0].Decisions, in.Runs[0].ConnRowsAfter = ptr(20), 20
	list = Judge(in)
	expect(t, list, "one-packet-on", "")
	expect(t, list, "one-packet-off", Caution, "1 of 9 runs", "20 decisions, 1,000 packets and 20 rows")
}

func TestTimeIsClaimedWhereItMay(t *testing.T) {
	list := Judge(scenes()["kvm"])
	expect(t, list, "time-refused", "")
	expect(t, list, "time", Finding, "20 blocks", "3 treatments", "2 of 3 pairs", "wlc takes 1.200 times as long as rr")
}

// Ten treatments are 45 pairs and need 11 blocks, a profile needs 20 of any.
func TestBlocksThatSuffice(t *testing.T) {
	for blocks, refused := range map[int]bool{6: true, profileBlocks - 1: true, profileBlocks: false} {
		list := Judge(newScene([]string{"rr", "lc"}, blocks).sockets20().profile().build())
		if _, got := find(list, "time-refused"); got != refused {
			t.Errorf("%d blocks: refused = %v\n%s", blocks, got, render(list))
		}
	}
}

// Each part of a timing profile is asked for by itself.
func TestTimesNeedAProfile(t *testing.T) {
	for name, c := range map[string]struct {
		spoil        func(*Input)
		says, remedy string
	}{
		"emulation":       {func(in *Input) { in.Facts.Accelerator = "tcg" }, "under emulation (tcg)", "KVM"},
		"one closed loop": {func(in *Input) { in.Runs[3].LoadMode = "lvslab-closed" }, "(here: a closed loop", `mode = "open"`},
		"one short run":   {func(in *Input) { in.Runs[3].ResolvedS = ptr(59.9) }, "(here: runs from 59.9 s", "queries for 60 s"},
		"no duration":     {func(in *Input) { in.Runs[3].ResolvedS = nil }, "(here: runs from 0 s", "queries for 60 s"},
		"a block without": {func(in *Input) { in.Runs[3].LatencyP50 = nil }, "(here: 19 complete blocks", "set iterations to 20 or more"},
	} {
		in := newScene([]string{"rr", "lc"}, profileBlocks).sockets20().profile().build()
		expect(t, Judge(in), "time", Finding, "latency_p50_s: over 20 blocks")
		c.spoil(&in)
		list := Judge(in)
		expect(t, list, "time", "")
		expect(t, list, "time-refused", Refusal, c.says)
		if v, _ := find(list, "time-refused"); !strings.Contains(v.Remedy, c.remedy) {
			t.Errorf("%s: %s", name, v.Remedy)
		}
	}
}

func TestLosses(t *testing.T) {
	list := Judge(scenes()["lossy"])
	expect(t, list, "losses", Caution, "8,940 of 9,000", "2 of 9 runs", "60 unanswered", "backend_drop in 2 runs")
	expect(t, list, "invalid-runs", Refusal, "1 of 10 runs", "connection table not empty (1 run)")
	expect(t, list, "incomplete", Caution, "1 of 10 planned runs")
	expect(t, list, "counts-differ", Caution, "7 of 9 runs", "25 of 27 backend rows")
	expect(t, list, "dnsperf-differs", Caution, "3 of 9 runs")
	expect(t, list, "nothing-lost", "")
	expect(t, list, "counts-agree", "")
	v, _ := find(list, "time-refused")
	if !strings.Contains(v.Text, "2 complete blocks") {
		t.Errorf("blocks with a missing batch_s were counted: %s", v.Text)
	}
}

func TestSentIsNotReceived(t *testing.T) {
	in := newScene([]string{"rr", "lc"}, 2).sockets20().build()
	in.Runs[1].QueriesSent++
	list := Judge(in)
	expect(t, list, "counts-differ", Caution, "3 of 4 runs", "12 of 12 backend rows")
}

func TestNoRunsAndNoValidRuns(t *testing.T) {
	list := Judge(Input{Facts: Facts{Experiment: "x"}, Runs: []artifact.Run{{Experiment: "y", Valid: true}}})
	expect(t, list, "no-runs", Refusal, "no run")
	in := newScene([]string{"rr"}, 2).pinTo(0).build()
	for i := range in.Runs {
		in.Runs[i].Valid = false
	}
	list = Judge(in)
	expect(t, list, "invalid-runs", Refusal, "2 of 2 runs")
	for _, v := range list {
		if v.ID != "invalid-runs" && v.ID != "incomplete" {
			t.Errorf("said without a valid run: %s", v.Text)
		}
	}
}

func TestFlagsOfInvalidRunsAreNamed(t *testing.T) {
	in := newScene([]string{"rr", "lc"}, 2).sockets20().build()
	in.Runs[2].Valid, in.Runs[2].OutcomeFlags = false, []string{"capture_dropped", "counts_contradict"}
	expect(t, Judge(in), "invalid-runs", Refusal, "capture_dropped (1 run); counts_contradict (1 run)")
	// A try without preconditions is not why a run that was measured is invalid.
	in.Runs[2].PreconditionFailures = []string{"connection table not empty"}
	in.Runs[3].Valid, in.Runs[3].PreconditionFailures = false, []string{"no answer", "no answer"}
	expect(t, Judge(in), "invalid-runs", Refusal, "must not be used: capture_dropped (1 run); counts_contradict (1 run); no answer (1 run). By treatment: rr 1 of 2, lc 1 of 2.")
}

func TestQueriesThatNeverLeft(t *testing.T) {
	in := newScene([]string{"rr", "lc"}, 2).sockets20().build()
	in.Runs[1].QueriesSent, in.Runs[1].AnswersOK, in.Runs[1].Unanswered = 990, 990, 10
	expect(t, Judge(in), "losses", Caution, "3,990 of 4,000", "10 unanswered, 10 of all never left the client's NIC")
}

func TestARunThatReachedNobodyUsedNoBackend(t *testing.T) {
	s := newScene([]string{"rr", "dh"}, 2)
	s.give = func(scheduler string, _ int) []int {
		if scheduler == "dh" {
			return []int{0, 0, 0} // its target is quiesced: there is no fallback
		}
		return []int{1, 0, 0}
	}
	list := Judge(s.build())
	expect(t, list, "confounded", "")
	expect(t, list, "counts-differ", Caution, "2 of 4 runs")
}

func TestWeights(t *testing.T) {
	s := newScene([]string{"wrr", "sed", "nq", "rr"}, 2)
	s.ports, s.decisions, s.weights = 60, 60, []int{1, 2, 3}
	s.give = func(scheduler string, _ int) []int {
		return map[string][]int{"wrr": {10, 20, 30}, "sed": {0, 0, 60}, "nq": {60, 0, 0}, "rr": {20, 20, 20}}[scheduler]
	}
	list := Judge(s.build())
	expect(t, list, "never-active", Finding, "sed and nq", "ns[2]", "ns[0] (list head)", "4 of 4 runs")
	expect(t, list, "spread-even", Finding, "wrr spread 60 decisions", "30/20/10")
	expect(t, list, "spread-uneven", "")

	s = newScene([]string{"wrr"}, 2)
	s.ports, s.decisions, s.weights = 60, 60, []int{1, 2, 3}
	s.give = func(string, int) []int { return []int{20, 20, 20} }
	expect(t, Judge(s.build()), "spread-uneven", Finding, "wrr ns[0] 33.3 %")
}

func TestSedThatSpreads(t *testing.T) {
	s := newScene([]string{"sed"}, 2)
	s.ports, s.decisions = 20, 20
	s.give = func(string, int) []int { return []int{10, 10, 0} }
	list := Judge(s.build())
	expect(t, list, "active-unexpected", Caution, "sed")
	expect(t, list, "never-active", "")
	// Over TCP connections do become active: no statement.
	s = newScene([]string{"sed"}, 2)
	s.Protocol, s.ports, s.decisions = "tcp", 20, 20
	s.give = func(string, int) []int { return []int{10, 10, 0} }
	list = Judge(s.build())
	expect(t, list, "active-unexpected", "")
}

func TestSourcePortFlagSpreads(t *testing.T) {
	s := newScene([]string{"sh"}, 3)
	s.ports, s.decisions = 60, 60
	s.Treatments[0].Flags = []string{"sh-port"}
	s.give = func(string, int) []int { return []int{18, 32, 10} }
	list := Judge(s.build())
	expect(t, list, "one-key", "")
	expect(t, list, "spread-uneven", Finding, "sh ns[0] 30.0 %, ns[1] 53.4 %, ns[2] 16.6 %")
}

func TestPersistence(t *testing.T) {
	s := newScene([]string{"rr", "lc"}, 2).pinTo(0)
	s.Persistence = true
	in := s.build()
	for i := range in.Runs {
		in.Runs[i].Decisions = nil
	}
	list := Judge(in)
	expect(t, list, "decisions-unknown", Caution, "4 of 4 runs")
	expect(t, list, "decisions-few", "")
}

func TestPartlyTooFew(t *testing.T) {
	s := newScene([]string{"rr", "lc"}, 2).sockets20()
	in := s.build()
	for i := range in.Runs[:1] {
		in.Runs[i].SourcePorts, in.Runs[i].Decisions = 2, ptr(2)
	}
	list := Judge(in)
	expect(t, list, "decisions-few", Caution, "1 of 4 runs", "2 source ports", "2 decisions, fewer than the 3 backends")
}

func TestControls(t *testing.T) {
	in := newScene([]string{"rr", "lc"}, 2).sockets20().build()
	in.Runs[0].TreatmentID = "control=aa"
	list := Judge(in)
	expect(t, list, "controls", OK, "1 of 4 runs is a control")
	expect(t, list, "no-controls", "")
}

func TestUnknownTreatmentsComeFromRows(t *testing.T) {
	in := newScene(ten, 2).sockets20().build()
	in.Facts.Treatments = nil
	list := Judge(in)
	expect(t, list, "never-active", Finding, "4 of 4 runs")
	expect(t, list, "one-key", Finding)
}

func TestManyTreatmentsAreCountedNotListed(t *testing.T) {
	var many []string
	for i := range 15 {
		many = append(many, fmt.Sprintf("s%d", i))
	}
	list := Judge(newScene(many, 2).pinTo(0).build())
	expect(t, list, "same-backend", Finding, "All 15 treatments sent everything")
}

func TestRateIsNotTimeWhenQueriesVary(t *testing.T) {
	in := newScene([]string{"rr", "lc"}, 2).pinTo(0).build()
	in.Runs[0].QueriesPlanned = 2000
	expect(t, Judge(in), "rate-is-time", "")
}
