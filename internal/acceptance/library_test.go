package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"
	"github.com/lvslab/lvslab/topologies"
)

// slow are the topologies of the library that have more runs than a few minutes
// hold, whatever their variables are set to; the others end in three minutes.
var slow = map[string]time.Duration{
	"lvs-tun-dns":      8 * time.Minute,
	"mechanism":        60 * time.Minute,
	"triac-2026":       8 * time.Minute,
	"triac-2026-fixed": 20 * time.Minute,
}

// TestAccLongLibrary applies every topology of the library as a user does, with one
// block and few queries where it has variables for them: its own checks hold, every
// run is valid and as the model says, and nothing is left.
func TestAccLongLibrary(t *testing.T) {
	vmtest.NeedLong(t)
	for _, name := range topologies.Names() {
		t.Run(name, func(t *testing.T) { applyBuiltin(t, name) })
	}
}

func applyBuiltin(t *testing.T, name string) {
	text, _ := topologies.Get(name)
	s := newSite(t, string(text))
	args := []string{"apply", "--timings"}
	for _, v := range []string{"iterations=1", "queries=60"} {
		if label, _, _ := strings.Cut(v, "="); strings.Contains(string(text), "variable \""+label+"\"") {
			args = append(args, "-var", v)
		}
	}
	limit, ok := slow[name]
	if !ok {
		limit = 4 * time.Minute
	}
	r := s.must(0, limit, append(args, "builtin:"+name)...)
	a := s.latest(name)
	treatment := map[string]string{}
	for _, run := range a.Runs() {
		treatment[run.RunID] = run.Experiment + " " + run.TreatmentID
		if !run.Valid || run.Unanswered > 0 || run.KernelDiffers != "" {
			t.Errorf("%s: valid %v, %d unanswered, %v %v, model: %s", treatment[run.RunID], run.Valid, run.Unanswered, run.OutcomeFlags, run.PreconditionFailures, run.KernelDiffers)
		}
	}
	if len(treatment) == 0 {
		t.Error("no run")
	}
	for _, b := range a.Backends() {
		if b.PlannedDecisions != nil && int64(*b.PlannedDecisions) != b.IPVSConnsDelta {
			t.Errorf("%s, %s: %d choices planned, %d made", treatment[b.RunID], b.Backend, *b.PlannedDecisions, b.IPVSConnsDelta)
		}
	}
	t.Logf("%s: %d runs, %.0f s", name, len(treatment), r.took.Seconds())
}
