package experiment

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/lang"
)

func TestControls(t *testing.T) {
	top := paperTopology()
	e := &top.Experiments[0]
	e.Iterations, e.Controls = 4, &lang.Controls{AA: true, Rotate: true}
	e.Factors = []lang.Factor{factorOf("scheduler", "sed", "dh")}
	list, ds := Treatments(top, *e)
	if ds.HasErrors() || len(list) != 3 {
		t.Fatalf("%d treatments, %v", len(list), ds)
	}
	aa := list[2]
	if aa.ID != "control=aa" || aa.Slug != "aa" || !aa.Control() || list[0].Control() {
		t.Errorf("%+v", aa)
	}
	if d := cmp.Diff(list[0].Setting, aa.Setting); d != "" {
		t.Errorf("the twin differs:\n%s", d)
	}
	if d := cmp.Diff(list[0].Factors, aa.Factors); d != "" {
		t.Errorf("the twin's factors differ:\n%s", d)
	}
	want := [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 1, 2}}
	for _, tr := range Trials(*e, list, 0) {
		if got := tr.Treatment.Setting.Order; !slices.Equal(got, want[tr.Block-1]) {
			t.Errorf("%s: list %v, want %v", tr.RunID, got, want[tr.Block-1])
		}
	}
	if !slices.Equal(list[0].Setting.Order, want[0]) {
		t.Error("the rotation has changed the treatment itself")
	}
	e.Controls = &lang.Controls{}
	if list, _ = Treatments(top, *e); len(list) != 2 {
		t.Errorf("%d treatments without controls", len(list))
	}
	for _, tr := range Trials(*e, list, 0) {
		if !slices.Equal(tr.Treatment.Setting.Order, want[0]) {
			t.Errorf("%s: list %v without rotation", tr.RunID, tr.Treatment.Setting.Order)
		}
	}
}

// TestControlsOnALab: sed and its twin go to the list head, whoever that is, and
// dh to the place that its hash gives; the rows say where each backend stood.
func TestControlsOnALab(t *testing.T) {
	r := runFake(t, func(_ *lang.Topology, e *lang.Experiment) {
		e.Iterations, e.Controls, e.Load.Sockets = 3, &lang.Controls{AA: true, Rotate: true}, 4
		e.Factors = []lang.Factor{factorOf("scheduler", "sed", "dh")}
	}, nil)
	if r.err != nil || len(r.rec.runs) != 9 {
		t.Fatalf("%d runs, %v", len(r.rec.runs), r.err)
	}
	heads := map[string]map[string]bool{}
	for _, run := range r.rec.runs {
		if !run.Valid || run.Factors["scheduler"] == "" {
			t.Errorf("%s: valid %v, factors %v", run.RunID, run.Valid, run.Factors)
		}
		for _, b := range r.rec.backends[run.RunID] {
			if b.Position == 0 && b.Backend != backend(run.Block-1).String() {
				t.Errorf("%s: %s is list head", run.RunID, b.Backend)
			}
			if b.AnswersOK > 0 {
				if heads[run.TreatmentID] == nil {
					heads[run.TreatmentID] = map[string]bool{}
				}
				heads[run.TreatmentID][b.Backend] = true
			}
		}
	}
	for _, id := range []string{"scheduler=sed", "scheduler=dh", "control=aa"} {
		if len(heads[id]) != 3 {
			t.Errorf("%s used %v over three blocks", id, heads[id])
		}
	}
}
