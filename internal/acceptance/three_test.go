package acceptance

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// smallest is the smallest lab that has a director.
func smallest(lab, prefix string) string {
	return clients(lab, prefix, 1) + `
director "front" {
  nic { network = network.wire }
}
`
}

// TestAccThreeLabs starts three labs together on one machine, two of them of the
// same topology in different directories: the same names, the same addresses.
// Nothing clashes, and each destroys only its own.
func TestAccThreeLabs(t *testing.T) {
	labs := []*site{newSite(t, smallest("left", "198.19.34")), newSite(t, smallest("left", "198.19.34")), newSite(t, smallest("right", "198.19.34"))}
	var wg sync.WaitGroup
	for _, s := range labs {
		wg.Go(func() {
			if r := s.run(4*time.Minute, "apply", "--keep", "lab.hcl"); r.code != 0 {
				t.Errorf("apply: %s", r)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	boots := map[string]bool{}
	for _, s := range labs {
		for _, node := range []string{"client.c[0]", "director.front"} {
			boots[s.must(0, time.Minute, "exec", node, "--", "cat", "/proc/sys/kernel/random/boot_id").stdout] = true
		}
		// What has that address here is this lab's own director.
		mac := strings.TrimSpace(s.must(0, time.Minute, "exec", "director.front", "--", "cat", "/sys/class/net/wire/address").stdout)
		r := s.must(0, time.Minute, "exec", "client.c[0]", "--", "sh", "-c",
			fmt.Sprintf("ping -c 1 -w 5 %s > /dev/null; ip neigh", strings.Fields(s.must(0, time.Minute, "exec", "director.front", "--", "sh", "-c",
				"ip -4 -br addr show wire | sed 's,.* \\([0-9.]*\\)/.*,\\1,'").stdout)[0]))
		if !strings.Contains(r.stdout, mac) {
			t.Errorf("the client's neighbour is not the director with %s: %s", mac, r)
		}
	}
	if len(boots) != 6 {
		t.Errorf("%d boots of 6 machines", len(boots))
	}
	for i, s := range labs {
		s.must(0, time.Minute, "destroy", "--auto-approve")
		if left := s.own(); len(left) > 0 {
			t.Errorf("left of lab %d: %v", i, left)
		}
		for _, other := range labs[i+1:] {
			if r := other.must(0, time.Minute, "plan", "--keep", "--detailed-exitcode", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to do") {
				t.Errorf("lab %d was destroyed, and another one misses something: %s", i, r)
			}
		}
	}
}
