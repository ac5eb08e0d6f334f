package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verify/studytest"
)

// sharing says what a treatment gives to a backend at a place of the list.
type sharing func(backend, place int) int64

func places(n ...int64) sharing   { return func(_, place int) int64 { return n[place] } }
func backends(n ...int64) sharing { return func(backend, _ int) int64 { return n[backend] } }

// turning makes rr of the sample study one whose list turns: a run for each block
// named, which like the kernel's list begins one place further on in each.
func turning(s *studytest.Study, give sharing, planned bool, blocks ...int) {
	sample, rows := s.Runs[0], slices.Clone(s.Rows[:3])
	s.Runs, s.Rows = nil, nil
	for i, block := range blocks {
		r := sample
		r.RunID, r.Block, r.Order = fmt.Sprintf("%02d-%02d-rr", block, i+1), block, i+1
		var decided, answered int
		for place := range rows {
			b := rows[(place+block-1)%3]
			n := give((place+block-1)%3, place)
			b.RunID, b.Position, b.IPVSConnsDelta, b.IPVSInPackets, b.AnswersOK = r.RunID, place, n, 2*n, 2*int(n)
			if p := int(n); planned {
				b.PlannedDecisions = &p
			}
			decided, answered = decided+int(n), answered+b.AnswersOK
			s.Rows = append(s.Rows, b)
		}
		r.Decisions, r.AnswersOK, r.QueriesSent, r.QueriesPlanned = &decided, answered, answered, answered
		s.Runs = append(s.Runs, r)
	}
}

func turnedPair(t *testing.T, a, b func(*studytest.Study)) Treatment {
	t.Helper()
	c, err := Results(result(t, a), result(t, b))
	must(t, err)
	if len(c.Treatments) != 1 {
		t.Fatalf("%+v", c.Treatments)
	}
	return c.Treatments[0]
}

// What the list's turns alone bring about is no difference: blocks of which each
// result has others, in another order or another number of them.
func TestTurnsAreNoDifference(t *testing.T) {
	for name, give := range map[string]sharing{
		"all to the head": places(20, 0, 0), "20 over 3 by place": places(7, 7, 6), "by weight": backends(10, 7, 3), "by the backend's address": backends(0, 20, 0),
	} {
		for _, blocks := range [][2][]int{{{1, 2, 3}, {3, 1, 2}}, {{1}, {2}}, {{1, 2}, {3}}, {{1, 2, 3}, {2}}, {{1, 2, 3, 4, 5}, {6, 7}}} {
			for _, planned := range []bool{false, true} {
				got := turnedPair(t, func(s *studytest.Study) { turning(s, give, planned, blocks[0]...) }, func(s *studytest.Study) { turning(s, give, planned, blocks[1]...) })
				if len(got.Differences) != 0 || !got.ListTurns {
					t.Errorf("%s, blocks %v, planned %v: %+v", name, blocks, planned, got)
				}
			}
		}
	}
}

// A difference is found at the place or the backend that the counts keep to, and
// between two that keep to neither the same list by list.
func TestTurnedDifferences(t *testing.T) {
	all := []int{1, 2, 3}
	for _, c := range []struct {
		name    string
		a, b    sharing
		planned bool
		want    []Change
	}{
		{"one decision by place, hidden in the ranges by name", places(7, 7, 6), places(8, 6, 6), false, []Change{
			{"ipvs_conns_delta of the head", "7", "8"}, {"ipvs_conns_delta of the 2nd place", "7", "6"},
			{"answers_ok of the head", "14", "16"}, {"answers_ok of the 2nd place", "14", "12"},
		}},
		{"wlc by weights, rr not", backends(10, 7, 3), places(7, 7, 6), false, []Change{
			{"ipvs_conns_delta of ns[0]", "10", "6 to 7"}, {"ipvs_conns_delta of ns[2]", "3", "6 to 7"},
			{"answers_ok of ns[0]", "20", "12 to 14"}, {"answers_ok of ns[2]", "6", "12 to 14"},
		}},
		{"by place and by name", places(20, 0, 0), backends(20, 0, 0), true, []Change{
			{"ipvs_conns_delta of ns[0] where ns[1] is the head", "0", "20"}, {"ipvs_conns_delta of ns[1] where ns[1] is the head", "20", "0"},
			{"ipvs_conns_delta of ns[0] where ns[2] is the head", "0", "20"}, {"ipvs_conns_delta of ns[2] where ns[2] is the head", "20", "0"},
		}},
	} {
		got := turnedPair(t, func(s *studytest.Study) { turning(s, c.a, c.planned, all...) }, func(s *studytest.Study) { turning(s, c.b, c.planned, all...) })
		if d := cmp.Diff(c.want, got.Differences); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// A list that was written in another order did not turn: who gets what changed.
func TestAnotherOrderIsNoTurn(t *testing.T) {
	order := func(names ...string) func(*studytest.Study) {
		return func(s *studytest.Study) {
			turning(s, places(20, 0, 0), true, map[bool]int{true: 1, false: 2}[names[0] == "backend.ns[0]"])
			s.Manifest.DestinationOrder = map[string][]string{"service.dns": names}
		}
	}
	got := turnedPair(t, order("backend.ns[0]", "backend.ns[1]", "backend.ns[2]"), order("backend.ns[1]", "backend.ns[2]", "backend.ns[0]"))
	if got.ListTurns || len(got.Differences) != 4 || got.Differences[0] != (Change{"ipvs_conns_delta of ns[0]", "20", "0"}) {
		t.Errorf("%+v", got)
	}
}

// longer gives a run other numbers of queries and decisions, and loses some.
func longer(s *studytest.Study, run int, queries, lost int, shares ...int64) {
	r := &s.Runs[run]
	decided := 0
	for i := range s.Rows {
		if s.Rows[i].RunID != r.RunID {
			continue
		}
		n := shares[s.Rows[i].Position]
		s.Rows[i].IPVSConnsDelta, s.Rows[i].AnswersOK = n, int(n)
		decided += int(n)
	}
	s.Rows[3*run].AnswersOK -= lost
	r.Decisions, r.QueriesPlanned, r.QueriesSent, r.AnswersOK, r.Unanswered = &decided, queries, queries, queries-lost, lost
}

// Loads of unequal length and lost queries change how many there are to share and
// not how they are shared: decisions, in parts of all of them.
func TestUnequalCounts(t *testing.T) {
	three := func(loads ...[]int64) func(*studytest.Study) {
		return func(s *studytest.Study) {
			turning(s, places(7, 7, 6), false, 1, 2, 3)
			for i, l := range loads {
				longer(s, i, int(l[0]), int(l[1]), l[2:]...)
			}
		}
	}
	rr := three([]int64{20, 0, 7, 7, 6}, []int64{22, 0, 8, 7, 7}, []int64{21, 0, 7, 7, 7})
	for name, c := range map[string]struct {
		b    func(*studytest.Study)
		want []Change
	}{
		"longer loads":                          {three([]int64{40, 0, 14, 13, 13}, []int64{41, 0, 14, 14, 13}, []int64{39, 0, 13, 13, 13}), []Change{{"decisions", "20 to 22", "39 to 41"}, {"queries_planned", "20 to 22", "39 to 41"}}},
		"a little longer":                       {three([]int64{22, 0, 8, 7, 7}, []int64{23, 0, 8, 8, 7}, []int64{24, 0, 8, 8, 8}), []Change{}},
		"a lost query in one run":               {three([]int64{20, 1, 7, 7, 6}, []int64{22, 0, 8, 7, 7}, []int64{21, 0, 7, 7, 7}), []Change{}},
		"longer, and the head has half of them": {three([]int64{40, 0, 20, 10, 10}, []int64{42, 0, 21, 11, 10}, []int64{44, 0, 22, 11, 11}), []Change{{"decisions", "20 to 22", "40 to 44"}, {"queries_planned", "20 to 22", "40 to 44"}, {"part of ipvs_conns_delta of the head", "33.33 % to 36.36 %", "50.00 %"}}},
	} {
		got := turnedPair(t, rr, c.b)
		if d := cmp.Diff(c.want, got.Differences); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	// The same load in all runs, and one that loses at its head in all of them.
	same := []int64{20, 0, 7, 7, 6}
	lossy := []int64{20, 3, 7, 7, 6}
	got := turnedPair(t, three(same, same, same), three(lossy, lossy, lossy))
	if d := cmp.Diff([]Change{{"answers_ok", "20", "17"}, {"unanswered", "0", "3"}, {"answers_ok of the head", "7", "4"}}, got.Differences); d != "" {
		t.Error(d)
	}
	// Without decisions (persistence) it is answers that are compared.
	templates := func(change func(*studytest.Study)) func(*studytest.Study) {
		return func(s *studytest.Study) {
			change(s)
			for i := range s.Runs {
				s.Runs[i].Decisions = nil
			}
		}
	}
	got = turnedPair(t, templates(rr), templates(three([]int64{40, 0, 20, 10, 10}, []int64{42, 0, 21, 11, 10}, []int64{44, 0, 22, 11, 11})))
	if !slices.ContainsFunc(got.Differences, func(c Change) bool { return c.Name == "part of answers_ok of the head" }) {
		t.Errorf("%+v", got.Differences)
	}
}

func TestTurnsInText(t *testing.T) {
	c, err := Results(result(t, func(s *studytest.Study) { turning(s, places(7, 7, 6), true, 1, 2, 3) }),
		result(t, func(s *studytest.Study) { turning(s, places(8, 6, 6), true, 1, 2, 3) }))
	must(t, err)
	for _, want := range []string{"scheduler=rr (3 and 3 runs; the list turns)\n", "ipvs_conns_delta of the head        7 │ 8"} {
		if text := c.Text(); !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestRoundOfWeights(t *testing.T) {
	for want, weights := range map[int][]int{1: {3, 2, 1}, 50: {100, 50, 0}, 2: {2, 2}} {
		var rows []artifact.BackendRow
		for _, w := range weights {
			rows = append(rows, artifact.BackendRow{Weight: w})
		}
		if got := round(rows); got != want {
			t.Errorf("%v: %d, want %d", weights, got, want)
		}
	}
	if round([]artifact.BackendRow{{}, {}}) != 1 {
		t.Error("no weight at all")
	}
}

// A study in several results is compared with all its blocks: what only the parent
// has counts.
func TestParentsAreRead(t *testing.T) {
	split := func(change func(*studytest.Study)) *artifact.Artifact {
		s, err := studytest.Load()
		must(t, err)
		s.Raw = nil
		turning(s, places(7, 7, 6), true, 1, 2, 3)
		if change != nil {
			change(s)
		}
		results := t.TempDir()
		_, child, err := s.Split(results, 2)
		must(t, err)
		dir, err := child.Seal(results)
		must(t, err)
		a, err := artifact.OpenStudy(dir)
		must(t, err)
		return a
	}
	whole := result(t, func(s *studytest.Study) { turning(s, places(7, 7, 6), true, 1, 2, 3) })
	c, err := Results(whole, split(nil))
	must(t, err)
	if c.Alike() != 1 || c.B.Runs != 3 || c.Treatments[0].RunsB != 3 || !c.Treatments[0].ListTurns {
		t.Errorf("%+v", c)
	}
	// Only in block 1, which the parent has, the 2nd place got the head's decision.
	c, err = Results(whole, split(func(s *studytest.Study) { s.Rows[0].IPVSConnsDelta, s.Rows[1].IPVSConnsDelta = 6, 8 }))
	must(t, err)
	want := []Change{{"ipvs_conns_delta of ns[0] where ns[0] is the head", "7", "6"}, {"ipvs_conns_delta of ns[1] where ns[0] is the head", "7", "8"}}
	if d := cmp.Diff(want, c.Treatments[0].Differences); d != "" {
		t.Error(d)
	}
}
