package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// awaitPipe waits until a machine of the site's lab is being restored, and
// returns the holder's process.
func (s *site) awaitPipe(t *testing.T) int {
	t.Helper()
	holder := 0
	poll(t, 2*time.Minute, "no machine is being restored", func() bool {
		if holder == 0 {
			holder = s.holder()
		}
		return holder != 0 && len(pipesOf(holder)) > 0
	})
	return holder
}

// holder returns the process that the state names, 0 while it names none.
func (s *site) holder() int {
	matches, _ := filepath.Glob(filepath.Join(s.dir, ".lvslab", "*", "state.json"))
	var st struct {
		Hypervisor struct {
			PID int `json:"pid"`
		} `json:"hypervisor"`
	}
	if len(matches) != 1 {
		return 0
	}
	text, err := os.ReadFile(matches[0])
	if err != nil || json.Unmarshal(text, &st) != nil {
		return 0
	}
	return st.Hypervisor.PID
}

// pipesOf lists the FIFOs that machines are restored through.
func pipesOf(holder int) []string {
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/run/lvslab/tmp/*.pipe", holder))
	return found
}

// whole demands that n machines run and answer, and that nothing is left of
// how they were restored.
func (s *site) whole(t *testing.T, n int) {
	t.Helper()
	if qemus := s.pids("guest="); len(qemus) != n {
		t.Errorf("%d machines, want %d", len(qemus), n)
	}
	if pipes := pipesOf(s.holder()); len(pipes) > 0 {
		t.Errorf("pipes: %v", pipes)
	}
	for i := range n {
		s.must(0, time.Minute, "exec", fmt.Sprintf("client.c[%d]", i), "--", "true")
	}
}

// TestAccRestoreCutShort: lvslab is killed while it feeds machines, QEMU is
// killed while it is fed, and libvirtd. The next apply mends the first, the
// second machine is booted, the third is said; nobody waits for anything.
func TestAccRestoreCutShort(t *testing.T) {
	s := newSite(t, clients("short", "198.19.25", 2))
	cmd, _, _ := s.start("apply", "lab.hcl")
	s.awaitPipe(t)
	killNine(t, cmd)
	r := s.must(0, 2*time.Minute, "apply", "--auto-approve", "lab.hcl")
	if strings.Contains(r.stderr, "Booting instead of restoring") {
		t.Errorf("apply after a killed one: %s", r)
	}
	s.whole(t, 2)
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")

	// Stopped, so that it cannot have fed the machine to its end.
	cmd, out, errOut := s.start("apply", "lab.hcl")
	var qemus []int
	poll(t, time.Minute, "no QEMU waits for a machine", func() bool {
		qemus = s.pids("guest=", "-incoming")
		return len(qemus) > 0
	})
	stopped := []error{cmd.Process.Signal(syscall.SIGSTOP), syscall.Kill(qemus[0], syscall.SIGKILL), cmd.Process.Signal(syscall.SIGCONT)}
	err := cmd.Wait()
	said := strings.Join(strings.Fields(errOut.String()), " ")
	if err != nil || !strings.Contains(out.String(), "1 machines cloned, 1 started") || !strings.Contains(said, "could not be cloned: it is booted") {
		t.Errorf("QEMU killed in the middle (%v): %v\n%s\n%s", stopped, err, out, errOut)
	}
	s.whole(t, 2)
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")

	cmd, out, errOut = s.start("apply", "lab.hcl")
	holder := s.awaitPipe(t)
	if err := syscall.Kill(libvirtdOf(t, holder), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	_ = cmd.Wait() // the code tells
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errOut.String(), "libvirtd of lab short died") || time.Since(killed) > 20*time.Second {
		t.Errorf("libvirtd killed in the middle: exit %d after %s\n%s\n%s", code, time.Since(killed), out, errOut)
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}
