package plan_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
)

// childEnv makes the test binary a small lvslab: "dir lab n fault". It brings
// the lab in dir to the named shape and, when n is not 0, is killed at its n-th
// call to the provider.
const childEnv = "LVSLAB_TEST_CHILD"

func TestMain(m *testing.M) {
	if args := os.Getenv(childEnv); args != "" {
		if err := child(strings.Fields(args)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if args := os.Getenv(planEnv); args != "" {
		if err := planChild(args); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	p, err := open(args[0])
	if err != nil {
		return err
	}
	if n > 0 {
		faults := map[string]fake.Fault{"before": fake.CrashBefore, "amid": fake.CrashHalf, "after": fake.CrashAfter}
		p.Script(fake.Rule{Nth: n, Fault: faults[args[3]]})
		p.Crash = func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	return bring(args[0], p, labs[args[1]])
}

func open(dir string) (*fake.Provider, error) {
	w, err := fake.Open(filepath.Join(dir, "world"))
	return fake.New(fake.Schemas(), w), err
}

// bring is apply without a hypervisor: lock, recover, look, plan, walk.
func bring(dir string, p *fake.Provider, wanted []provider.Resource) error {
	ctx := context.Background()
	ps, err := plan.NewProviders(p)
	if err != nil {
		return err
	}
	s, err := state.OpenOrCreate(ctx, filepath.Join(dir, "state"), "lab", "", state.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Recover(); err != nil {
		return err
	}
	st := s.State()
	have, err := st.Existing(ps)
	if err != nil {
		return err
	}
	o := walk.Options{Providers: ps, Recorder: s.Recorder(), Parallelism: 3}
	seen, err := walk.Refresh(ctx, have, o)
	if err != nil {
		return err
	}
	if err := seen.Record(s.Recorder()); err != nil {
		return err
	}
	todo, err := diff.Compute(diff.Input{Providers: ps, Wanted: wanted, Have: seen.Have, Gone: seen.Gone})
	if err != nil {
		return err
	}
	return walk.Run(ctx, todo, o).Err()
}

func box(label, shape string, size int, within string, needs ...string) provider.Resource {
	name := func(l string) addr.Resource { return addr.Resource{Noun: addr.N(addr.Backend, l), Part: "box"} }
	r := provider.Resource{Addr: name(label), Type: "box", Attrs: fake.Box(shape, size)}
	if within != "" {
		r.Within = name(within)
	}
	for _, n := range needs {
		r.DependsOn = append(r.DependsOn, name(n))
	}
	return r
}

func peg(label, within string, holes ...string) provider.Resource {
	r := box(label, "", 0, within)
	r.Type, r.Attrs = "peg", fake.Peg(holes...)
	return r
}

// labs are shapes of one lab; from first to second there is something of each:
// a replacement that takes along, an update, one that changes names, a deletion, a
// creation.
var labs = map[string][]provider.Resource{
	"none":   nil,
	"first":  {box("net", "round", 1, ""), box("vm", "round", 1, "", "net"), box("dns", "round", 1, "vm"), box("old", "round", 1, "", "net"), box("svc", "round", 1, "", "dns", "old"), peg("vips", "net", "1", "2")},
	"second": {box("net", "round", 1, ""), box("vm", "flat", 1, "", "net"), box("dns", "round", 1, "vm"), box("new", "round", 1, "", "net"), box("svc", "round", 2, "", "dns", "new"), peg("vips", "net", "2", "3")},
}

func run(t *testing.T, args ...string) (killed bool) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, " "))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return true
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return false
}

// A process is killed by SIGKILL at each of its calls, right before, amid and
// right after the effect. The next apply brings the lab to the wanted shape, the next
// destroy leaves nothing.
func TestKilledAtEveryCall(t *testing.T) {
	for _, lab := range []string{"first", "second", "none"} {
		for _, fault := range []string{"before", "amid", "after"} {
			t.Run(lab+" "+fault, func(t *testing.T) {
				t.Parallel() // most of the time is spent waiting for the disk
				n := 1
				for killedAt(t, lab, fault, n) {
					n++
				}
				if n < 6 {
					t.Errorf("only %d calls to be killed at", n-1)
				}
			})
		}
	}
}

// killedAt kills a process at its n-th call and puts things in order again. It
// reports false when the process has fewer calls.
func killedAt(t *testing.T, lab, fault string, n int) bool {
	t.Helper()
	dir := t.TempDir()
	p, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if lab != "first" {
		if err := bring(dir, p, labs["first"]); err != nil {
			t.Fatal(err)
		}
	}
	if !run(t, dir, lab, strconv.Itoa(n), fault) {
		return false
	}
	then := "none" // destroy and apply by turns: both from each kind of call
	if n%2 == 1 {
		then = lab
	}
	if err := bring(dir, p, labs[then]); err != nil {
		t.Fatalf("killed %s call %d, then %s: %v", fault, n, then, err)
	}
	check(t, dir, p, labs[then])
	return true
}

func check(t *testing.T, dir string, p *fake.Provider, wanted []provider.Resource) {
	t.Helper()
	objects, err := p.World().Objects()
	if err != nil {
		t.Fatal(err)
	}
	st, err := state.Read(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != len(wanted) || len(st.Resources) != len(wanted) {
		t.Errorf("world %v, state %d, wanted %d", objects, len(st.Resources), len(wanted))
	}
	for _, r := range wanted {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		v, err := p.Read(ctx, r, r.Attrs)
		cancel()
		if err != nil || provider.PlanBySchema(fake.Schemas()[r.Type], r, v).Action != provider.NoOp {
			t.Errorf("%s is not as wanted: %#v, %v", r.Addr, v, err)
		}
		if rec, _ := st.Resource(r.Addr); rec.Status != state.OK {
			t.Errorf("%s is %q", r.Addr, rec.Status)
		}
	}
}
