package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"
)

// fourServers has a backend of each name server, with a key in its address that
// their configurations must quote.
const fourServers = `
lab "servers" { teardown = "on-success" }

network "wire" { cidr = "198.19.64.0/24" }

client "probe" {
  nic { network = network.wire }
}

director "front" {
  nic { network = network.wire }
}

backend "web" {
  for_each = toset(["bind", "knot", "nsd", "unbound"])
  server   = each.key
  serves   = [zone.z, zone.reverse]
  nic { network = network.wire }
}

zone "z" {
  name    = "small.test"
  records = concat([for i in range(20) : { name = "n${i}", type = "A", values = ["192.0.2.${i}"] }],
    [{ name = "long", type = "TXT", values = [for i in range(12) : join("", [for j in range(10) : "text-${i}-${j}."])] }])
}

zone "reverse" {
  name    = "0/25.2.0.192.in-addr.arpa"
  records = [{ name = "1", type = "PTR", values = ["n1.small.test."] }]
}

tunnel "up" {
  from = director.front
  to   = backend.web
}

service "s" {
  director  = director.front
  vip       = "198.19.64.101"
  scheduler = "rr"
  real_server {
    backends = backend.web
    tunnel   = tunnel.up
  }
}

service "t" {
  director  = director.front
  vip       = "198.19.64.101"
  protocol  = "tcp"
  scheduler = "rr"
  real_server {
    backends = backend.web
    tunnel   = tunnel.up
  }
}

experiment "udp" {
  service = service.s
  clients = client.probe
  load "dnsperf" {
    queries = 440
    sockets = 40
  }
  controls { direct = true }
}

experiment "tcp" {
  service = service.t
  clients = client.probe
  load "dnsperf" {
    queries = 88
    sockets = 8
    protocol = "tcp"
  }
}
`

// TestAccLongServers has one lab whose backends run BIND, knot, nsd and unbound: each
// tells who it is, answers by UDP and TCP alike, counts what it got, truncates what
// is too long, and is found and repaired when somebody has changed it.
func TestAccLongServers(t *testing.T) {
	vmtest.NeedLong(t)
	s := newSite(t, fourServers)
	began := time.Now()
	s.must(0, 4*time.Minute, "apply", "--keep", "lab.hcl")
	t.Logf("applied in %.0f s", time.Since(began).Seconds())
	result := s.latest("servers")
	planned := map[string]int{}
	for _, r := range result.Runs() {
		planned[r.RunID] = r.QueriesPlanned
		if !r.Valid || r.AnswersOK+r.AnswersTruncated != r.QueriesPlanned {
			t.Errorf("%s: %+v", r.RunID, r)
		}
		if r.Experiment == "tcp" && r.AnswersTruncated > 0 {
			t.Errorf("%s has %d truncated answers by TCP", r.RunID, r.AnswersTruncated)
		}
	}
	counted := map[string]int64{}
	for _, b := range result.Backends() {
		counted[b.RunID] += b.NamedRequests
	}
	for id, n := range planned {
		if counted[id] != int64(n) {
			t.Errorf("%s: the name servers counted %d of %d queries", id, counted[id], n)
		}
	}
	versions := result.Manifest().Versions
	if len(versions.NameServers) != 3 || versions.Named == "" || !strings.HasPrefix(versions.NameServers[`backend.web["nsd"]`], "nsd 4.") {
		t.Errorf("versions of BIND %q, of the others %q", versions.Named, versions.NameServers)
	}
	s.sameAnswers()
	s.meddledServers()
}

// sameAnswers asks each name server for what their answers could differ in.
func (s *site) sameAnswers() {
	s.t.Helper()
	for i, server := range []string{"bind", "knot", "nsd", "unbound"} {
		at := fmt.Sprintf("@198.19.64.%d", 30+i)
		for question, want := range map[string]string{
			"+short id.server CH TXT":                `"backend.web[\"` + server + `\"]"`,
			"+short hostname.bind CH TXT":            `"backend.web[\"` + server + `\"]"`,
			"+nsid n1.small.test":                    `("backend.web["` + server + `"]")`,
			"+short 1.0/25.2.0.192.in-addr.arpa PTR": "n1.small.test.",
			"+noedns +ignore long.small.test TXT":    " tc",
			"+tcp +short long.small.test TXT":        "text-11-9.",
			"+norec n1.small.test":                   "flags: qr aa;",
			"nope.small.test":                        "status: NXDOMAIN",
			"+norec elsewhere.example":               "status: REFUSED",
			"+tcp +short n7.small.test":              "192.0.2.7",
		} {
			r := s.must(0, time.Minute, "exec", "client.probe", "--", "sh", "-c", "dig +tries=1 "+at+" "+question)
			if !strings.Contains(r.stdout, want) {
				s.t.Errorf("%s: %s without %q: %s", server, question, want, r.stdout)
			}
		}
	}
}

// meddledServers changes each name server behind lvslab's back.
func (s *site) meddledServers() {
	s.t.Helper()
	again := func(program, question, mark string) string {
		return "kill -HUP $(pidof " + program + " | tr ' ' '\\n' | sort -n | head -1); for i in $(seq 100); do dig +time=1 +tries=1 @127.0.0.1 " + question +
			" | grep -q '" + mark + "' && break; [ $i -lt 100 ]; sleep 0.05; done"
	}
	for _, m := range []struct{ node, script, says string }{
		{`backend.web["nsd"]`, "cd /run/nsd/zones; cp -p small.test.zone /tmp/was; sed -i '/SOA/s/ 1 / 2 /' small.test.zone; " + again("nsd", "small.test SOA", " 2 ") + "; cp -p /tmp/was small.test.zone",
			`backend.web["nsd"]/dns`},
		{`backend.web["knot"]`, "sed -i 's/192.0.2.7$/192.0.2.77/' /run/knot/zones/small.test.zone", `backend.web["knot"]/dns`},
		{`backend.web["unbound"]`, "echo '# so' >> /run/unbound/unbound.conf", "unbound.conf has been rewritten"},
	} {
		s.must(0, time.Minute, "exec", m.node, "--", "sh", "-ec", m.script)
	}
	r := s.must(2, time.Minute, "plan", "--detailed-exitcode", "--keep", "lab.hcl")
	for _, says := range []string{`backend.web["nsd"]/dns`, `backend.web["knot"]/dns`, "unbound.conf has been rewritten"} {
		if !strings.Contains(r.stdout, says) {
			s.t.Errorf("the plan does not say %q: %s", says, r)
		}
	}
	s.must(0, time.Minute, "exec", `backend.web["nsd"]`, "--", "sh", "-c", "kill -9 $(pidof nsd)")
	if r := s.must(2, time.Minute, "plan", "--detailed-exitcode", "--keep", "lab.hcl"); !strings.Contains(r.stdout, "nsd does not run") {
		s.t.Errorf("nsd was killed: %s", r)
	}
	s.must(0, 2*time.Minute, "apply", "--keep", "--auto-approve", "lab.hcl")
	s.must(0, time.Minute, "plan", "--detailed-exitcode", "--keep", "lab.hcl")
}
