package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"
)

// TestAccLongImpaired asks for a delay and for losses: the proof of the path insists
// on answers in spite of the losses, sees both, and a study counts what is lost.
func TestAccLongImpaired(t *testing.T) {
	vmtest.NeedLong(t)
	topology := threeBackends("impaired", "198.19.39", `
experiment "lossy" {
  service = service.s
  clients = client.probe
  load "dnsperf" {
    queries = 300
    sockets = 12
    timeout = "1s"
  }
}
`)
	const plain, lossy = `network "wire" { cidr = "198.19.39.0/24" }`, `network "wire" {
  cidr = "198.19.39.0/24"
  impair {
    delay  = "12ms"
    jitter = "2ms"
    loss   = "10%"
  }
}`
	if !strings.Contains(topology, plain) {
		t.Fatal("the topology has another network")
	}
	s := newSite(t, strings.Replace(topology, plain, lossy, 1))
	s.must(0, 4*time.Minute, "apply", "--keep", "lab.hcl")
	for _, r := range s.latest("impaired").Runs() {
		// A query and its answer pass three cards: 27 % are lost, ±13 % are five sigma,
		// and 30 ms is what three delays less their jitter make.
		if !r.Valid || r.Unanswered < 42 || r.Unanswered > 121 || r.LatencyP50 == nil || *r.LatencyP50 < 0.030 {
			t.Errorf("%d of 300 without an answer, valid %v: %+v", r.Unanswered, r.Valid, r)
		}
	}
	if r := s.must(0, time.Minute, "exec", "client.probe", "--", "tc", "qdisc", "show", "dev", "wire"); !strings.Contains(r.stdout, "delay 12ms  2ms loss 10%") {
		t.Errorf("the client's queueing: %s", r)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve")
}
