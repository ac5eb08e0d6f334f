package experiment

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/lang"
)

func TestCollapsedTreatmentsAreLeftOut(t *testing.T) {
	list := []Treatment{{ID: "scheduler=rr"}, {ID: "scheduler=wrr"}, {ID: "scheduler=dh"}}
	e := lang.Experiment{StandsFor: map[string][]string{"scheduler=rr": {"scheduler=wrr"}}}
	want := []Treatment{{ID: "scheduler=rr", StandsFor: []string{"scheduler=wrr"}}, {ID: "scheduler=dh"}}
	if d := cmp.Diff(want, collapsed(e, list)); d != "" {
		t.Error(d)
	}
	r := Represented(lang.ExperimentResult{Shares: map[string]map[string]float64{"scheduler=rr": {"b": 1}}}, e.StandsFor)
	if r.Shares["scheduler=wrr"]["b"] != 1 {
		t.Errorf("%v", r.Shares)
	}
}
