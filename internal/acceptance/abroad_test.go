package acceptance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rpc "github.com/digitalocean/go-libvirt"

	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/plan/state"
)

// TestAccForeignLost: what a lab has on a libvirt of the user's own is found by its
// marks when its state is deleted or damaged, by destroy and by sweep. A stranger's
// things stay, whatever their names, and so does a lab that has a state, unless it is
// named.
func TestAccForeignLost(t *testing.T) {
	needLab(t)
	f := startForeign(t)
	sockets := socketDirs(t)
	abroadSite := func(lab, prefix string) *site {
		s := newSite(t, clients(lab, prefix, 1)+fmt.Sprintf("\nprovider \"libvirt\" { uri = %q }\n", f.uri()))
		if err := os.Chmod(filepath.Dir(s.dir), 0o755); err != nil { // its QEMU is another user's
			t.Fatal(err)
		}
		return s
	}
	kept, s := abroadSite("kept", "198.19.35"), abroadSite("lost", "198.19.36")
	linked(t, s)
	ownRegistry(t, s)
	t.Cleanup(func() { kept.run(time.Minute, "destroy", "--auto-approve", "lab.hcl") })
	kept.must(0, 3*time.Minute, "apply", "lab.hcl")
	f.strangers(t, kept)
	others := f.has(t)

	stays := func(when string, r result) {
		t.Helper()
		if diff := subtract(append(f.has(t), others...), append(others, others...)); len(diff) > 0 || len(f.has(t)) != len(others) {
			t.Errorf("%s: there is %v, there should be %v: %s", when, f.has(t), others, r)
		}
	}
	lose := func() {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(s.dir, ".lvslab")); err != nil {
			t.Fatal(err)
		}
	}
	apply := func() { s.must(0, 2*time.Minute, "apply", "lab.hcl") }

	apply()
	lose()
	stays("destroy without a state", s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl"))
	apply()
	s.write(".lvslab/lost/state.json", "{")
	r := s.must(1, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	if !strings.Contains(r.stderr, "state file is unreadable") {
		t.Errorf("destroy of a damaged state: %s", r)
	}
	stays("destroy with a damaged state", r)
	lose()

	apply()
	if r := s.must(0, time.Minute, "sweep", "--auto-approve", "--connect", f.uri()); strings.Count(r.stdout, "it has a state") != 2 {
		t.Errorf("sweep of labs with states: %s", r)
	}
	lose()
	r = s.must(0, time.Minute, "sweep", "--auto-approve", "--connect", f.uri())
	if !strings.Contains(r.stdout, "passed over  kept ("+kept.dir) || !strings.Contains(r.stdout, "removed      lost ("+s.dir) {
		t.Errorf("sweep: %s", r)
	}
	stays("sweep", r)

	// Killed before there was a machine: the network alone tells.
	cmd, _, _ := s.start("apply", "lab.hcl")
	poll(t, time.Minute, "no network", func() bool { return len(f.has(t)) > len(others) })
	killNine(t, cmd)
	lose()
	t.Logf("killed with %v", subtract(f.has(t), others))
	t.Setenv("LIBVIRT_DEFAULT_URI", f.uri())
	stays("sweep of what was begun", s.must(0, time.Minute, "sweep", "--auto-approve"))

	// One that has a state goes when it is named.
	kept.must(0, time.Minute, "sweep", "--auto-approve", "kept")
	if left := f.has(t); slices.ContainsFunc(left, func(x string) bool { return !strings.Contains(x, "stranger") }) || len(left) != 2 {
		t.Errorf("sweep of a lab by its name: %v", left)
	}
	kept.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	if left := subtract(socketDirs(t), sockets); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// strangers defines a machine and a network of somebody else, under names as the
// lab's own have.
func (f *foreign) strangers(t *testing.T, s *site) {
	t.Helper()
	st, err := state.Read(filepath.Join(s.dir, ".lvslab", "kept"))
	if err != nil {
		t.Fatal(err)
	}
	name := "lvslab-" + topo.Tag(st.Lineage) + "-stranger"
	err = f.conn.Do(context.Background(), 10*time.Second, func(l *rpc.Libvirt) error {
		_, err := l.DomainDefineXML(`<domain type="qemu"><name>` + name + `</name><memory unit="MiB">16</memory><os><type>hvm</type></os></domain>`)
		if err != nil {
			return err
		}
		_, err = l.NetworkDefineXML(`<network><name>` + name + `</name><bridge name="virbr-str" stp="off"/></network>`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
