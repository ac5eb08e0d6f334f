package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/vmtest"
)

// TestAccMatrix holds four witnesses against each other in every run of a matrix of
// all schedulers that the kernel has, one-packet scheduling, and source ports: what
// the plan said before the first run, what the model makes of the packets that came,
// what IPVS counted, and what the backends answered. They must agree to the last
// packet; twos draws, so that nothing is planned for it. With one port there is one
// decision, which TestAccReproduce has for ten of them: only the long test adds it.
func TestAccMatrix(t *testing.T) { matrixOf(t, `20, "fresh"`, 2) }

func TestAccLongMatrix(t *testing.T) {
	vmtest.NeedLong(t)
	matrixOf(t, `1, 20, "fresh"`, 3)
}

func matrixOf(t *testing.T, sockets string, kinds int) {
	t.Helper()
	s := newSite(t, threeBackends("matrix", "198.19.32", strings.Replace(`
experiment "all" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  seed       = 17
  factor "scheduler" { values = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"] }
  factor "one_packet" { values = [false, true] }
  factor "sockets" { values = [@SOCKETS] }
  load "lvslab" { queries = 60 }
}
`, "@SOCKETS", sockets, 1)))
	s.must(0, 8*time.Minute, "apply", "lab.hcl")
	a := s.latest("matrix")
	runs := map[string]artifact.Run{}
	for _, r := range a.Runs() {
		runs[r.RunID] = r
		if !r.Valid || r.AnswersOK != 60 {
			t.Errorf("%s: valid %v, %d answers, %v %v", r.TreatmentID, r.Valid, r.AnswersOK, r.OutcomeFlags, r.PreconditionFailures)
		}
		if r.Replay != "packets" || r.KernelDiffers != "" || r.ReplayRowsDiffer == nil || *r.ReplayRowsDiffer != 0 {
			t.Errorf("%s: the model's word is on %q (%v), %s, rows that differ: %v", r.TreatmentID, r.Replay, r.ReplayLimits, r.KernelDiffers, r.ReplayRowsDiffer)
		}
	}
	if len(runs) != 13*2*kinds {
		t.Fatalf("%d runs", len(runs))
	}
	for _, b := range a.Backends() {
		id := runs[b.RunID].TreatmentID
		if b.PlannedDecisions == nil || b.ReplayedDecisions == nil || b.ReplayedPackets == nil {
			t.Errorf("%s, %s: planned %v, replayed %v, %v", id, b.Backend, b.PlannedDecisions, b.ReplayedDecisions, b.ReplayedPackets)
			continue
		}
		if kernel := int(b.IPVSConnsDelta); *b.PlannedDecisions != kernel || *b.ReplayedDecisions != kernel {
			t.Errorf("%s, %s: planned %d, replayed %d, the kernel's %d", id, b.Backend, *b.PlannedDecisions, *b.ReplayedDecisions, kernel)
		}
		if packets := int64(*b.ReplayedPackets); packets != b.IPVSInPackets || packets != b.NamedRequests || *b.ReplayedPackets != b.AnswersOK {
			t.Errorf("%s, %s: replayed %d, IPVS %d, named %d, answers %d", id, b.Backend, packets, b.IPVSInPackets, b.NamedRequests, b.AnswersOK)
		}
	}
	s.must(0, time.Minute, "verify", "results/matrix/latest")
}
