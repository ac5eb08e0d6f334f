package acceptance

import (
	"strings"
	"testing"
	"time"
)

// household has two clients, one of them with three addresses, behind a router that
// masquerades, and the director and two backends outside.
const household = `
lab "household" { teardown = "on-success" }

network "outside" { cidr = "198.19.40.0/24" }
network "home" { cidr = "198.19.41.0/24" }

router "nat" {
  masquerade = network.outside
  nic { network = network.outside }
  nic { network = network.home }
}

client "one" {
  nic { network = network.home }
}

client "more" {
  addresses = 3
  nic { network = network.home }
}

director "front" {
  nic { network = network.outside }
}

backend "ns" {
  count  = 2
  serves = [zone.z]
  nic { network = network.outside }
}

zone "z" {
  name    = "small.test"
  records = [for i in range(20) : { name = "n${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "up" {
  from = director.front
  to   = backend.ns
}

service "dns" {
  director  = director.front
  vip       = "198.19.40.101"
  scheduler = "rr"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.up
  }
}

experiment "drawn" {
  service = service.dns
  clients = [client.one, client.more]
  factor "scheduler" { values = ["rr", "sh"] }
  load "dnsperf" {
    queries = 48
    sockets = 4
  }
}

experiment "known" {
  service = service.dns
  clients = [client.one, client.more]
  factor "flags" { values = [["sh-port"]] }
  factor "scheduler" { values = ["sh"] }
  load "lvslab" {
    queries = 48
    sockets = "fresh"
    window  = 8
  }
}
`

// TestAccNAT has a group of clients under one address: what the director sees, what
// the kernel's NAT does with two equal ports, and that a translation which somebody
// has taken away is found and made again.
func TestAccNAT(t *testing.T) {
	s := newSite(t, household)
	s.must(0, 4*time.Minute, "apply", "--keep", "lab.hcl")
	a := s.latest("household")
	treatment := map[string]string{}
	for _, r := range a.Runs() {
		treatment[r.RunID] = r.TreatmentID
		if !r.Valid || r.AnswersOK != 96 || r.KernelDiffers != "" || r.Replay == "none" {
			t.Errorf("%s: %+v", r.TreatmentID, r)
		}
	}
	for _, b := range a.Backends() {
		if hashed := treatment[b.RunID] == "scheduler=sh"; hashed && b.AnswersOK != 96 && b.AnswersOK != 0 {
			t.Errorf("sh: %d of 96 answers by %s, of one address", b.AnswersOK, b.Backend)
		}
		if treatment[b.RunID] == "flags=sh-port,scheduler=sh" && (b.PlannedDecisions == nil || int64(*b.PlannedDecisions) != b.IPVSConnsDelta) {
			t.Errorf("sh-port: %s got %d decisions, planned %v", b.Backend, b.IPVSConnsDelta, b.PlannedDecisions)
		}
	}
	s.equalPorts(t)
	if r := s.must(0, time.Minute, "apply", "--keep", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to do") {
		t.Errorf("what was read back is not what was asked for: %s", r)
	}
	s.must(0, time.Minute, "exec", "router.nat", "--", "nft", "flush", "ruleset")
	if r := s.must(0, time.Minute, "plan", "--keep", "lab.hcl"); !strings.Contains(r.stdout, "router.nat/masquerade") {
		t.Errorf("the plan does not know that nothing masquerades: %s", r)
	}
	s.must(0, time.Minute, "apply", "--keep", "lab.hcl")
	s.must(0, time.Minute, "destroy", "--auto-approve")
}

// equalPorts asks from one port of both clients: the first keeps it, the second gets
// another one.
func (s *site) equalPorts(t *testing.T) {
	t.Helper()
	cmd, out, errOut := s.start("capture", "director.front", "-i", "outside", "-c", "2", "--", "udp dst port 53 and host 198.19.40.101")
	errOut.await(t, "listening on", time.Minute)
	for client, address := range map[string]string{"one": "198.19.41.128", "more": "198.19.41.129"} {
		s.must(0, time.Minute, "exec", "client."+client, "--", "dig", "+short", "+time=5", "-b", address+"#12345", "@198.19.40.101", "n7.small.test")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s%s", err, out, errOut)
	}
	const kept = "198.19.40.1.12345 >"
	if text := out.String(); strings.Count(text, "198.19.40.1.") != 2 || strings.Count(text, kept) != 1 || strings.Index(text, kept) > strings.LastIndex(text, "198.19.40.1.") {
		t.Errorf("two queries from port 12345: %s", text)
	}
}
