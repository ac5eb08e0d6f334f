package state

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// holdEnv makes the test binary a second lvslab that holds the lock of the
// directory named until its input ends.
const holdEnv = "LVSLAB_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
	}
	if dir := os.Getenv(diskEnv); dir != "" {
		if err := onOwnDisk(dir); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	debug.SetGCPercent(400) // thousands of short lives of labs in memory
	os.Exit(m.Run())
}

func hold(dir string) {
	s, err := OpenOrCreate(context.Background(), dir, "lab", "", Options{Command: "lvslab apply big.hcl"})
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("held\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Close(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// other starts a process that holds the lock; closing its input ends it in order.
func other(t *testing.T, dir string) (*exec.Cmd, io.Closer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if text, err := bufio.NewReader(out).ReadString('\n'); text != "held\n" {
		t.Fatalf("the other process says %q, %v", text, err)
	}
	return cmd, in
}

func TestAnotherProcessIsNamed(t *testing.T) {
	dir := t.TempDir()
	cmd, _ := other(t, dir)
	_, err := Open(context.Background(), dir, Options{})
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("%v", err)
	}
	if locked.Holder.PID != cmd.Process.Pid || locked.Holder.Command != "lvslab apply big.hcl" || locked.Holder.Since.IsZero() {
		t.Errorf("holder %+v", locked.Holder)
	}
	d := diag.From(err)[0]
	if !strings.Contains(d.Detail, "lvslab apply big.hcl") || !strings.Contains(d.Remedy, "--lock-timeout") {
		t.Errorf("diagnostic: %s", d)
	}
	if h, held, err := Held(dir); err != nil || !held || h.PID != cmd.Process.Pid {
		t.Errorf("Held: %+v, %v, %v", h, held, err)
	}
	if _, err := Read(dir); err != nil {
		t.Errorf("reading needs no lock: %v", err)
	}
}

func TestKilledHolderLeavesNoLock(t *testing.T) {
	dir := t.TempDir()
	cmd, _ := other(t, dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, held, err := Held(dir); err != nil || held {
		t.Errorf("still held: %v, %v", held, err)
	}
	s, err := Open(context.Background(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if h, held, _ := Held(dir); !held || h.PID != os.Getpid() {
		t.Errorf("held by %+v, %v", h, held)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, held, _ := Held(dir); held {
		t.Error("held after Close")
	}
}

func TestWaitingForTheLock(t *testing.T) {
	dir := t.TempDir()
	_, end := other(t, dir)
	var waitedFor Holder
	s, err := Open(context.Background(), dir, Options{LockTimeout: 20 * time.Second, Waiting: func(h Holder) {
		waitedFor = h
		end.Close()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if waitedFor.Command != "lvslab apply big.hcl" {
		t.Errorf("waited for %+v", waitedFor)
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	other(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	begun := time.Now()
	_, err := Open(ctx, dir, Options{LockTimeout: time.Minute, Waiting: func(Holder) { cancel() }})
	if !errors.Is(err, context.Canceled) || time.Since(begun) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
	begun = time.Now()
	_, err = Open(context.Background(), dir, Options{LockTimeout: 200 * time.Millisecond})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Waited < 200*time.Millisecond || time.Since(begun) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}

func TestHeldOfNothing(t *testing.T) {
	dir := t.TempDir() + "/none"
	if _, held, err := Held(dir); err != nil || held {
		t.Errorf("%v, %v", held, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("Held made the directory")
	}
}
