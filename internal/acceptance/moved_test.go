package acceptance

import (
	"strings"
	"testing"
	"time"
)

// TestAccMoved renames the blocks of a lab that is up: the machines stay the
// same, what was meddled with is found and can be accepted, and what the state
// was made to forget is taken up again.
func TestAccMoved(t *testing.T) {
	topology := small("moved", "198.19.24", "")
	s := newSite(t, topology)
	s.must(0, 4*time.Minute, "apply", "lab.hcl")
	boot := func(node string) string {
		return s.must(0, time.Minute, "exec", node, "--", "cat", "/proc/sys/kernel/random/boot_id").stdout
	}
	web, probe := boot("backend.web"), boot("client.probe")

	renamed := strings.NewReplacer("backend.web", "backend.site[0]", `backend "web" {`, "backend \"site\" {\n  count = 1", "client.probe", "client.asker", `client "probe"`, `client "asker"`,
		"network.wire", "network.net", `network "wire"`, `network "net"`).Replace(topology)
	for _, m := range [][2]string{{"backend.web", "backend.site[0]"}, {"client.probe", "client.asker"}, {"network.wire", "network.net"}} {
		renamed += "moved {\n  from = " + m[0] + "\n  to   = " + m[1] + "\n}\n"
	}
	s.write("lab.hcl", renamed)
	r := s.must(2, time.Minute, "plan", "--detailed-exitcode", "lab.hcl")
	if !strings.Contains(r.stdout, "# backend.web has moved to backend.site[0]") || !strings.Contains(r.stdout, "0 to create, 1 to change, 0 to replace, 0 to delete") {
		t.Errorf("plan of renamed blocks: %s", r)
	}
	s.must(0, time.Minute, "apply", "lab.hcl")
	if boot("backend.site[0]") != web || boot("client.asker") != probe {
		t.Error("a renamed machine is another one")
	}
	r = s.must(0, time.Minute, "exec", "client.asker", "--", "dig", "+short", "+time=5", "@198.19.24.101", "id.server", "CH", "TXT")
	if strings.TrimSpace(r.stdout) != `"backend.site[0]"` {
		t.Errorf("identity of the renamed backend: %s", r)
	}
	s.must(0, time.Minute, "plan", "--detailed-exitcode", "lab.hcl")

	s.must(0, time.Minute, "exec", "director.front", "--", "ipvsadm", "-E", "-u", "198.19.24.101:53", "-s", "sed")
	if r := s.must(2, time.Minute, "plan", "--refresh-only", "--detailed-exitcode", "lab.hcl"); !strings.Contains(r.stdout, `"rr" -> "sed"`) {
		t.Errorf("a changed scheduler was not found: %s", r)
	}
	s.must(0, time.Minute, "apply", "--refresh-only", "lab.hcl")
	s.must(0, time.Minute, "plan", "--refresh-only", "--detailed-exitcode", "lab.hcl")
	if r := s.must(0, time.Minute, "apply", "lab.hcl"); !strings.Contains(r.stdout, `"sed" -> "rr"`) {
		t.Errorf("what was accepted is not put right: %s", r)
	}

	s.must(0, time.Minute, "state", "rm", "client.asker")
	s.must(0, time.Minute, "apply", "lab.hcl")
	if boot("client.asker") != probe {
		t.Error("what was forgotten was not taken up again")
	}
}
