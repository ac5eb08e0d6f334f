package acceptance

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestAccInterrupts lives through what people do to a command that takes long:
// they look at its first line only, start it twice, press Ctrl-C once, twice.
func TestAccInterrupts(t *testing.T) {
	s := newSite(t, small("busybody", "198.19.16", ""))

	// A reader that goes away takes nothing with it.
	if code := s.firstLineOnly("apply", "lab.hcl"); code != 0 {
		t.Fatalf("apply whose reader left ended with %d", code)
	}
	if r := s.must(0, time.Minute, "plan", "--detailed-exitcode", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to do") {
		t.Errorf("the lab that nobody watched: %s", r)
	}

	// named has the last word on a zone, and what it says is passed on.
	records := `records = [{ name = "q", type = "SVCB", values = ["1 a.small.test. mandatory=alpn"] }] #`
	s.write("zone.hcl", strings.Replace(small("busybody", "198.19.16", ""), "records = ", records, 1))
	r := s.must(1, time.Minute, "apply", "--auto-approve", "zone.hcl")
	for _, want := range []string{"The name server refuses zone small.test", "backend.web/dns", "small.test.zone:4", "mandatory=alpn", "lvslab destroy zone.hcl"} {
		if !strings.Contains(strings.Join(strings.Fields(r.stdout+r.stderr), " "), want) {
			t.Errorf("%q is not in the message of a refused zone: %s", want, r)
		}
	}

	// Two at once: the second waits, and then finds nothing to do.
	var second result
	r = s.during("create      ", func() { second = s.run(3*time.Minute, "apply", "--lock-timeout", "150s", "lab.hcl") },
		"apply", "--auto-approve", "--replace", "client.probe", "lab.hcl")
	if r.code != 0 || second.code != 0 || !strings.Contains(second.stdout, "Waiting for the lock of the lab: process") || !strings.Contains(second.stdout, "Nothing to do") {
		t.Errorf("two applies at once: %s\n\n%s", r, second)
	}

	// Once: what is under way is finished, the rest is not begun.
	r = s.signalled([]os.Signal{syscall.SIGTERM}, "apply", "--auto-approve", "--replace", "backend.web", "lab.hcl")
	if r.code != 130 || !strings.Contains(r.stderr, "steps were not begun") || !strings.Contains(r.stdout, "lvslab destroy lab.hcl") {
		t.Errorf("interrupted once: %s", r)
	}
	s.must(2, time.Minute, "plan", "--detailed-exitcode", "lab.hcl")

	// Twice: it does not wait for the boot, and the next destroy cleans. A clone would
	// be there before the second signal.
	r = s.signalled([]os.Signal{os.Interrupt, os.Interrupt}, "apply", "--auto-approve", "--boot", "cold", "--replace", "director.front", "lab.hcl")
	if r.code != 130 || !strings.Contains(r.stderr, "Stopping: the calls under way are given up.") {
		t.Errorf("interrupted twice: %s", r)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	if left := s.own(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// firstLineOnly runs lvslab with a reader that reads one line and goes away.
func (s *site) firstLineOnly(args ...string) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd, _, _ := s.command(ctx, args...)
	read, write, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	write.Close()
	if _, err := io.ReadFull(read, make([]byte, 1)); err != nil {
		s.t.Error(err)
	}
	read.Close()
	_ = cmd.Wait() // the code tells
	return cmd.ProcessState.ExitCode()
}

// signalled runs lvslab and sends it signals, half a second apart, when it has
// started what it makes.
func (s *site) signalled(signals []os.Signal, args ...string) result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd, out, errOut := s.command(ctx, args...)
	w := &watcher{mu: &sync.Mutex{}, buf: out}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	w.await(s.t.(*testing.T), "create      ", 3*time.Minute)
	for i, sig := range signals {
		if i > 0 {
			time.Sleep(500 * time.Millisecond)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			s.t.Error(err)
		}
	}
	began := time.Now()
	_ = cmd.Wait() // the code tells
	took := time.Since(began)
	if len(signals) > 1 && took > 10*time.Second {
		s.t.Errorf("stopped at once took %s", took)
	}
	return result{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errOut.String(), took: took}
}
