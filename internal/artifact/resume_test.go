package artifact

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A writer is killed between raw data and row, in the middle of a line: the next
// one keeps the whole runs, removes the rest, and seals as if nothing had been.
func TestResumeAfterAKill(t *testing.T) {
	results := t.TempDir()
	w := writeSample(t, results)
	must(t, w.Checkpoint(Manifest{Study: "s1", Sessions: []Session{{Lineage: "l"}}}))
	run, rows := sampleRun(3, "sh")
	d, err := w.StartRun(run.RunID)
	must(t, err)
	must(t, d.WriteFile(QueriesFile, []byte("n\n")))
	must(t, w.AddRun(run, rows))
	dir := w.Dir()
	data := read(t, dir, RunsFile)
	must(t, os.WriteFile(filepath.Join(dir, RunsFile), []byte(data[:len(data)-20]), 0o644)) // torn
	if _, _, err := Resume(t.Context(), dir, nil); !errors.Is(err, ErrBusy) {
		t.Fatalf("two writers of one result: %v", err)
	}
	w.unlock() // as the kernel does
	w2, u, err := Resume(t.Context(), dir, nil)
	must(t, err)
	if len(u.Whole) != 2 || u.Broken[run.RunID] == "" || u.Draft().Sessions[0].Runs != 2 {
		t.Errorf("whole %v, broken %v", u.Whole, u.Broken)
	}
	if _, err := os.Stat(filepath.Join(dir, RawDir, run.RunID)); err == nil {
		t.Error("the torn run's raw data is still there")
	}
	must(t, w2.AddInput("lab.hcl", []byte("lab {}\n")))
	must(t, w2.SetPlan([]byte("{}\n")))
	must(t, w2.Checkpoint(u.Draft()))
	d, err = w2.StartRun(run.RunID)
	must(t, err)
	must(t, d.WriteFile(QueriesFile, []byte("n\n")))
	must(t, w2.AddRun(run, rows))
	final, err := w2.Finalise(context.Background(), u.Draft(), nil)
	must(t, err)
	if p, err := Verify(t.Context(), final); err != nil || len(p) > 0 {
		t.Errorf("%v, %v", p, err)
	}
	a, err := Open(final)
	must(t, err)
	if len(a.Runs()) != 3 || len(a.Backends()) != 6 || !a.Sealed() {
		t.Errorf("%d runs, %d rows", len(a.Runs()), len(a.Backends()))
	}
}

// What was changed after an orderly interruption is made again or refused.
func TestChangedSinceTheInterruption(t *testing.T) {
	for name, want := range map[string]int{RawDir + "/01-01-rr/" + QueriesFile: 1, RunsFile: -1, PathsFile: -1, "": 2} {
		w := writeSample(t, t.TempDir())
		must(t, w.SetPaths([]byte("{}")))
		dir, err := w.Abandon(Manifest{Study: "s1"}, "test")
		must(t, err)
		if name != "" {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(read(t, dir, name)+" "), 0o644))
		}
		u, err := Unfinish(t.Context(), dir)
		if want < 0 {
			if !errors.Is(err, ErrCannotContinue) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(u.Whole) != want {
			t.Errorf("%q: %v, %+v", name, err, u)
		}
	}
}

// What the proofs of earlier sessions have seen is not thrown away unread.
func TestPathsThatCannotBeRead(t *testing.T) {
	w := writeSample(t, t.TempDir())
	must(t, w.SetPaths([]byte(`{"proofs": [`)))
	must(t, w.Checkpoint(Manifest{Study: "s1"}))
	if _, err := Unfinish(t.Context(), w.Dir()); !errors.Is(err, ErrCannotContinue) {
		t.Errorf("%v", err)
	}
	must(t, w.SetPaths([]byte(`{"proofs": []}`)))
	if _, err := Unfinish(t.Context(), w.Dir()); err != nil {
		t.Errorf("%v", err)
	}
}
