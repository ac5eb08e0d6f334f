package acceptance

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/sighting"
)

const sharedOut = `
check "as_asked_for" {
  assert {
    condition     = length(service.s.paths) == 3 && alltrue([for p in service.s.paths : p.whole && p.straight_back && p.tunnel == "ipip"])
    error_message = "${length(service.s.paths)} paths: ${join(" ", service.s.paths[*].tunnel)}."
  }
}

experiment "ports" {
  service    = service.s
  clients    = client.probe
  iterations = 4
  seed       = 5
  factor "sockets" { values = [1, 3] }
  load "dnsperf" { queries = 300 }
}
`

// TestAccProofs: a share whose apply is killed amid its runs and continued has the proof
// of both sessions; merged with another share, the whole has all three, each with what it
// belongs to. What a check says of the paths is the same everywhere.
func TestAccProofs(t *testing.T) {
	s := newSite(t, threeBackends("proofs", "198.19.43", sharedOut))
	cmd, _, _ := s.start("apply", "--keep", "--auto-approve", "--shard", "1/2", "lab.hcl")
	poll(t, 3*time.Minute, "no second run was begun", func() bool {
		runs, _ := filepath.Glob(filepath.Join(s.dir, "results", "proofs", "*.partial", "raw", "*"))
		return len(runs) > 1
	})
	killNine(t, cmd)
	var shares []*artifact.Artifact
	for _, share := range []string{"1/2", "2/2"} {
		s.must(0, 3*time.Minute, "apply", "--keep", "--auto-approve", "--shard", share, "lab.hcl")
		shares = append(shares, s.latest("proofs"))
	}
	s.must(0, time.Minute, "merge", "-o", "results/merged", shares[0].Dir(), shares[1].Dir())
	whole, err := artifact.OpenStudy(filepath.Join(s.dir, "results", "merged", "proofs", artifact.LatestLink))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of   *artifact.Artifact
		want []string
	}{{shares[0], []string{"1/2", "1/2"}}, {shares[1], []string{"2/2"}}, {whole, []string{"1/2", "1/2", "2/2"}}} {
		if r := s.must(0, time.Minute, "verify", c.of.Dir()); !strings.Contains(r.stdout, "paths") {
			t.Errorf("paths were not verified: %s", r)
		}
		proofs, err := sighting.ProofsOf(c.of)
		if err != nil {
			t.Fatal(err)
		}
		sessions := c.of.Manifest().Sessions
		var got []string
		for i, p := range proofs {
			got = append(got, p.Shard)
			if len(p.Paths) != 3 || p.Whole() != 3 || len(p.Dropped) > 0 || !p.Session.Equal(sessions[i].StartedAt) || p.Result != sessions[i].Result || p.Host != sessions[i].Host.Label() {
				t.Errorf("%s: proof of %s, %q on %s has %d paths, %d whole; session %+v", c.of.Dir(), p.Session, p.Result, p.Host, len(p.Paths), p.Whole(), sessions[i])
			}
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s has proofs of shares %q, want %q", c.of.Dir(), got, c.want)
		}
	}
	s.must(0, time.Minute, "destroy", "--auto-approve")
}
