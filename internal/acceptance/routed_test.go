package acceptance

import (
	"strings"
	"testing"
	"time"
)

// twoWays has one client outside and two backends behind a router; the director
// has a card on each of the backends' networks. One service sends tunnels through
// the router, the other masquerades on the director's second card.
const twoWays = `
lab "twoways" { teardown = "on-success" }

network "outside" { cidr = "198.19.36.0/24" }
network "inside" { cidr = "198.19.37.0/24" }
network "far" {
  cidr = "198.19.38.0/24"
  mtu  = 1400
  impair { delay = "15ms" }
}

client "probe" {
  nic { network = network.outside }
}

director "front" {
  nic { network = network.outside }
  nic { network = network.inside }
}

router "edge" {
  nic { network = network.outside }
  nic { network = network.far }
}

backend "near" {
  count  = 2
  serves = [zone.z]
  nic { network = network.inside }
}

backend "away" {
  serves = [zone.z]
  nic { network = network.far }
}

zone "z" {
  name    = "small.test"
  records = [for i in range(20) : { name = "n${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "up" {
  from = director.front
  to   = backend.away
}

service "routed" {
  director  = director.front
  vip       = "198.19.36.101"
  scheduler = "rr"
  real_server {
    backends = backend.away
    tunnel   = tunnel.up
  }
}

service "nat" {
  director  = director.front
  vip       = "198.19.36.102"
  scheduler = "rr"
  forward   = "masquerade"
  real_server { backends = backend.near }
}

experiment "routed" {
  service = service.routed
  clients = client.probe
  load "dnsperf" {
    queries = 60
    sockets = 6
  }
}

experiment "nat" {
  service = service.nat
  clients = client.probe
  load "lvslab" {
    queries = 60
    sockets = 6
  }
  controls { direct = true }
}
`

// TestAccRouted sends tunnels through a router and masquerades on the same
// director, with both load generators, and sees on the wire where queries and
// answers really went.
func TestAccRouted(t *testing.T) {
	s := newSite(t, twoWays)
	s.must(0, 4*time.Minute, "apply", "--keep", "lab.hcl")
	if r := s.must(0, time.Minute, "apply", "--keep", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to do") {
		t.Errorf("what was read back is not what was asked for: %s", r)
	}
	result := s.latest("twoways")
	treatment := map[string]string{}
	for _, r := range result.Runs() {
		treatment[r.RunID] = r.Experiment + " " + r.TreatmentID
		if r.AnswersOK != 60 || !r.Valid || len(r.OutcomeFlags) > 0 {
			t.Errorf("%s: %+v", treatment[r.RunID], r)
		}
		// Two cards delay what passes the far network: the router's and the backend's.
		if r.Experiment == "routed" && (r.LatencyP50 == nil || *r.LatencyP50 < 0.030) {
			t.Errorf("half of the answers took %v s through two delays of 15 ms", r.LatencyP50)
		}
	}
	want := map[string]int{
		"routed declared backend.away": 60, "nat declared backend.near[0]": 30, "nat declared backend.near[1]": 30,
		"nat control=direct:backend.near[0] backend.near[0]": 60, "nat control=direct:backend.near[1] backend.near[1]": 60,
	}
	for _, r := range result.Backends() {
		key := treatment[r.RunID] + " " + r.Backend
		if r.AnswersOK != want[key] || r.NamedRequests != int64(want[key]) {
			t.Errorf("%s: %d answers and %d requests, want %d", key, r.AnswersOK, r.NamedRequests, want[key])
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("no rows: %v", want)
	}
	for _, c := range []struct{ name, node, device, vip, filter, want string }{
		// A Linux host sends with 64 hops to go. IPVS takes one off the query, the outer
		// header begins with what is left, and the router takes one off that.
		{"the tunnel comes by the router, one hop on", "backend.away", "far", "198.19.36.101", "proto 4 and ip[8] = 62 and ip[28] = 63", "198.19.36.10 > 198.19.38.30: 198.19.36.128."},
		{"the answer comes straight back, from the VIP", "router.edge", "far", "198.19.36.101", "udp src port 53 and ip[8] = 64", "198.19.36.101.53 > 198.19.36.128."},
		{"the answer has passed the router", "client.probe", "outside", "198.19.36.101", "udp src port 53 and ip[8] = 63", "198.19.36.101.53 > 198.19.36.128."},
		{"the query is translated on its way in", "backend.near[0]", "inside", "198.19.36.102", "udp dst port 53 and ip[8] = 63", "198.19.36.128."},
		{"the answer is translated on its way out", "client.probe", "outside", "198.19.36.102", "udp src port 53 and ip[8] = 63", "198.19.36.102.53 > 198.19.36.128."},
	} {
		cmd, out, errOut := s.start("capture", c.node, "-i", c.device, "-c", "1", "--", c.filter)
		errOut.await(t, "listening on", time.Minute)
		s.must(0, time.Minute, "exec", "client.probe", "--", "sh", "-c", "for i in 1 2; do dig +short +time=5 @"+c.vip+" n7.small.test; done")
		if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v: %s%s", c.name, err, out, errOut)
		}
	}
	s.must(0, time.Minute, "destroy", "--auto-approve")
}
