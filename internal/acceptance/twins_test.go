package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestAccForeignTwins: two users apply the same file, with the same names and
// addresses, on one libvirt at the same time. Nothing clashes, and each takes down
// his own.
func TestAccForeignTwins(t *testing.T) {
	needLab(t)
	f := startForeign(t)
	before := f.has(t)
	var users []*site
	for range 2 {
		s := newSite(t, clients("twins", "198.19.37", 1)+fmt.Sprintf("\nprovider \"libvirt\" { uri = %q }\n", f.uri()))
		if err := os.Chmod(filepath.Dir(s.dir), 0o755); err != nil { // its QEMU is another user's
			t.Fatal(err)
		}
		t.Cleanup(func() { s.run(time.Minute, "destroy", "--auto-approve", "lab.hcl") })
		users = append(users, s)
	}
	linked(t, users[0])
	var both sync.WaitGroup
	results := make([]result, len(users))
	for i, s := range users {
		both.Go(func() { results[i] = s.run(3*time.Minute, "apply", "--keep", "lab.hcl") })
	}
	both.Wait()
	for i, r := range results {
		if r.code != 0 {
			t.Errorf("user %d: %s", i, r)
		}
	}
	if n := len(f.has(t)) - len(before); n != 4 {
		t.Errorf("%d things on the libvirt, want a machine and a network for each: %v", n, f.has(t))
	}
	users[0].must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	if n := len(f.has(t)) - len(before); n != 2 {
		t.Errorf("%d things after one user has gone, want the other's machine and network: %v", n, f.has(t))
	}
	users[1].must(0, time.Minute, "exec", "client.c[0]", "--", "true")
	users[1].must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	if left := subtract(f.has(t), before); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
