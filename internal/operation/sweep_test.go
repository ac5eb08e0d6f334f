package operation

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lvslab/lvslab/internal/hypervisor"
)

// heard keeps the notices.
type heard struct{ lines []string }

func (h *heard) Emit(e Event) {
	if n, ok := e.(NoticeEvent); ok {
		h.lines = append(h.lines, n.Text)
	}
}

// process is a process of the test's own that lives until it is killed.
type process struct {
	*exec.Cmd
	start uint64
	ended chan struct{}
}

// kill ends it and waits until it has been reaped.
func (p process) kill() {
	_ = p.Process.Kill()
	<-p.ended
}

// alive does not count one that has ended and waits to be reaped: state Z or X,
// field 3 of /proc/PID/stat.
func (p process) alive() bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Process.Pid), "stat"))
	_, after, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

func newProcess(t *testing.T) process {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := process{cmd, startTime(t, cmd.Process.Pid), make(chan struct{})}
	go func() { _ = cmd.Wait(); close(p.ended) }()
	t.Cleanup(p.kill)
	return p
}

// startTime is field 22 of /proc/PID/stat.
func startTime(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	n, err := strconv.ParseUint(strings.Fields(after)[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// inTheMaking registers a process as the hypervisor that maker makes a template in,
// and returns the template's directory.
func inTheMaking(t *testing.T, cache, lineage string, holder, maker process) string {
	t.Helper()
	dir := filepath.Join(cache, "templates", ".build-"+lineage)
	boot, err := hypervisor.BootID()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(hypervisor.Holder{
		PID: holder.Process.Pid, StartTime: holder.start, BootID: boot, Protocol: hypervisor.Protocol, Lineage: lineage, Lab: "template", LabDir: dir,
		StarterPID: maker.Process.Pid, StarterStartTime: maker.start,
	})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, lineageFile), []byte(lineage), 0o644),
		os.WriteFile(filepath.Join(dir, "memory.whole"), []byte("half"), 0o644), os.WriteFile(filepath.Join(cache, "templates.lock"), nil, 0o644),
		os.WriteFile(filepath.Join(hypervisor.RegistryDir(), lineage+".json"), text, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSweepKnowsTemplatesInTheMaking: what a living process makes is no
// leftover; when its maker has died it is, whether its hypervisor lives or not.
func TestSweepKnowsTemplatesInTheMaking(t *testing.T) {
	s, cache := settings(t), t.TempDir()
	t.Setenv("LVSLAB_CACHE", cache)
	out := &heard{}
	s.Events = out
	maker, holder := newProcess(t), newProcess(t)
	dir := inTheMaking(t, cache, "template-aa", holder, maker)
	// Its maker has the lock of the cache, as long as it lives.
	lock, err := os.Open(filepath.Join(cache, "templates.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	exit, err := Sweep(context.Background(), s, SweepOptions{AutoApprove: true})
	text := strings.Join(out.lines, "\n")
	if err != nil || exit != ExitDone || !strings.Contains(text, "is making a template in it") || !strings.Contains(text, "Nothing to sweep") {
		t.Errorf("%v, exit %d: %s", err, exit, text)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	// It is no lab either that a command could mean.
	if _, err := s.findLab(context.Background(), ""); err == nil || !strings.Contains(err.Error(), "No lab here") {
		t.Errorf("the only lab: %v", err)
	}

	lock.Close()
	maker.kill()
	out.lines = nil
	if _, err := Sweep(context.Background(), s, SweepOptions{Labs: []string{"other"}, AutoApprove: true}); err == nil {
		t.Error("a name that nobody has")
	}
	exit, err = Sweep(context.Background(), s, SweepOptions{AutoApprove: true})
	text = strings.Join(out.lines, "\n")
	if err != nil || exit != ExitDone || !strings.Contains(text, "removed      template, verified") || !strings.Contains(text, "removed      "+dir) {
		t.Errorf("%v, exit %d: %s", err, exit, text)
	}
	if holder.alive() {
		t.Error("the hypervisor of the dead maker lives on")
	}
	for _, path := range []string{dir, filepath.Join(hypervisor.RegistryDir(), "template-aa.json")} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

func TestSweepAsksOnceForAll(t *testing.T) {
	s, cache := settings(t), t.TempDir()
	t.Setenv("LVSLAB_CACHE", cache)
	maker, holder := newProcess(t), newProcess(t)
	dir := inTheMaking(t, cache, "template-bb", holder, maker)
	maker.kill()
	holder.kill()
	var asked []string
	no := func(_ context.Context, question string) (bool, error) {
		asked = append(asked, question)
		return false, nil
	}
	if exit, err := Sweep(context.Background(), s, SweepOptions{Confirm: no}); exit != ExitError || !errors.Is(err, errDeclined) {
		t.Errorf("declined: exit %d, %v", exit, err)
	}
	if len(asked) != 1 || asked[0] != "Remove 1 labs and 1 unfinished templates with everything in them?" {
		t.Errorf("asked %q", asked)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("declined, and yet: %v", err)
	}
}
