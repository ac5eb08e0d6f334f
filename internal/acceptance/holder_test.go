package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/hypervisor"
)

// TestAccHolder is what can happen to a kept lab between two commands: another
// lvslab comes, libvirtd falls silent, a machine or the whole hypervisor dies.
// Only what is proven gone is made anew.
func TestAccHolder(t *testing.T) {
	s := newSite(t, small("held", "198.19.10", ""))
	s.must(0, 4*time.Minute, "apply", "lab.hcl")
	unchanged := func(when string) {
		if r := s.must(0, time.Minute, "plan", "--detailed-exitcode", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to do") {
			t.Errorf("%s: %s", when, r)
		}
	}

	// An upgraded program finds the lab and works with it.
	upgraded := filepath.Join(t.TempDir(), "lvslab")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/lvslab/lvslab/internal/version.Version=v99.0.0", "-o", upgraded, "../../cmd/lvslab")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(upgraded, "plan", "--detailed-exitcode", "lab.hcl")
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Nothing to do") {
		t.Errorf("after an upgrade: %v\n%s", err, out)
	}

	// Its libvirtd falls silent: an error with its remedy, and never "gone".
	daemon := libvirtdOf(t, holderPID(t, s))
	signal(t, daemon, syscall.SIGSTOP)
	for _, args := range [][]string{{"show", "lab.hcl"}, {"plan", "lab.hcl"}, {"apply", "--auto-approve", "lab.hcl"}} {
		r := s.must(1, time.Minute, args...)
		if said := words(r.stderr); r.took > 15*time.Second || !strings.Contains(said, "libvirtd of lab held does not answer") || !strings.Contains(said, "lvslab destroy") {
			t.Errorf("%v with a silent libvirtd: %s", args, r)
		}
	}
	signal(t, daemon, syscall.SIGCONT)
	unchanged("libvirtd goes on")

	// A holder of another protocol is not talked to.
	entry, original := s.entry()
	other := regexp.MustCompile(`"protocol":\d+`).ReplaceAll(original, []byte(`"protocol":99`))
	writeInPlace(t, entry, other)
	for _, args := range [][]string{{"plan", "lab.hcl"}, {"apply", "--auto-approve", "lab.hcl"}, {"exec", "client.probe", "--", "true"}} {
		if r := s.must(1, time.Minute, args...); !strings.Contains(words(r.stderr), "started by another version of lvslab") || !strings.Contains(r.stderr, "lvslab destroy") {
			t.Errorf("%v with another protocol: %s", args, r)
		}
	}
	writeInPlace(t, entry, original)
	unchanged("the protocol is ours again")

	// The kernel, short of memory, kills one machine: that one is missed.
	s.killMachine(t, "client-probe")
	if r := s.must(2, time.Minute, "plan", "--detailed-exitcode", "lab.hcl"); !strings.Contains(r.stdout, "client.probe/domain will be created") || strings.Contains(r.stdout, "backend.web/domain will be created") {
		t.Errorf("plan after a machine's death: %s", r)
	}
	// It kills the hypervisor: gone is proven, and everything is made anew.
	signal(t, holderPID(t, s), syscall.SIGKILL)
	poll(t, 20*time.Second, "the holder does not end", func() bool {
		list, err := hypervisor.List(context.Background())
		return err == nil && !slices.ContainsFunc(list, func(e hypervisor.Entry) bool {
			return strings.HasPrefix(e.LabDir, s.dir+"/") && e.Status == hypervisor.Running
		})
	})
	if r := s.must(2, time.Minute, "plan", "--detailed-exitcode", "lab.hcl"); !strings.Contains(r.stdout, "Plan: 13 to create") {
		t.Errorf("plan after the hypervisor's death: %s", r)
	}
	s.must(0, 4*time.Minute, "apply", "--auto-approve", "lab.hcl")
	s.must(0, time.Minute, "exec", "client.probe", "--", "dig", "+short", "+time=5", "@198.19.10.101", "n1.small.test")

	// What does not answer, and what speaks another protocol, can be destroyed.
	entry, original = s.entry()
	writeInPlace(t, entry, bytes.Replace(original, []byte(`"protocol":`), []byte(`"protocol":9`), 1))
	signal(t, libvirtdOf(t, holderPID(t, s)), syscall.SIGSTOP)
	if r := s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl"); r.took > 20*time.Second {
		t.Errorf("destroy of a silent lab: %s", r)
	}
	if left := s.own(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// words joins lines that were broken to fit a screen.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// entry returns the registry entry of this site's only lab.
func (s *site) entry() (string, []byte) {
	s.t.Helper()
	list, err := hypervisor.List(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range list {
		if strings.HasPrefix(e.LabDir, s.dir+"/") {
			text, err := os.ReadFile(e.Path)
			if err != nil {
				s.t.Fatal(err)
			}
			return e.Path, text
		}
	}
	s.t.Fatal("the lab is not in the registry")
	return "", nil
}

// writeInPlace keeps the file, which the holder has locked.
func writeInPlace(t *testing.T, path string, text []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
}

// libvirtdOf finds the daemon of a lab: the one in its holder's process
// namespace. Nothing in its command line tells whose it is.
func libvirtdOf(t *testing.T, holder int) int {
	t.Helper()
	mine, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", holder))
	if err != nil {
		t.Fatal(err)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		comm, _ := os.ReadFile(filepath.Join(p, "comm"))
		if ns, err := os.Readlink(filepath.Join(p, "ns/pid")); err == nil && ns == mine && strings.TrimSpace(string(comm)) == "libvirtd" {
			pid, err := strconv.Atoi(filepath.Base(p))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the lab has no libvirtd")
	return 0
}
