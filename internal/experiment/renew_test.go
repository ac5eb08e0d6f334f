package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
)

// renew makes machines anew as a real lab does: what the old ones knew is gone,
// and the director has its declared services.
func (f *fakeLab) renew(_ context.Context, nodes []addr.Noun, images map[addr.Noun]addr.Noun) ([]Renewed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewals++
	var out []Renewed
	for _, n := range nodes {
		f.ops = append(f.ops, n.String()+" renew")
		delete(f.klog, n)
		maps.DeleteFunc(f.files, func(name string, _ []byte) bool { return strings.HasPrefix(name, n.String()) })
		if n == director {
			f.entries, f.next, f.totals = map[flow]int{}, map[netip.Addr]int{}, proto.IPVSTotals{}
			f.services = declaredServices(f.top, director)
			f.image = images[director]
		}
		out = append(out, Renewed{Node: n.String(), BootID: fmt.Sprintf("boot-%d-%s", f.renewals, n), Seed: "00", HostKey: "SHA256:x"})
	}
	if f.onRenew != nil {
		if err := f.onRenew(f.renewals); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func isolated(how string, schedulers ...any) func(*lang.Topology, *lang.Experiment) {
	return func(_ *lang.Topology, e *lang.Experiment) {
		e.Isolation, e.Factors = how, []lang.Factor{factorOf("scheduler", schedulers...)}
	}
}

func TestRenewals(t *testing.T) {
	top := paperTopology()
	e := top.Experiments[0]
	for isolation, want := range map[string]string{
		"flush": "[]", "restore": "[director.lb]",
		"restore-all": "[client.c[0] director.lb backend.ns[0] backend.ns[1] backend.ns[2]]",
	} {
		e.Isolation = isolation
		if got := fmt.Sprint(Renewals(top, e)); got != want {
			t.Errorf("%s: %s, want %s", isolation, got, want)
		}
	}
}

// Each run has machines of its own: nothing of the run begins before they are
// there, and what was on the old ones is brought again.
func TestRunRenewsBeforeEachRun(t *testing.T) {
	for _, c := range []struct {
		how      string
		machines int
		uploads  int
	}{{"flush", 0, 1}, {"restore", 1, 1}, {"restore-all", 5, 3}} {
		r := runFake(t, isolated(c.how, "rr", "sh", "dh"), nil)
		if r.err != nil || len(r.rec.runs) != 3 || !r.out.GivenBack {
			t.Fatalf("%s: %d runs, %v", c.how, len(r.rec.runs), r.err)
		}
		if n := r.f.count("", "renew"); n != 3*c.machines {
			t.Errorf("%s: %d machines were made anew, want %d", c.how, n, 3*c.machines)
		}
		if n := r.f.count("client", "file.write"); n != c.uploads {
			t.Errorf("%s: the query file travelled %d times, want %d", c.how, n, c.uploads)
		}
		boots := map[string]bool{}
		for i, run := range r.rec.runs {
			if !run.Valid || run.AnswersOK != 12 {
				t.Errorf("%s: %+v", c.how, run)
			}
			var kept []Renewed
			text, ok := r.rec.raw[run.RunID][RenewedFile]
			if ok != (c.machines > 0) || ok && json.Unmarshal(text, &kept) != nil || cmp.Diff(kept, r.out.Done[i].Renewed) != "" || len(kept) != c.machines {
				t.Errorf("%s: %s of %s: %s", c.how, RenewedFile, run.RunID, text)
			}
			for _, k := range kept {
				boots[k.BootID] = true
			}
		}
		if len(boots) != 3*c.machines {
			t.Errorf("%s: boots %v", c.how, boots)
		}
		renewed := true
		for _, op := range r.f.ops {
			switch {
			case strings.HasSuffix(op, " renew"):
				renewed = true
			case strings.HasSuffix(op, "load.dnsperf"):
				if !renewed {
					t.Errorf("%s: a second load on the same machines: %v", c.how, r.f.ops)
				}
				renewed = c.machines == 0
			}
		}
		if diff := cmp.Diff(declaredServices(r.top, director), r.f.services, plain); diff != "" {
			t.Errorf("%s: the declared service must be back:\n%s", c.how, diff)
		}
	}
}

// The kernel's messages of a new machine begin at 1 again.
func TestRunHearsTheKernelOfANewMachine(t *testing.T) {
	r := runFake(t, isolated("restore", "rr"), func(f *fakeLab) {
		f.klog[director] = []proto.KernelLine{{Seq: 900, Text: "of the machine before"}}
		f.onLoad = func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.klog[director] = []proto.KernelLine{{Seq: 1, Level: 4, USec: 5, Text: "new"}}
		}
	})
	_, _, raw := r.only(t)
	if got := string(raw["klog.txt"]); got != "director.lb <4> [0.000005] new\n" {
		t.Errorf("klog.txt %q", got)
	}
}

// A director that somebody has used since it was made is not pristine; the next
// try has another one.
func TestRunWantsAPristineDirector(t *testing.T) {
	for _, c := range []struct {
		name  string
		used  int // the first so many renewals
		valid bool
		tries int
	}{{"once", 1, true, 1}, {"always", 9, false, tries}} {
		r := runFake(t, isolated("restore", "rr"), func(f *fakeLab) {
			f.onRenew = func(n int) error {
				if n <= c.used {
					f.totals.Conns, f.totals.InPackets = 2, 7
				}
				return nil
			}
		})
		run, _, raw := r.only(t)
		if run.Valid != c.valid || len(run.PreconditionFailures) != c.tries || r.f.renewals != min(c.used+1, tries) {
			t.Errorf("%s: valid %v, %d renewals, %v", c.name, run.Valid, r.f.renewals, run.PreconditionFailures)
		}
		if !strings.Contains(string(raw["try-1.txt"]), "counted 2 connections and 7 packets") || len(raw[RenewedFile]) == 0 {
			t.Errorf("%s: try 1: %s, files %v", c.name, raw["try-1.txt"], sortedKeys(raw))
		}
	}
}

// Machines that could not be made are in doubt: the study ends, and nobody
// waits for the settings of a director that is not there.
func TestRunEndsWhenMachinesCannotBeMade(t *testing.T) {
	broken := errors.New("no memory")
	for _, interrupted := range []bool{false, true} {
		r := &trialRun{top: paperTopology()}
		isolated("restore", "rr", "sh", "dh")(r.top, &r.top.Experiments[0])
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r.f = newFakeLab(t, r.top)
			r.f.onRenew = func(n int) error {
				if n < 2 {
					return nil
				}
				if interrupted {
					cancel()
				}
				r.f.ops = append(r.f.ops, "broken")
				return broken
			}
			r.run(t, ctx, Hooks{})
		})
		if !errors.Is(r.err, broken) || !strings.Contains(r.err.Error(), "make the machines anew") || len(r.rec.runs) != 1 || !r.out.GivenBack || r.out.Interrupted {
			t.Errorf("interrupted %v: %d runs, %+v, %v", interrupted, len(r.rec.runs), r.out, r.err)
		}
		attempts := 1 + tries
		if interrupted {
			attempts = 2
		}
		if r.f.renewals != attempts {
			t.Errorf("interrupted %v: %d renewals, want %d", interrupted, r.f.renewals, attempts)
		}
		for _, op := range r.f.ops[slices.Index(r.f.ops, "broken")+1:] {
			if op != "broken" && op != "director.lb renew" {
				t.Errorf("a call to a lab in doubt: %s", op)
			}
		}
	}
	top := paperTopology()
	isolated("restore", "rr")(top, &top.Experiments[0])
	lab := newFakeLab(t, top).lab()
	lab.Renew = nil
	treatments, _ := Treatments(top, top.Experiments[0])
	if _, err := Run(context.Background(), lab, top.Experiments[0], Trials(top.Experiments[0], treatments, 0), &memory{}, Hooks{}); !errors.Is(err, errNoRenewal) {
		t.Errorf("a lab that cannot: %v", err)
	}
}

// A machine that could not be made, or that hangs, is not the last one.
func TestRunTriesWithOtherMachines(t *testing.T) {
	hung := errors.New("the agent gives no answer")
	r := runFake(t, isolated("restore", "rr"), func(f *fakeLab) {
		f.onRenew = func(n int) error {
			if n == 1 {
				return errors.New("no room")
			}
			return nil
		}
		f.fail = func(n addr.Noun, op string, _ int) error {
			if n == director && op == proto.IPVSFresh.Op && f.renewals == 2 {
				return hung
			}
			return nil
		}
	})
	run, _, raw := r.only(t)
	if !run.Valid || r.f.renewals != 3 || len(run.PreconditionFailures) != 2 || len(r.f.captures[clientC]) != 0 {
		t.Errorf("valid %v, %d renewals, %v", run.Valid, r.f.renewals, run.PreconditionFailures)
	}
	if !strings.Contains(string(raw["try-1.txt"]), "no room") || !strings.Contains(string(raw["try-2.txt"]), hung.Error()) {
		t.Errorf("tries %q, %q", raw["try-1.txt"], raw["try-2.txt"])
	}
}

// An interruption while machines are made finds a lab as declared.
func TestRunInterruptedWhileRenewing(t *testing.T) {
	r := &trialRun{top: paperTopology()}
	isolated("restore", "rr", "sh", "dh")(r.top, &r.top.Experiments[0])
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r.f = newFakeLab(t, r.top)
		r.f.onRenew = func(n int) error {
			if n == 2 {
				cancel()
			}
			return nil
		}
		r.run(t, ctx, Hooks{})
	})
	if r.err != nil || !r.out.Interrupted || !r.out.GivenBack || len(r.rec.runs) != 1 || r.f.renewals != 2 {
		t.Errorf("%d runs, %d renewals, %+v, %v", len(r.rec.runs), r.f.renewals, r.out, r.err)
	}
}
