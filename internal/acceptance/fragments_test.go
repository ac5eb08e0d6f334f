package acceptance

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// narrow has links of 400 bytes and answers of some 470, all of them in fragments.
const narrow = `
lab "narrow" { teardown = "on-success" }

network "lan" {
  cidr = "198.19.44.0/24"
  mtu  = 400
}

client "probe" {
  nic { network = network.lan }
}

director "front" {
  nic { network = network.lan }
}

backend "ns" {
  count  = 2
  serves = [zone.z]
  nic { network = network.lan }
}

zone "z" {
  name    = "small.test"
  records = [for i in range(4) : { name = "n${i}", type = "TXT", values = ["\"${join("", [for k in range(200) : "x"])}\"", "\"${join("", [for k in range(210) : "y"])}\""] }]
}

tunnel "up" {
  from = director.front
  to   = backend.ns
}

service "dns" {
  director  = director.front
  vip       = "198.19.44.101"
  scheduler = "rr"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.up
  }
}

experiment "large" {
  service = service.dns
  clients = client.probe
  capture = true
  load "dnsperf" {
    queries = 40
    sockets = 8
  }
}

experiment "own" {
  service = service.dns
  clients = client.probe
  load "lvslab" {
    queries = 40
    sockets = 8
    window  = 8
  }
}

check "in_fragments" {
  assert {
    condition     = contains(experiment.large.flags, "fragmented") && contains(experiment.own.flags, "fragmented")
    error_message = "Answers of 470 bytes fit into 400?"
  }
}
`

// TestAccFragments has answers that do not fit into a packet: they count as the
// client takes them, put together, and the run says that they came in fragments.
func TestAccFragments(t *testing.T) {
	s := newSite(t, narrow)
	s.must(0, 4*time.Minute, "apply", "lab.hcl")
	for _, r := range s.latest("narrow").Runs() {
		if !r.Valid || r.AnswersOK != 40 || !slices.Equal(r.OutcomeFlags, []string{"fragmented"}) || r.ClientRxIPBytes < 40*450 {
			t.Errorf("%s: %d answers, flags %q, %d bytes received: %+v", r.Experiment, r.AnswersOK, r.OutcomeFlags, r.ClientRxIPBytes, r)
		}
	}
	if r := s.must(0, time.Minute, "verify", "results/narrow/latest"); !strings.Contains(r.stdout, "Everything follows") {
		t.Errorf("verify: %s", r)
	}
}
