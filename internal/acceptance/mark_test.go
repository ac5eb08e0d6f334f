package acceptance

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/vmtest"
)

// TestAccLongMark carries the example of a service by mark out. The model of the
// packets that came, IPVS and the backends agree in every run, the plan where the
// order of the clients' processes decides nothing; somebody's change of the
// marking is found and put right, and the counters of the rules saw every query.
func TestAccLongMark(t *testing.T) {
	vmtest.NeedLong(t)
	text, err := os.ReadFile("../../examples/by-mark.hcl")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, string(text))
	s.must(0, 6*time.Minute, "apply", "--keep", "lab.hcl")
	a := s.latest("by-mark")
	runs := map[string]artifact.Run{}
	for _, r := range a.Runs() {
		runs[r.RunID] = r
		if !r.Valid || r.AnswersOK != 120 || r.Replay != "packets" || r.KernelDiffers != "" || r.ReplayRowsDiffer == nil || *r.ReplayRowsDiffer != 0 {
			t.Errorf("%s: valid %v, %d answers, %v; the model's word is on %q (%v), %s", r.TreatmentID, r.Valid, r.AnswersOK, r.OutcomeFlags,
				r.Replay, r.ReplayLimits, r.KernelDiffers)
		}
	}
	if len(runs) != 14 {
		t.Fatalf("%d runs", len(runs))
	}
	planned, spread := 0, map[string]int{}
	for _, b := range a.Backends() {
		id := runs[b.RunID].TreatmentID
		kernel := int(b.IPVSConnsDelta)
		if b.ReplayedDecisions == nil || *b.ReplayedDecisions != kernel || b.ReplayedPackets == nil || int64(*b.ReplayedPackets) != b.IPVSInPackets ||
			b.IPVSInPackets != b.NamedRequests || *b.ReplayedPackets != b.AnswersOK {
			t.Errorf("%s, %s: replayed %v and %v, IPVS %d and %d, named %d, answers %d", id, b.Backend, b.ReplayedDecisions, b.ReplayedPackets,
				kernel, b.IPVSInPackets, b.NamedRequests, b.AnswersOK)
		}
		if b.PlannedDecisions != nil {
			if planned++; *b.PlannedDecisions != kernel {
				t.Errorf("%s, %s: planned %d, the kernel's %d", id, b.Backend, *b.PlannedDecisions, kernel)
			}
		}
		if kernel > 0 {
			spread[id]++
		}
	}
	if planned < 3*3*2 { // dh, sh and mh at least
		t.Errorf("only %d rows are planned", planned)
	}
	if n := spread["scheduler=lblc,one_packet=false"]; n != 3 {
		t.Errorf("lblc used %d backends for six addresses", n)
	}
	s.must(0, time.Minute, "verify", "results/by-mark/latest")
	meddled := func(name, script, says string) {
		t.Helper()
		s.must(0, time.Minute, "exec", "director.front", "--", "sh", "-ec", script)
		if r := s.run(time.Minute, "plan", "--keep", "--detailed-exitcode", "lab.hcl"); r.code != 2 || !strings.Contains(r.stdout, says) {
			t.Errorf("%s is not found: %s", name, r)
		}
		s.must(0, 6*time.Minute, "apply", "--keep", "--auto-approve", "lab.hcl")
		if r := s.run(time.Minute, "plan", "--keep", "--detailed-exitcode", "lab.hcl"); r.code != 0 {
			t.Errorf("%s was not repaired: %s", name, r)
		}
	}
	if rules := s.must(0, time.Minute, "exec", "director.front", "--", "nft", "list", "ruleset").stdout; strings.Count(rules, "meta mark set 0x00000007") != 6 ||
		strings.Contains(rules, "packets 0 ") {
		t.Errorf("the rules of marking: %s", rules)
	}
	meddled("the rules flushed", "nft flush ruleset", "service.dns/mark will be created")
	s.must(0, time.Minute, "destroy", "--auto-approve")
}
