package experiment

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
)

func directStudy(top *lang.Topology, e *lang.Experiment) {
	e.Iterations, e.Controls, e.Load.Queries = 2, &lang.Controls{Direct: true, Rotate: true}, 30
	e.Factors = []lang.Factor{factorOf("scheduler", "rr"), factorOf("sockets", 4)}
}

func TestDirectTreatments(t *testing.T) {
	top := paperTopology()
	e := &top.Experiments[0]
	directStudy(top, e)
	list, ds := Treatments(top, *e)
	if ds.HasErrors() || len(list) != 4 {
		t.Fatalf("%d treatments, %v", len(list), ds)
	}
	for i, tr := range list[1:] {
		n := backend(i).String()
		if tr.ID != "control=direct:"+n || !tr.Control() || !tr.Direct() || tr.Setting.Direct != n {
			t.Errorf("treatment %d is %+v", i+1, tr)
		}
		if d := cmp.Diff(map[string]string{"sockets": "4"}, tr.Factors); d != "" {
			t.Errorf("factors of %s: %s", tr.ID, d)
		}
	}
	if list[1].Slug != "direct-ns-0" || list[0].Direct() || list[0].Factors["scheduler"] != "rr" {
		t.Errorf("%+v", list[:2])
	}
	for _, tr := range Trials(*e, list, 0) {
		if rotates := tr.Block == 2 && !tr.Treatment.Direct(); rotates == slices.Equal(tr.Treatment.Setting.Order, []int{0, 1, 2}) {
			t.Errorf("%s has the list %v", tr.RunID, tr.Treatment.Setting.Order)
		}
	}
}

// directRuns runs the study and returns the valid runs without LVS by treatment.
func directRuns(t *testing.T, change func(*fakeLab)) (*trialRun, map[string][]artifact.Run) {
	r := runFake(t, directStudy, change)
	if r.err != nil || len(r.rec.runs) != 8 {
		t.Fatalf("%d runs, %v", len(r.rec.runs), r.err)
	}
	out := map[string][]artifact.Run{}
	for _, run := range r.rec.runs {
		if run.PastLVS() {
			out[run.TreatmentID] = append(out[run.TreatmentID], run)
		}
	}
	return r, out
}

func TestDirectRuns(t *testing.T) {
	r, direct := directRuns(t, nil)
	if len(direct) != 3 {
		t.Fatalf("direct treatments: %v", direct)
	}
	for id, runs := range direct {
		for _, run := range runs {
			if !run.Valid || len(run.OutcomeFlags) > 0 || run.AnswersOK != 30 || run.Decisions != nil || run.JainWeighted != nil || run.JainBound != nil {
				t.Errorf("%+v", run)
			}
			for _, b := range r.rec.backends[run.RunID] {
				want := 0
				if DirectPrefix+b.Backend == id {
					want = 30
				}
				if !b.WithoutLVS || b.AnswersOK != want || b.NamedRequests != int64(want) || b.TunnelRxPackets != nil || b.PlannedDecisions != nil || b.Address == "" {
					t.Errorf("%s: %+v", run.RunID, b)
				}
			}
		}
	}
	for _, run := range r.rec.runs {
		if !run.PastLVS() && (!run.Valid || run.IPVSConnsDelta == 0 || *run.Decisions == 0) {
			t.Errorf("through LVS: %+v", run)
		}
	}
}

// TestDirectOutcomes: what goes wrong without LVS is named as such.
func TestDirectOutcomes(t *testing.T) {
	cases := map[string]struct {
		how   fate
		flags []string
		valid bool
	}{
		"lost on the way": {fate{lostBefore: true}, []string{"backend_drop"}, true},
		"mute":            {fate{mute: true}, []string{"not_answered"}, true},
		"lost on return":  {fate{lostReturn: true}, []string{"lost_on_return"}, true},
		"refused":         {fate{rcode: dns.RcodeRefused}, []string{"rejected_by_client"}, true},
		"from the VIP":    {fate{source: ip("198.18.0.100")}, []string{"rejected_by_client"}, true},
		"by a stranger":   {fate{stranger: true}, []string{FlagCountsContradict}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, direct := directRuns(t, func(f *fakeLab) {
				f.packet = func(i int) fate {
					if i == 7 {
						return c.how
					}
					return fate{}
				}
			})
			for _, runs := range direct {
				for _, run := range runs {
					if run.Valid != c.valid || !slices.Equal(run.OutcomeFlags, c.flags) {
						t.Errorf("%s: valid %v, flags %v", run.RunID, run.Valid, run.OutcomeFlags)
					}
				}
			}
		})
	}
}

// TestDirectPreconditions: the client must hold the backend's own MAC.
func TestDirectPreconditions(t *testing.T) {
	top := paperTopology()
	f := newFakeLab(t, top)
	c, err := f.lab().cast(top.Experiments[0].Service, top.Experiments[0].Clients)
	if err != nil {
		t.Fatal(err)
	}
	s := Setting{Clients: 1, VIPs: 1, Direct: backend(1).String()}
	if got := c.targets(s); len(got) != 1 || got[0] != c.backends[1].addresses[0] {
		t.Errorf("sent to %v", got)
	}
	if w := c.believes(c.clients[0].noun, c.targets(s)[0], c.backends[0].mac, c.hop(c.clients[0], c.target(s).noun, ip("198.18.0.101"))); !strings.Contains(w, "backend.ns[0] and not backend.ns[1]") {
		t.Errorf("%q", w)
	}
	if w := c.believes(c.clients[0].noun, c.targets(s)[0], c.backends[1].mac, c.hop(c.clients[0], c.target(s).noun, ip("198.18.0.101"))); w != "" {
		t.Errorf("%q", w)
	}
}
