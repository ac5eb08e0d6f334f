package acceptance

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/artifact"
)

// ownLoads are studies with lvslab's own generator, for the lab of the truths.
const ownLoads = `
experiment "fresh" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  seed       = 10
  factor "sockets" { values = [1, 20, "fresh"] }
  factor "one_packet" { values = [false, true] }
  factor "scheduler" { values = ["rr"] }
  load "lvslab" { queries = 1000 }
}

experiment "hashed" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  factor "scheduler" { values = ["sh"] }
  factor "flags" { values = [["sh-port"]] }
  load "lvslab" {
    queries = 100
    sockets = "fresh"
    mode    = "open"
    rate    = 100
  }
}

experiment "kept" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  factor "protocol" { values = ["tcp"] }
  factor "scheduler" { values = ["sed", "nq"] }
  load "lvslab" {
    queries = 300
    sockets = 30
  }
}

experiment "sequential" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  factor "protocol" { values = ["tcp"] }
  factor "scheduler" { values = ["sed", "nq"] }
  load "lvslab" {
    queries = 60
    sockets = "fresh"
    window  = 1
  }
}
`

// ownRuns is how many runs they make.
const ownRuns = 6 + 1 + 2 + 2

// checkOwn holds a run of the own generator against what the kernel's rules say.
func checkOwn(t *testing.T, r artifact.Run, rows []artifact.BackendRow) {
	t.Helper()
	if !r.Valid || r.AnswersOK != r.QueriesPlanned || !strings.HasPrefix(r.LoadMode, "lvslab-") || slices.Contains(r.OutcomeFlags, "not_taken") {
		t.Errorf("valid %v, %d of %d ok, %s, flags %v", r.Valid, r.AnswersOK, r.QueriesPlanned, r.LoadMode, r.OutcomeFlags)
	}
	for _, b := range rows { // all of them are certain: known ports, no connection made again
		if b.PlannedDecisions == nil || int64(*b.PlannedDecisions) != b.IPVSConnsDelta {
			t.Errorf("%s: planned %v, decided %d", b.Backend, deref(b.PlannedDecisions), b.IPVSConnsDelta)
		}
	}
	decisions, want := r.QueriesPlanned, []int{334, 333, 333}
	switch {
	case r.Experiment == "hashed":
		return // any shares, as long as they are the planned ones
	case r.Experiment == "kept": // entries of TCP are active: 10 connections each
		decisions, want = 30, []int{100, 100, 100}
	case r.Experiment == "sequential": // the last connection has ended: nobody is active
		want = []int{60, 0, 0}
		if rows[headOf(rows)].AnswersOK != 60 {
			t.Errorf("answers %v, want all on the list head", answers(rows))
		}
	case strings.Contains(r.TreatmentID, "one_packet=true"):
	case strings.Contains(r.TreatmentID, "sockets=1,"):
		decisions, want = 1, []int{1000, 0, 0}
	case strings.Contains(r.TreatmentID, "sockets=20,"):
		decisions, want = 20, []int{350, 350, 300}
	}
	if got := sorted(answers(rows)); !slices.Equal(got, want) || *r.Decisions != decisions {
		t.Errorf("answers %v by %d decisions, want %v by %d", got, *r.Decisions, want, decisions)
	}
}
