package operation

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/plan/state"
)

// An apply is killed at each step of its conclusion. The next one looks at the
// result and does what is left: outputs, checks, teardown, closing. A result that
// was not sealed is none.
func TestKilledConclusions(t *testing.T) {
	for _, c := range []struct {
		name   string
		until  int // how many of the steps were done: sealed, outputs stored, taken down, closed
		resume bool
	}{
		{"before the seal", 0, false},
		{"sealed", 1, true},
		{"outputs stored", 2, true},
		{"taken down", 3, true},
		{"closed, end not written", 4, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := concludingApply(t)
			w, seq := beginResult(t, a)
			dir := killedAfter(t, a, w, c.until)
			if err := a.store.Close(); err != nil { // the intent stays, as in a kill
				t.Fatal(err)
			}
			reopen(t, a)
			a.result, a.todo = "", a.list.trials
			if dir != "" {
				a.result, a.todo = dir, nil
			}
			done, exit, err := a.resumeConclusion(t.Context())
			if err != nil || done != c.resume || exit != ExitDone {
				t.Fatalf("%v, exit %d, %v", done, exit, err)
			}
			for _, in := range a.store.Pending() {
				t.Errorf("intent %d is still open, begun was %d", in.Seq, seq)
			}
			if !c.resume {
				return
			}
			st := a.store.State()
			if st.LastArtifact != dir || st.Study != a.list.hash || len(st.Resources) != 0 || len(st.Outputs) == 0 {
				t.Errorf("state: artifact %q, study %q, %d resources, outputs %v", st.LastArtifact, st.Study, len(st.Resources), st.Outputs)
			}
			r, err := artifact.Open(dir)
			if err != nil || r.Manifest().Outcome != "done" || !r.Sealed() {
				t.Errorf("outcome %q, %v", r.Manifest().Outcome, err)
			}
		})
	}
}

// Destroy between the kill and the next apply takes the lab, not what was measured.
func TestConclusionOutlivesTheLab(t *testing.T) {
	a := concludingApply(t)
	w, _ := beginResult(t, a)
	dir := killedAfter(t, a, w, 1)
	if err := a.takeDown(t.Context(), a.store); err != nil {
		t.Fatal(err)
	}
	a.result, a.todo = dir, nil
	if done, _, err := a.resumeConclusion(t.Context()); err != nil || !done || a.store.State().LastArtifact != dir {
		t.Errorf("%v, %v", done, err)
	}
}

// What nobody waits for any more is not concluded: the study has changed, or is
// repeated.
func TestConclusionOfAnotherStudy(t *testing.T) {
	a := concludingApply(t)
	w, _ := beginResult(t, a)
	killedAfter(t, a, w, 1)
	a.result, a.todo = "", a.list.trials
	a.opts.Target = []addr.Noun{addr.N(addr.Backend, "ns")}
	if done, _, err := a.resumeConclusion(t.Context()); done || err != nil || len(a.store.Pending()) != 1 {
		t.Errorf("--target: %v, %v, pending %v", done, err, a.store.Pending())
	}
	a.opts.Target = nil
	if done, _, err := a.resumeConclusion(t.Context()); done || err != nil || len(a.store.Pending()) != 0 || a.store.State().LastArtifact != "" {
		t.Errorf("%v, %v, pending %v", done, err, a.store.Pending())
	}
}

// concludingApply is an apply of the built-in topology that has measured.
func concludingApply(t *testing.T) *applying {
	t.Helper()
	a, _, _ := paper(t, "flush")
	a.Started = time.Now()
	a.opts.Results = "results"
	reopen(t, a)
	for _, r := range a.wanted {
		if err := a.store.Recorder().Made(0, r, r.Attrs, nil); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func reopen(t *testing.T, a *applying) {
	t.Helper()
	var err error
	if a.store, err = state.OpenOrCreate(context.Background(), a.dir, "lab", "", state.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.store.Close() })
}

func beginResult(t *testing.T, a *applying) (*artifact.Writer, uint64) {
	t.Helper()
	w, err := artifact.Create(a.opts.Results, a.study.topology.Lab.Name, "one", nil)
	if err == nil {
		err = w.SetFactors(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	seq, err := a.beginConclusion(w)
	if err != nil {
		t.Fatal(err)
	}
	var c concluding
	if err := json.Unmarshal(a.store.Pending()[0].Data, &c); err != nil || !filepath.IsAbs(c.Result) || strings.HasSuffix(c.Result, artifact.PartialSuffix) {
		t.Fatalf("the intent names %q, %v", c.Result, err)
	}
	return w, seq
}

// killedAfter does the first steps of a conclusion and returns the sealed result.
func killedAfter(t *testing.T, a *applying, w *artifact.Writer, steps int) string {
	t.Helper()
	if steps == 0 {
		return ""
	}
	dir, err := w.Finalise(t.Context(), artifact.Manifest{Study: a.list.hash}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	e, err := a.evaluation(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return a.storeOutputs(e.Conclusion, dir) },
		func() error { return a.takeDown(t.Context(), a.store) },
		func() error { return artifact.Close(dir, artifact.Closing{Outcome: "done"}, nil) },
	}[:steps-1] {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A hypervisor that was started and not recorded is found by its lineage, and the
// intent to start it is no longer open.
func TestUnrecordedHypervisor(t *testing.T) {
	for name, found := range map[string]*hypervisor.Holder{"runs": {PID: 77}, "never came up": nil} {
		a, _, _ := paper(t, "flush")
		reopen(t, a)
		if _, err := a.store.Begin(state.Intent{Op: opStartHypervisor, Subject: "lab.x"}); err != nil {
			t.Fatal(err)
		}
		loan, err := a.store.Begin(state.Intent{Op: opExperiment, Subject: "experiment.x"})
		if err != nil {
			t.Fatal(err)
		}
		if err := recordFound(a.store, found); err != nil {
			t.Fatal(err)
		}
		if left := a.store.Pending(); len(left) != 1 || left[0].Seq != loan {
			t.Errorf("%s: pending %v", name, left)
		}
		if recorded := len(a.store.State().Hypervisor) > 0; recorded != (found != nil) {
			t.Errorf("%s: recorded %v", name, recorded)
		}
	}
}
