package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/symptom"
)

// TestAccSymptoms plants each symptom on a real lab: each is named at its place and
// nothing else is, and the lab is healthy and as declared after all were taken back.
// One that is planted by other hands is found, too, and repaired by an apply, and one
// whose command was killed is taken back by the next.
func TestAccSymptoms(t *testing.T) {
	const prefix = "198.19.37"
	s := newSite(t, pair("sick", prefix))
	s.must(0, 4*time.Minute, "apply", "lab.hcl")
	r := s.must(0, 4*time.Minute, "doctor", "--inject", "all", "lab.hcl")
	t.Logf("all symptoms after %.1f s:\n%s", r.took.Seconds(), r.stdout)
	for _, name := range symptom.Plantable {
		at := "backend.web[0]"
		if name == symptom.VIPNotLocal || name == symptom.StaleEntries {
			at = "director.front"
		}
		if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), string(name)+" "+at+" named ") {
			t.Errorf("%s at %s was not named", name, at)
		}
	}
	if r := s.run(time.Minute, "plan", "--detailed-exitcode", "lab.hcl"); r.code != 0 {
		t.Errorf("not all was taken back: %s", r)
	}

	s.must(0, time.Minute, "exec", "backend.web[1]", "--", "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=0")
	if r := s.must(3, time.Minute, "doctor", "lab.hcl"); !strings.Contains(r.stdout, "arp") || !strings.Contains(r.stdout, "backend.web[1]") ||
		!strings.Contains(r.stdout, "1 difference") {
		t.Errorf("a symptom by other hands: %s", r)
	}
	s.must(0, time.Minute, "apply", "--auto-approve", "lab.hcl")
	// The client may have learnt the other MAC, which no setting takes from it.
	s.must(0, time.Minute, "exec", "client.probe", "--", "ip", "neigh", "flush", "dev", "wire")

	cmd, out, _ := s.start("doctor", "--inject", "rp-filter", "lab.hcl")
	out.await(t, "planting rp-filter", time.Minute)
	killNine(t, cmd)
	if r := s.must(0, time.Minute, "doctor", "lab.hcl"); !strings.Contains(r.stdout, "is taken back") {
		t.Errorf("after a kill: %s", r)
	}
	s.answers(prefix)
}
