package acceptance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/sighting"
)

// household has two clients, one of them with three addresses, behind a router that
// masquerades, the director and two backends outside, and another backend behind the
// director, which translates for that one.
const household = `
lab "household" { teardown = "on-success" }

network "outside" { cidr = "198.19.40.0/24" }
network "home" { cidr = "198.19.41.0/24" }
network "inside" { cidr = "198.19.44.0/24" }

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
  nic { network = network.inside }
}

backend "deep" {
  serves = [zone.z]
  nic { network = network.inside }
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

service "deep" {
  director  = director.front
  vip       = "198.19.40.102"
  scheduler = "rr"
  forward   = "masquerade"
  real_server { backends = backend.deep }
}

check "whole" {
  assert {
    condition     = alltrue([for p in concat(service.dns.paths, service.deep.paths) : p.whole && length(p.defects) == 0])
    error_message = "A path has a gap or a defect."
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
	translated(t, a, func(own, outside uint16) bool { return own == outside })
	if r := s.must(0, time.Minute, "apply", "--keep", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to do") {
		t.Errorf("what was read back is not what was asked for: %s", r)
	}
	// A rule before lvslab's, by which the router draws a port for each flow, leaves paths
	// whole, too. The counts of the
	// runs are those of other ports then, and no matter here.
	s.must(0, time.Minute, "exec", "router.nat", "--", "sh", "-ec", `nft add table ip drawn
		nft add chain ip drawn post '{ type nat hook postrouting priority 90; }'; nft add rule ip drawn post oifname outside masquerade fully-random`)
	s.run(4*time.Minute, "run", "lab.hcl")
	translated(t, s.latest("household"), func(own, outside uint16) bool { return own != outside })
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

// translated looks at the paths through both translations: every hop is there, the
// router's address and port are those of the client outside, and the director's in place
// of the real server's only for the service that masquerades. ports says whether what the
// router made of the client's port is as it should be; one in four may be otherwise, as
// two clients may draw the same and a drawn one may be the client's own.
func translated(t *testing.T, a *artifact.Artifact, ports func(own, outside uint16) bool) {
	t.Helper()
	proofs, err := sighting.ProofsOf(a)
	if err != nil {
		t.Fatal(err)
	}
	paths := proofs.All().Paths
	if len(paths) != 2*2+2*1 {
		t.Errorf("%d paths, want one of each client to each backend", len(paths))
	}
	otherwise := 0
	for _, p := range paths {
		var hops []string
		for _, h := range p.Hops {
			hops = append(hops, h.Node+" "+h.Direction+" "+h.Leg)
		}
		q, r := " query", " answer"
		want := []string{p.Client + " out" + q, "router.nat in" + q, "router.nat out" + q, "director.front in" + q, "director.front out" + q, p.Backend + " in" + q, p.Backend + " out" + r}
		if p.Forward == "masquerade" {
			want = append(want, "director.front in"+r, "director.front out"+r)
		}
		want = append(want, "router.nat in"+r, "router.nat out"+r, p.Client+" in"+r)
		if !p.Whole || len(p.Defects) > 0 || p.Source != p.VIP || !slices.Equal(hops, want) {
			t.Errorf("%s → %s: whole %v, defects %v, from %s, hops %q, want %q", p.Client, p.Backend, p.Whole, p.Defects, p.Source, hops, want)
			continue
		}
		for i, h := range p.Hops {
			inner := h.Headers[len(h.Headers)-1]
			end, port := inner.Source, h.SourcePort
			if h.Leg == sighting.Answer {
				end, port = inner.Destination, h.DestPort
			}
			outside := i >= 2 && i < len(p.Hops)-2
			if outside != (end.String() == "198.19.40.1") || outside != (port == p.Hops[2].SourcePort) && p.Hops[2].SourcePort != p.Port || !outside && port != p.Port {
				t.Errorf("%s → %s, hop %d: the client is %s port %d, its own is %d", p.Client, p.Backend, i, end, port, p.Port)
			}
		}
		if !ports(p.Port, p.Hops[2].SourcePort) {
			otherwise++
		}
	}
	if otherwise > len(paths)/4 {
		t.Errorf("%d of %d paths have another port outside than they should", otherwise, len(paths))
	}
}
