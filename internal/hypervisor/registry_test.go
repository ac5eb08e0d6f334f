package hypervisor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func useRegistry(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "registry")
	t.Setenv("LVSLAB_REGISTRY", dir)
	return dir
}

// fakeHolder is a process that has inherited the lock, as a holder has.
func fakeHolder(t *testing.T, lineage string, withLock bool) (*exec.Cmd, *Holder) {
	t.Helper()
	f, err := claim(lineage)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("sleep", "60")
	if withLock {
		cmd.ExtraFiles = []*os.File{f}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	h, err := register(Options{Identity: Identity{Lineage: lineage, Lab: "lab-" + lineage, LabDir: t.TempDir()}}, cmd.Process.Pid, f)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, h
}

func statusOf(t *testing.T, lineage string) Status {
	t.Helper()
	list, err := List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Lineage == lineage {
			return e.Status
		}
	}
	return "absent"
}

func TestLockIsHeldByWhoeverInheritedIt(t *testing.T) {
	useRegistry(t)
	cmd, h := fakeHolder(t, "one", true)
	if got := statusOf(t, "one"); got != Running {
		t.Errorf("status %s, want running", got)
	}
	if _, err := claim("one"); !errors.Is(err, ErrBusy) {
		t.Errorf("second claim: %v, want ErrBusy", err)
	}
	if err := forget("one"); !errors.Is(err, ErrBusy) {
		t.Errorf("forget of a living one: %v, want ErrBusy", err)
	}
	// Asking must not take the lock, not even for a moment.
	f, err := os.Open(filepath.Join(RegistryDir(), "one.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if held, err := lockHeld(f); err != nil || !held {
		t.Errorf("lock held %v, %v", held, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if got := statusOf(t, "one"); got != Gone {
		t.Errorf("status after the end %s, want gone", got)
	}
	found, st, err := Find(context.Background(), "one")
	if err != nil || st != Gone || found == nil || found.PID != h.PID || found.Lab != "lab-one" {
		t.Errorf("Find: %+v, %s, %v", found, st, err)
	}
	if err := h.Stop(context.Background()); err != nil {
		t.Errorf("stop of an ended one: %v", err)
	}
	if got := statusOf(t, "one"); got != "absent" {
		t.Errorf("status after stop %s", got)
	}
}

// The kernel frees a dying PID 1's lock before it has killed the rest of its
// namespace: then the process decides.
func TestFreeLockOfALivingProcessIsNotGone(t *testing.T) {
	useRegistry(t)
	fakeHolder(t, "two", false)
	if got := statusOf(t, "two"); got != Running {
		t.Errorf("status %s, want running", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := claimFree(ctx, Options{Identity: Identity{Lineage: "two"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("claim while the old process lives: %v", err)
	}
}

func TestHeldLockWithoutAnswerIsSilentAndNeverGone(t *testing.T) {
	useRegistry(t)
	fakeHolder(t, "three", true)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	h, st, err := Find(ctx, "three")
	if st != Silent || !errors.Is(err, ErrSilent) || h == nil {
		t.Errorf("Find: %+v, %s, %v; want silent", h, st, err)
	}
}

func TestOtherProtocolIsNotTalkedTo(t *testing.T) {
	useRegistry(t)
	_, h := fakeHolder(t, "four", true)
	h.Protocol++
	st, err := h.Check(context.Background())
	if st != Silent || !errors.Is(err, ErrSilent) {
		t.Errorf("%s, %v", st, err)
	}
}

func TestStopKillsAndForgets(t *testing.T) {
	useRegistry(t)
	_, h := fakeHolder(t, "five", true) // remains as a zombie, which has ended
	if err := h.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if lives, err := h.Alive(); err != nil || lives {
		t.Errorf("alive %v, %v", lives, err)
	}
	if _, st, err := Find(context.Background(), "five"); st != Gone || err != nil {
		t.Errorf("%s, %v", st, err)
	}
}

func TestEntryWithoutProcessIsGone(t *testing.T) {
	dir := useRegistry(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"empty": "", "torn": `{"pid": 12`, "reboot": `{"pid":1,"start_time":5,"boot_id":"another","protocol":1}`} {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := statusOf(t, name); got != Gone {
			t.Errorf("%s: status %s, want gone", name, got)
		}
	}
}

func TestOnlyOneOfManyClaims(t *testing.T) {
	useRegistry(t)
	for range 20 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []*os.File
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				f, err := claim("race")
				if err != nil && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					won = append(won, f)
					mu.Unlock()
				}
			}()
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d claims succeeded", len(won))
		}
		won[0].Close()
		// forget removes file and directory under the next round's feet.
		if err := forget("race"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLineageIsAFileNameAndNothingElse(t *testing.T) {
	for _, bad := range []string{"", "../x", "a/b", "-x", "a b", "x\x00", string(make([]byte, 80))} {
		if _, err := entryPath(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if _, err := entryPath("4f1c2ab6-09aa-4f7e-8a35-0d3a1f0f8c11"); err != nil {
		t.Error(err)
	}
}
