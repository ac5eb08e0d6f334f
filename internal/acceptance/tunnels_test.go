package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
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
