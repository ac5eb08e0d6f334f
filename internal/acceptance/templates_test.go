package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/hypervisor"
)

// clients is a lab of n machines with one template: nothing is forwarded.
func clients(lab, prefix string, n int) string {
	return fmt.Sprintf(`
lab %q {
  teardown = "on-success"
}

network "wire" { cidr = "%s.0/24" }

client "c" {
  count = %d
  nic { network = network.wire }
}
`, lab, prefix, n)
}

// ownRegistry gives the test a registry of its own, so that a sweep sees
// nothing of other labs.
func ownRegistry(t *testing.T, s *site) {
	t.Helper()
	t.Setenv("LVSLAB_REGISTRY", filepath.Join(t.TempDir(), "registry"))
	t.Cleanup(func() { s.run(time.Minute, "destroy", "--auto-approve", "lab.hcl") })
}

// making is a template that a process is making.
type making struct {
	dir    string
	holder hypervisor.Entry
}

// awaitMaking waits until a template is made in another directory than before.
func awaitMaking(t *testing.T, cache, before string) making {
	t.Helper()
	var m making
	poll(t, 30*time.Second, "no template is being made", func() bool {
		_, dirs := templatesIn(t, cache)
		entries, err := hypervisor.List(context.Background())
		if err != nil || len(dirs) == 0 || dirs[0] == before {
			return false
		}
		m.dir = dirs[0]
		for _, e := range entries {
			if e.LabDir == m.dir && e.PID != 0 {
				m.holder = e
				return true
			}
		}
		return false
	})
	return m
}

// awaitSaving waits until the machine's memory is being written.
func (m making) awaitSaving(t *testing.T) {
	t.Helper()
	poll(t, 60*time.Second, "the machine is not being saved", func() bool {
		files, _ := filepath.Glob(filepath.Join(m.dir, "memory*"))
		for _, f := range files {
			if info, err := os.Stat(f); err == nil && info.Size() > 1<<20 {
				return true
			}
		}
		return false
	})
}

// gone demands that no process of the template's hypervisor is left: the end
// of its PID 1 is the end of all.
func (m making) gone(t *testing.T) {
	t.Helper()
	poll(t, 5*time.Second, "the template's hypervisor lives on", func() bool {
		_, status, err := hypervisor.Find(context.Background(), m.holder.Lineage)
		return err == nil && status == hypervisor.Gone
	})
}

// forgotten demands that neither its files nor its entry are left.
func (m making) forgotten(t *testing.T) {
	t.Helper()
	for _, path := range []string{m.dir, m.holder.Path} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left: %s, %v", path, err)
		}
	}
}

func killNine(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// TestAccTemplateIsMadeOnce: a sweep leaves alone what a living process makes.
// One that is killed while it saves leaves no process; what it has written goes
// with a sweep, and with the next apply. Two applies at once make one template.
func TestAccTemplateIsMadeOnce(t *testing.T) {
	s := newSite(t, clients("once", "198.19.22", 1))
	cache := linked(t, s)
	ownRegistry(t, s)
	cmd, _, _ := s.start("apply", "lab.hcl")
	m := awaitMaking(t, cache, "")
	r := s.must(0, time.Minute, "sweep", "--auto-approve")
	if want := fmt.Sprintf("process %d is making a template in it", cmd.Process.Pid); !strings.Contains(r.stdout, want) || !strings.Contains(r.stdout, "Nothing to sweep") {
		t.Errorf("sweep beside a living maker: %s", r)
	}
	m.awaitSaving(t)
	killNine(t, cmd)
	m.gone(t)
	kept := keep(t, s, m)
	if files, _ := templatesIn(t, cache); len(files) > 0 {
		t.Errorf("half a template counts: %v", files)
	}
	r = s.must(0, time.Minute, "sweep", "--auto-approve")
	if !strings.Contains(r.stdout, "left over    unfinished template "+m.dir) {
		t.Errorf("sweep after its maker: %s", r)
	}
	m.forgotten(t)

	// The same leftover is removed by the next who makes one. He is killed too,
	// and something keeps his hypervisor from ending with him.
	kept.putBack(t)
	cmd, _, _ = s.start("apply", "--auto-approve", "lab.hcl")
	second := awaitMaking(t, cache, m.dir)
	m.forgotten(t)
	if err := syscall.Kill(second.holder.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	killNine(t, cmd)
	r = s.must(0, time.Minute, "sweep", "--auto-approve")
	if !strings.Contains(r.stdout, "removed      template, verified") {
		t.Errorf("sweep of a hypervisor that outlives its maker: %s", r)
	}
	second.gone(t)
	second.forgotten(t)

	made, waited := twoAtOnce(t, s, newSite(t, clients("again", "198.19.23", 1)))
	if files, left := templatesIn(t, cache); made != 1 || waited == 0 || len(files) != 1 || len(left) > 0 {
		t.Errorf("made %d times, waited for %d times, templates %v, unfinished %v", made, waited, files, left)
	}
}

// twoAtOnce applies two labs at the same time and returns how many templates
// were made, and how often one waited for the other.
func twoAtOnce(t *testing.T, sites ...*site) (made, waited int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, one := range sites {
		wg.Go(func() {
			r := one.run(5*time.Minute, "apply", "--json", "--auto-approve", "lab.hcl")
			if r.code != 0 || !strings.Contains(r.stdout, "1 machines cloned") {
				t.Errorf("apply: %s", r)
			}
			mu.Lock()
			defer mu.Unlock()
			made += strings.Count(r.stdout, "a machine boots and is saved")
			waited += strings.Count(r.stdout, "waiting for process")
		})
	}
	wg.Wait()
	for _, one := range sites {
		one.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	}
	return made, waited
}

// remains are what a killed maker has left.
type remains struct {
	making
	copy  string
	entry []byte
}

func keep(t *testing.T, s *site, m making) remains {
	t.Helper()
	r := remains{making: m, copy: filepath.Join(t.TempDir(), "remains")}
	var err error
	if r.entry, err = os.ReadFile(m.holder.Path); err != nil {
		t.Errorf("the registry has no entry of the killed one: %v", err)
	}
	if err := os.CopyFS(r.copy, os.DirFS(m.dir)); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r remains) putBack(t *testing.T) {
	t.Helper()
	err := errors.Join(os.CopyFS(r.dir, os.DirFS(r.copy)), os.MkdirAll(filepath.Dir(r.holder.Path), 0o755), os.WriteFile(r.holder.Path, r.entry, 0o644))
	if err != nil {
		t.Fatal(err)
	}
}
