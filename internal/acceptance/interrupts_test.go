package acceptance

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
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
	if r := s.must(0, time.Minute, "plan", "--detailed-exitcode", "lab.hcl"); !strings.Contains(r.stdout, "No changes") {
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

	// Twice: it ends at once, and the next destroy cleans.
	r = s.signalled([]os.Signal{os.Interrupt, os.Interrupt}, "apply", "--auto-approve", "--replace", "director.front", "lab.hcl")
	if r.code != 130 || !strings.Contains(r.stderr, "Stopped.") {
		t.Errorf("interrupted twice: %s", r)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	if left := s.own(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestAccCrashDuringRuns lets the director's kernel panic in the middle of a
// study, and then libvirtd be killed: both are noticed at once and named.
func TestAccCrashDuringRuns(t *testing.T) {
	s := newSite(t, small("crash", "198.19.17", study))
	var shell result
	began := time.Time{}
	r := s.during(" 3/80", func() {
		began = time.Now()
		shell = s.run(time.Minute, "exec", "director.front", "--", "sh", "-c", "echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger")
	}, "apply", "lab.hcl")
	if took := time.Since(began); r.code != 1 || took > 30*time.Second {
		t.Errorf("apply whose director panicked, %s later: %s", took, r)
	}
	for _, out := range []string{r.stderr, shell.stderr} {
		if !strings.Contains(out, "director.front has crashed") || !strings.Contains(out, "Kernel panic - not syncing: sysrq triggered crash") {
			t.Errorf("the panic is not named:\n%s", out)
		}
	}
	if shell.code != 1 || !strings.Contains(r.stdout, "lvslab destroy lab.hcl") {
		t.Errorf("exec ended with %d; %s", shell.code, r)
	}
	s.partialWithRuns("crash", 3)

	r = s.during(" 2/80", func() { killLibvirtd(t, s) }, "apply", "--auto-approve", "lab.hcl")
	if !strings.Contains(r.stdout, "gone with its boot") {
		t.Errorf("the director's settings were not missed: %s", r)
	}
	for _, want := range []string{"libvirtd of lab crash died", "signal: killed"} {
		if r.code != 1 || !strings.Contains(r.stderr, want) || strings.Count(r.stderr, "Error:") != 1 {
			t.Errorf("%q is not in the one message of a dead libvirtd: %s", want, r)
		}
	}
	if strings.Contains(r.stdout, "kept for a look") || !strings.Contains(r.stdout, "Nothing of the lab runs any more") {
		t.Errorf("a dead lab is offered for a look: %s", r)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}

// killLibvirtd ends the daemon of this site's lab: the one in the holder's PID
// namespace. Nothing in its command line tells whose it is.
func killLibvirtd(t *testing.T, s *site) {
	t.Helper()
	mine, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", holderPID(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if ns, err := os.Readlink(filepath.Join(p, "ns/pid")); err != nil || ns != mine || !strings.HasPrefix(string(line), "/usr/sbin/libvirtd\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(p))
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("the lab has no libvirtd")
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
	if len(signals) > 1 && took > 5*time.Second {
		s.t.Errorf("stopped at once took %s", took)
	}
	return result{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errOut.String(), took: took}
}

// TestAccBrokenRun ends a load before its time: that run does not count, the
// code is 4, and the lab is kept for a look although its policy is on-success.
func TestAccBrokenRun(t *testing.T) {
	short := strings.Replace(study, "iterations = 40", "iterations = 2", 1)
	s := newSite(t, small("broken", "198.19.18", strings.Replace(short, "queries = 200", "queries = 4000", 1)))
	r := s.during(" 1/4", func() {
		s.must(0, time.Minute, "exec", "client.probe", "--", "sh", "-c",
			"for i in $(seq 500); do for p in /proc/[0-9]*; do grep -qa ^dnsperf $p/comm 2>/dev/null && kill -9 ${p#/proc/} && exit 0; done; sleep 0.02; done; exit 9")
	}, "apply", "lab.hcl")
	if r.code != 4 || !strings.Contains(r.stdout, "cut_short") || !strings.Contains(r.stdout, "lvslab destroy lab.hcl") {
		t.Errorf("apply with a run that was cut short: %s", r)
	}
	a := s.latest("broken")
	if m := a.Manifest(); m.ExitCode != 4 || m.Outcome != "counts broke" || m.Timings.DestroyedS != nil {
		t.Errorf("manifest: exit %d, outcome %q, destroyed %v", m.ExitCode, m.Outcome, m.Timings.DestroyedS)
	}
	invalid := 0
	for _, run := range a.Runs() {
		if !run.Valid {
			invalid++
		}
	}
	if len(a.Runs()) != 4 || invalid != 1 {
		t.Errorf("%d runs, %d of them invalid", len(a.Runs()), invalid)
	}
	s.must(0, time.Minute, "exec", "client.probe", "--", "true")
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}
