package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What plan and apply say of the connection table.
const (
	pins    = "Existing connections keep their backend"
	drops   = "Connections of a removed real server are dropped"
	flushes = "its connection entries are flushed"
	remedy  = "lvslab apply --replace 'service.s'"
)

// lives are edits of a lab that is up, each of the first topology; what plan and
// apply say of it; and how it is seen inside.
var lives = []struct {
	name, old, new, says string
	node, script, then   string
}{
	{"weights", "weight   = var.weight", "weight   = 4", pins, "director.front", "ipvsadm -Sn", "-w 4"},
	{"scheduler", `scheduler = "rr"`, `scheduler = "wrr"`, pins, "director.front", "ipvsadm -Sn", "-s wrr"},
	{"one_packet", "forward   =", "one_packet = true\n  forward   =", pins, "director.front", "ipvsadm -Sn", "-o"},
	{"timeout", `"60s"`, `"20s"`, "timeouts.udp: changed in the topology", "director.front", "ipvsadm -L --timeout", " 20"},
	{"zone", "192.0.2.${i}", "192.0.2.1${i}", `zones["small.test"]: changed in the topology`, "backend.web[1]", "dig +short @127.0.0.1 n7.small.test", "192.0.2.17"},
	{"impairment", "client \"probe\" {\n  nic { network = network.wire }", "client \"probe\" {\n  nic {\n    network = network.wire\n    impair {\n      delay = \"3ms\"\n    }\n  }",
		"impair: changed in the topology", "client.probe", "tc qdisc show dev wire", "delay 3ms"},
	{"a backend more", "count = 2", "count = 3", flushes, "director.front", "ipvsadm -Sn", ".32:53"},
	{"a backend less", "", "", drops, "director.front", "ipvsadm -Sn", ".31:53"},
}

// TestAccLive changes a lab that is up by applying edited topologies: nothing that
// stays is booted again, and what the connection table pins is told and can be
// flushed.
func TestAccLive(t *testing.T) {
	const prefix = "198.19.32"
	first := pair("living", prefix, `scheduler = "rr"`, "scheduler = \"rr\"\n  timeout   = { udp = \"60s\" }")
	s := newSite(t, first)
	s.must(0, 4*time.Minute, "apply", "lab.hcl")
	before := s.boots()
	var pinned string
	for _, c := range lives {
		text := first
		if c.old != "" {
			text = strings.Replace(first, c.old, c.new, 1)
		}
		s.write("lab.hcl", text)
		r := s.must(2, time.Minute, "plan", "--detailed-exitcode", "lab.hcl")
		if said := words(r.stdout + r.stderr); !strings.Contains(said, c.says) || !strings.Contains(said, " 0 to replace") {
			t.Errorf("plan of %s, want %q: %s", c.name, c.says, r)
		}
		r = s.must(0, 2*time.Minute, "apply", "--auto-approve", "lab.hcl")
		said := words(r.stdout + r.stderr)
		if warned := strings.Contains(said, remedy); !strings.Contains(said, c.says) || warned != (c.says == pins || c.says == drops) {
			t.Errorf("apply of %s, want %q: %s", c.name, c.says, r)
		}
		if r := s.run(time.Minute, "exec", c.node, "--", "sh", "-c", c.script); !strings.Contains(r.stdout, c.then) {
			t.Errorf("%s: %s on %s, want %q: %s", c.name, c.script, c.node, c.then, r)
		}
		s.must(0, time.Minute, "plan", "--detailed-exitcode", "lab.hcl")
		if c.name == "a backend more" {
			pinned = s.portTo(prefix, "backend.web[2]")
		}
	}
	if after := s.boots(); after != before {
		t.Errorf("a machine that stays was booted again:\n%s\n%s", before, after)
	}
	// The entry leads nowhere, until the service is made anew without it.
	if got := s.identity(prefix, pinned); strings.Contains(got, "backend") {
		t.Errorf("port %s of a removed backend is answered by %s", pinned, got)
	}
	s.must(0, time.Minute, "apply", "--auto-approve", "--replace", "service.s", "lab.hcl")
	if got := s.identity(prefix, pinned); !strings.Contains(got, "backend") {
		t.Errorf("port %s after the service was made anew: %s", pinned, got)
	}
	if after := s.boots(); after != before {
		t.Errorf("--replace of a service booted a machine:\n%s\n%s", before, after)
	}
}

// boots returns the boot ids of the machines that stay.
func (s *site) boots() string {
	s.t.Helper()
	var all strings.Builder
	for _, n := range []string{"client.probe", "director.front", "backend.web[0]", "backend.web[1]"} {
		all.WriteString(s.must(0, time.Minute, "exec", n, "--", "cat", "/proc/sys/kernel/random/boot_id").stdout)
	}
	return all.String()
}

// identity asks from a source port under the VIP who answers.
func (s *site) identity(prefix, port string) string {
	s.t.Helper()
	return s.run(time.Minute, "exec", "client.probe", "--", "dig", "+short", "+time=1", "+tries=1", "-b", prefix+".128#"+port, "@"+prefix+".101", "id.server", "CH", "TXT").stdout
}

// portTo finds a source port whose entry leads to that backend.
func (s *site) portTo(prefix, backend string) string {
	s.t.Helper()
	for port := 5300; port < 5306; port++ {
		if text := fmt.Sprint(port); strings.Contains(s.identity(prefix, text), backend) {
			return text
		}
	}
	s.t.Errorf("no source port leads to %s", backend)
	return ""
}

// TestAccLoan kills a study amid its runs: what it had borrowed is a loan for a
// plan, not drift, and the next apply gives it back.
func TestAccLoan(t *testing.T) {
	text := pair("lending", "198.19.33", `scheduler = "rr"`, `scheduler = "wrr"`)
	s := newSite(t, text)
	s.must(0, 4*time.Minute, "apply", "lab.hcl")
	s.write("study.hcl", text+study)
	loan := func(says string) {
		t.Helper()
		if r := s.must(0, time.Minute, "exec", "director.front", "--", "ipvsadm", "-Sn"); strings.Contains(r.stdout, "-s wrr") {
			t.Errorf("nothing is borrowed: %s", r)
		}
		for _, file := range []string{"study.hcl", "lab.hcl"} {
			r := s.must(0, time.Minute, "plan", file)
			if said := words(r.stdout + r.stderr); !strings.Contains(said, "experiment.load "+says) || strings.Contains(said, "outside") || strings.Contains(said, "service.s/ipvs will") {
				t.Errorf("plan of %s with a loan, want %q: %s", file, says, r)
			}
		}
	}
	cmd, out, _ := s.start("apply", "study.hcl")
	out.await(t, "3/80", 2*time.Minute)
	loan("has borrowed the services of director.front")
	killNine(t, cmd)
	loan("had borrowed the services of director.front when it was ended")
	s.must(0, time.Minute, "apply", "lab.hcl")
	if r := s.must(0, time.Minute, "exec", "director.front", "--", "ipvsadm", "-Sn"); !strings.Contains(r.stdout, "-s wrr") {
		t.Errorf("the service was not given back: %s", r)
	}
	if r := s.must(0, time.Minute, "plan", "--detailed-exitcode", "lab.hcl"); strings.Contains(r.stdout+r.stderr, "borrowed") {
		t.Errorf("a loan that was given back: %s", r)
	}
}
