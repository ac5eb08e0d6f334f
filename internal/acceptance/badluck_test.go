package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/agent/binary"
	"github.com/lvslab/lvslab/internal/artifact"
)

// TestAccMachineDiesDuringRuns kills the virtual machine of the only backend in
// the middle of a study, and then the hypervisor in the middle of another: the
// machine is named, what was measured is kept, and nothing is left behind.
func TestAccMachineDiesDuringRuns(t *testing.T) {
	s := newSite(t, small("victim", "198.19.12", study))
	r := s.during("4/80", func() { kill(t, s, "guest=", "backend-web") }, "apply", "lab.hcl")
	if r.code != 1 || !strings.Contains(r.stderr, "backend.web") {
		t.Errorf("apply whose backend died: %s", r)
	}
	if !strings.Contains(r.stdout, "lvslab destroy") {
		t.Errorf("the lab is kept without saying how to remove it: %s", r)
	}
	n := s.partialWithRuns("victim", 3)
	// The machine is missed, made anew with what was inside it, and the study
	// continues; this time the hypervisor dies.
	r = s.during(fmt.Sprintf("%d/80", n+2), func() {
		if err := syscall.Kill(holderPID(t, s), syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}, "apply", "--auto-approve", "lab.hcl")
	if !strings.Contains(r.stdout, "backend.web/domain will be created") {
		t.Errorf("the dead machine was not missed: %s", r)
	}
	if r.code != 1 {
		t.Errorf("apply whose hypervisor died: %s", r)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}

// TestAccMachineNeverSpeaks boots machines whose first program is garbage: the
// panic is noticed at once, the boot is tried once more, the console is shown.
func TestAccMachineNeverSpeaks(t *testing.T) {
	s := newSite(t, small("mute", "198.19.13", ""))
	t.Setenv("LVSLAB_CACHE", spoiltCache(t))
	r := s.run(5*time.Minute, "apply", "lab.hcl")
	if r.code != 1 {
		t.Fatalf("apply of machines that can't boot: %s", r)
	}
	for _, want := range []string{"did not come up", "Kernel panic", "booted once more"} {
		if !strings.Contains(strings.Join(strings.Fields(r.stderr), " "), want) {
			t.Errorf("%q is not in the message: %s", want, r)
		}
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}

// TestAccExitCodes: a failed check is a result, so the lab goes and the code is
// 3; the outputs stay, and so does the second apply's word that all is done.
func TestAccExitCodes(t *testing.T) {
	short := strings.Replace(study, "iterations = 40", "iterations = 1", 1)
	s := newSite(t, small("codes", "198.19.14", short+`
check "impossible" {
  assert {
    condition     = experiment.load.answers_ok < 0
    error_message = "There were ${experiment.load.answers_ok} answers."
  }
}
`))
	r := s.must(3, 5*time.Minute, "apply", "--junit", "junit.xml", "lab.hcl")
	if !strings.Contains(r.stdout, "There were 400 answers.") {
		t.Errorf("the check's message is missing: %s", r)
	}
	if b, err := os.ReadFile(filepath.Join(s.dir, "junit.xml")); err != nil || !strings.Contains(string(b), "impossible") {
		t.Errorf("junit.xml: %v\n%s", err, b)
	}
	if err := os.Remove(filepath.Join(s.dir, "junit.xml")); err != nil {
		t.Fatal(err)
	}
	if left := s.own(); len(left) > 0 {
		t.Errorf("torn down, yet left: %v", left)
	}
	if m := s.latest("codes").Manifest(); m.ExitCode != 3 || m.Outcome != "check failed" || m.Timings.DestroyedS == nil {
		t.Errorf("manifest: exit %d, outcome %q, destroyed %v", m.ExitCode, m.Outcome, m.Timings.DestroyedS)
	}
	s.must(0, time.Minute, "output", "--raw", "answers")
	if r := s.must(0, time.Minute, "apply", "lab.hcl"); !strings.Contains(r.stdout, "the study is complete") {
		t.Errorf("second apply: %s", r)
	}
}

// during runs lvslab and does something when a text has appeared in its output.
func (s *site) during(text string, do func(), args ...string) result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	cmd, out, errOut := s.command(ctx, args...)
	w := &watcher{mu: &sync.Mutex{}, buf: out}
	cmd.Stdout = w
	began := time.Now()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	w.await(s.t.(*testing.T), text, 5*time.Minute)
	do()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return result{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errOut.String(), took: time.Since(began)}
}

// kill ends this site's process whose command line holds all marks.
func kill(t *testing.T, s *site, marks ...string) {
	t.Helper()
	for _, pid := range s.pids(marks...) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		return
	}
	t.Errorf("no process with %v", marks)
}

// partialWithRuns demands one partial result with at least n whole runs, and
// returns how many it has.
func (s *site) partialWithRuns(lab string, n int) int {
	s.t.Helper()
	partial, _ := filepath.Glob(filepath.Join(s.dir, "results", lab, "*.partial"))
	if len(partial) != 1 {
		s.t.Fatalf("partial results: %v", partial)
	}
	a, err := artifact.Open(partial[0])
	if err != nil || len(a.Runs()) < n {
		s.t.Fatalf("partial result: %v", err)
	}
	return len(a.Runs())
}

// spoiltCache is a copy of the image whose initramfs, the one that lvslab is
// going to use, is garbage.
func spoiltCache(t *testing.T) string {
	t.Helper()
	from, err := images.DefaultCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := os.CopyFS(filepath.Join(to, "images"), os.DirFS(filepath.Join(from, "images"))); err != nil {
		t.Fatal(err)
	}
	img, ok, err := images.Cached(images.Debian12, to)
	if err != nil || !ok {
		t.Fatalf("no image in the cache: %v", err)
	}
	agent, err := binary.Sum()
	if err != nil {
		t.Fatal(err)
	}
	initrd := images.InitrdPath(img, agent, to)
	if err := os.MkdirAll(filepath.Dir(initrd), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(initrd, make([]byte, 4096), 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
