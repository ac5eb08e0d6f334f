package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/sighting"
)

// threeTunnels gives each of three backends a tunnel of another type, with the
// checksums that IPVS can send.
func threeTunnels(lab, prefix, rest string) string {
	return strings.Replace(threeBackends(lab, prefix, rest), `  from = director.front
  to   = backend.web
  type = "ipip"
`, `  count    = 3
  from     = director.front
  to       = backend.web[count.index]
  type     = ["ipip", "gre", "gue"][count.index]
  checksum = ["none", "full", "remote"][count.index]
`, 1)
}

const sticky = `
service "sticky" {
  director  = director.front
  vip       = "198.19.30.102"
  scheduler = "rr"
  persistence { timeout = "60s" }
  real_server {
    backends = backend.web
    tunnel   = tunnel.up
  }
}

check "as_asked_for" {
  assert {
    condition     = alltrue([for p in concat(service.s.paths, service.sticky.paths) : p.whole && p.straight_back && p.encapsulations == 1 && length(p.defects) == 0])
    error_message = "A query went another way than the one asked for."
  }
}

check "each_tunnel" {
  assert {
    condition     = join(" ", service.s.paths[*].tunnel) == "ipip gre gue"
    error_message = "Tunnels: ${join(" ", service.s.paths[*].tunnel)}."
  }
}

experiment "ports" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  seed       = 5
  load "dnsperf" {
    queries = 120
    sockets = 12
  }
}

experiment "persistent" {
  service    = service.sticky
  clients    = client.probe
  iterations = 1
  seed       = 5
  load "dnsperf" {
    queries = 120
    sockets = 12
  }
}
`

// TestAccTunnels sends a study through IPIP, GRE with checksums and GUE with
// remote checksums at once, and sees each outer header on the wire. A persistent
// service on the same machines then makes one choice for all ports of a client.
func TestAccTunnels(t *testing.T) {
	s := newSite(t, threeTunnels("tunnels", "198.19.30", sticky))
	s.must(0, 4*time.Minute, "apply", "--keep", "lab.hcl")
	if r := s.must(0, time.Minute, "apply", "--keep", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to do") {
		t.Errorf("what was read back is not what was asked for: %s", r)
	}
	result := s.latest("tunnels")
	seePaths(t, result)
	of := map[string]artifact.Run{}
	for _, r := range result.Runs() {
		of[r.RunID] = r
		if r.AnswersOK != 120 || !r.Valid {
			t.Errorf("%s: %d answers, valid %v", r.Experiment, r.AnswersOK, r.Valid)
		}
		if (r.Decisions == nil) != (r.Experiment == "persistent") {
			t.Errorf("%s: decisions %v", r.Experiment, r.Decisions)
		}
	}
	for _, r := range result.Backends() {
		want := int64(40)
		if of[r.RunID].Experiment == "persistent" {
			want = 0
			if r.Position == 0 { // rr's first choice holds for all ports
				want = 120
			}
		}
		if r.AnswersOK != int(want) || r.TunnelRxPackets == nil || *r.TunnelRxPackets != want || r.NamedRequests != want {
			t.Errorf("%s, want %d through the tunnel: %+v", of[r.RunID].Experiment, want, r)
		}
	}
	for backend, c := range map[string]struct{ filter, want string }{
		"backend.web[0]": {"proto 4", "198.19.30.10 > 198.19.30.30: 198.19.30.128."},
		"backend.web[1]": {"proto 47", "GREv0"},
		"backend.web[2]": {"udp dst port 6080", "> 198.19.30.32.6080: UDP"},
	} {
		cmd, out, errOut := s.start("capture", backend, "-i", "wire", "-c", "1", "--", c.filter)
		errOut.await(t, "listening on", time.Minute)
		s.must(0, time.Minute, "exec", "client.probe", "--", "sh", "-c", "for i in 1 2 3; do dig +short +time=5 @198.19.30.101 n7.small.test; done")
		if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v: %s%s", backend, err, out, errOut)
		}
	}
	s.must(0, time.Minute, "destroy", "--auto-approve")
}

// seePaths looks at what the proof has seen of the three tunnels, under both services:
// each hop, the outer header that was asked for, and the answer straight back.
func seePaths(t *testing.T, result *artifact.Artifact) {
	proofs, err := sighting.ProofsOf(result)
	if err != nil {
		t.Fatal(err)
	}
	record := proofs.All()
	if len(record.Paths) != 2*3 || len(record.Dropped) > 0 {
		t.Errorf("%d paths, want one for each service and backend; frames dropped: %v", len(record.Paths), record.Dropped)
	}
	for i, p := range record.Paths {
		backend := fmt.Sprintf("backend.web[%d]", i%3)
		var hops []string
		for _, h := range p.Hops {
			hops = append(hops, h.Node+" "+h.Direction+" "+h.Leg)
		}
		want := []string{"client.probe out query", "director.front in query", "director.front out query", backend + " in query", backend + " out answer", "client.probe in answer"}
		if !slices.Equal(hops, want) {
			t.Errorf("hops %q, want %q", hops, want)
		}
		if p.Backend != backend || !p.Whole || !p.StraightBack || p.Fragmented || len(p.Defects) > 0 || p.Source != p.VIP || p.Encapsulations != 1 ||
			p.Tunnel != []string{sighting.IPIP, sighting.GRE, sighting.GUE}[i%3] ||
			p.OuterSource.String() != "198.19.30.10" || p.OuterDestination.String() != fmt.Sprintf("198.19.30.%d", 30+i%3) {
			t.Errorf("path %d: %+v", i, p)
		}
	}
}
