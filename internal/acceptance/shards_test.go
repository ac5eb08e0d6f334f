package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/vmtest"
)

// TestAccLongShards: the example's study in one go, and its two blocks in labs of
// their own, merged: in all but times it is the same.
func TestAccLongShards(t *testing.T) {
	vmtest.NeedLong(t)
	needLab(t)
	text, err := os.ReadFile("../../examples/shards/study.hcl")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, string(text))
	t.Cleanup(func() { s.run(time.Minute, "destroy", "--auto-approve", "lab.hcl") })
	s.must(0, 3*time.Minute, "apply", "--auto-approve", "-var", "blocks=2", "--results", "results/whole", "lab.hcl")
	var dirs []string
	for i := 1; i <= 2; i++ {
		to := fmt.Sprintf("results/share-%d", i)
		s.must(0, 3*time.Minute, "apply", "--auto-approve", "-var", "blocks=2", "--shard", fmt.Sprintf("%d/2", i), "--results", to, "lab.hcl")
		dirs = append(dirs, to+"/shared-out/latest")
	}
	s.must(0, time.Minute, append([]string{"merge", "-o", "results/merged"}, dirs...)...)
	s.must(0, time.Minute, "verify", "results/merged/shared-out/latest")
	s.must(0, time.Minute, "compare", "results/whole/shared-out/latest", "results/merged/shared-out/latest")

	read := func(dir string) *artifact.Artifact {
		a, err := artifact.OpenStudy(filepath.Join(s.dir, "results", dir, "shared-out", artifact.LatestLink))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	whole, merged := read("whole"), read("merged")
	if n := len(merged.Runs()); n != 6 || n != len(whole.Runs()) {
		t.Fatalf("%d runs, of one result %d", n, len(whole.Runs()))
	}
	for i, r := range merged.Runs() {
		if r.Factors[artifact.HostFactor] != whole.Manifest().Host.Label() {
			t.Errorf("%s was made on %q", r.RunID, r.Factors[artifact.HostFactor])
		}
		delete(r.Factors, artifact.HostFactor)
		if a, b := counts(r), counts(whole.Runs()[i]); a != b {
			t.Errorf("merged   %s\nin one go %s", a, b)
		}
	}
	for i, b := range merged.Backends() {
		o := whole.Backends()[i]
		if b.RunID != o.RunID || b.Backend != o.Backend || b.IPVSConnsDelta != o.IPVSConnsDelta || deref(b.PlannedDecisions) != deref(o.PlannedDecisions) {
			t.Errorf("merged %+v\nin one go %+v", b, o)
		}
	}
	if a, b := merged.Manifest().Study, whole.Manifest().Study; a != b {
		t.Errorf("study %s, of one result %s", a, b)
	}
}

// counts is a run without its times.
func counts(r artifact.Run) string {
	return fmt.Sprint(r.RunID, r.TreatmentID, r.Block, r.Order, r.PrevTreatment, r.Factors, r.QueriesSent, r.AnswersOK, r.Unanswered,
		r.SourcePorts, r.IPVSConnsDelta, deref(r.Decisions), r.OutcomeFlags, r.Valid)
}
