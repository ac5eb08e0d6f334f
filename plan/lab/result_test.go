package lab

import (
	"reflect"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/artifact"
)

func TestRunOf(t *testing.T) {
	decisions := 12
	rows := []artifact.BackendRow{
		{Backend: "backend.ns[0]", Position: 2, AnswersOK: 60, IPVSConnsDelta: 6},
		{Backend: "backend.ns[1]", Position: 1, AnswersOK: 30, IPVSConnsDelta: 3},
	}
	got := runOf(artifact.Run{
		RunID: "r1", Experiment: "x", TreatmentID: "scheduler=rr", Block: 2, Valid: true,
		PreconditionFailures: []string{"a"}, OutcomeFlags: []string{"b"},
		QueriesSent: 91, AnswersOK: 90, Decisions: &decisions,
	}, rows)
	want := Run{
		ID: "r1", Experiment: "x", Treatment: "scheduler=rr", Block: 2, Valid: true,
		Flags: []string{"a", "b"}, Sent: 91, Answered: 90, Decisions: 12,
		Backends: []Backend{{"backend.ns[1]", 30, 3}, {"backend.ns[0]", 60, 6}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if rows[0].Backend != "backend.ns[0]" {
		t.Error("the artifact's rows were put in another order")
	}
	if r := runOf(artifact.Run{}, nil); r.Decisions != -1 {
		t.Errorf("decisions that are not known are %d", r.Decisions)
	}
}

func TestResultErr(t *testing.T) {
	good := Result{Runs: []Run{{Valid: true, Flags: []string{"lost_in_tunnel"}}}, Checks: []Check{{Name: "c", Passed: true}}}
	if err := good.Err(); err != nil {
		t.Errorf("a good result is one of %v", err)
	}
	bad := Result{
		Runs:   []Run{{ID: "r1", Treatment: "scheduler=rr", Flags: []string{"counter_mismatch"}}},
		Checks: []Check{{Name: "even", Message: "ns[0] had 60 %"}},
	}
	err := bad.Err()
	for _, want := range []string{"r1", "scheduler=rr", "counter_mismatch", "even", "ns[0] had 60 %"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

func TestEndedErr(t *testing.T) {
	if err := (Ended{Stderr: []byte("a warning")}).Err(); err != nil {
		t.Errorf("code 0 became %v", err)
	}
	if err := (Ended{Code: 9, Stderr: []byte("no host\n")}).Err(); err == nil || err.Error() != "exit code 9: no host" {
		t.Errorf("got %v", err)
	}
}

// TestSources: an error of a topology that is text shows the line.
func TestSources(t *testing.T) {
	_, err := Up(t.Context(), "broken.hcl", Text("network \"lan\" {\n  cidr = \"nowhere\"\n}\n"))
	if err == nil {
		t.Fatal("a broken topology came up")
	}
	for _, want := range []string{"broken.hcl", "line 2", `cidr = "nowhere"`} {
		if text := Explain(err); !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
