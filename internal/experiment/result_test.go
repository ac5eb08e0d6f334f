package experiment

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
)

func TestResult(t *testing.T) {
	one, two := 1, 2
	runs := []artifact.Run{
		{RunID: "1", TreatmentID: "a", Valid: true, AnswersOK: 30, Decisions: &one, OutcomeFlags: []string{"x"}},
		{RunID: "2", TreatmentID: "a", Valid: false, AnswersOK: 10, Unanswered: 20, Decisions: &two, OutcomeFlags: []string{"x", "b"}},
		{RunID: "3", TreatmentID: "p", Valid: true, AnswersOK: 5}, // under persistence
		{RunID: "4", TreatmentID: "z"}, // nothing measured
	}
	backends := []artifact.BackendRow{
		{RunID: "1", Backend: "ns0", AnswersOK: 30}, {RunID: "1", Backend: "ns1"},
		{RunID: "2", Backend: "ns0"}, {RunID: "2", Backend: "ns1", AnswersOK: 10},
		{RunID: "3", Backend: "ns0", AnswersOK: 5},
		{RunID: "of another experiment", Backend: "ns0", AnswersOK: 99},
	}
	want := lang.ExperimentResult{
		Runs: 4, ValidRuns: 2, Unanswered: 20, AnswersOK: 45,
		Shares:    map[string]map[string]float64{"a": {"ns0": 1, "ns1": 0}, "p": {"ns0": 1}},
		Decisions: map[string]float64{"a": 1},
		Flags:     []string{"b", "x"},
	}
	if diff := cmp.Diff(want, Result(runs, backends)); diff != "" {
		t.Error(diff)
	}
}
