package experiment

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/lang"
)

// samplesDir holds small studies as this package writes them, for the package that
// recomputes them from their raw data.
const samplesDir = "../verify/studytest/testdata"

// TestSampleIsCurrent keeps those samples what this package writes: two treatments
// in two blocks with three sockets, one beside the backends without LVS, and one of
// two clients; in virtual time, so that they are always the same.
func TestSampleIsCurrent(t *testing.T) {
	t.Run("study", func(t *testing.T) {
		sampleIsCurrent(t, func(_ *lang.Topology, e *lang.Experiment) {
			e.Iterations, e.Factors = 2, []lang.Factor{factorOf("scheduler", "rr", "dh")}
		})
	})
	t.Run("direct", func(t *testing.T) {
		sampleIsCurrent(t, func(_ *lang.Topology, e *lang.Experiment) {
			e.Iterations, e.Factors, e.Controls = 1, []lang.Factor{factorOf("scheduler", "rr")}, &lang.Controls{Direct: true}
		})
	})
	t.Run("clients", func(t *testing.T) {
		sampleIsCurrent(t, func(top *lang.Topology, e *lang.Experiment) {
			twoClients(50*time.Millisecond)(top, e)
			e.Iterations, e.Factors = 1, []lang.Factor{factorOf("scheduler", "dh")}
			e.Load.Kind, e.Load.Mode, e.Load.Window = lang.LoadLVSLab, lang.ModeClosed, 1
		}, lateBy(3*time.Millisecond))
	})
}

func sampleIsCurrent(t *testing.T, design func(*lang.Topology, *lang.Experiment), faults ...func(*fakeLab)) {
	top := paperTopology()
	_, name, _ := strings.Cut(t.Name(), "/")
	sampleDir := filepath.Join(samplesDir, name)
	e := &top.Experiments[0]
	e.Load.Sockets, e.Capture = 3, true
	design(top, e)
	treatments, ds := Treatments(top, *e)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	trials := Trials(*e, treatments, 0)
	content := map[string]any{"study": map[string]any{"study": "sample", "trials": trials}}
	ports, err := PortsUsed(top, *e, treatments)
	if err != nil {
		t.Fatal(err)
	}
	if ports != nil {
		content["source_ports"] = map[string]any{e.Noun.Name(): ports}
	}
	plan, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	w, err := artifact.Create(t.TempDir(), "sample", "20000101T000000Z-0000", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.SetFactors([]string{"scheduler"}); err != nil {
		t.Fatal(err)
	}
	if err := w.SetPlan(append(plan, '\n')); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLab(t, top)
		for _, fault := range faults {
			fault(f)
		}
		if _, err := Run(context.Background(), f.lab(), *e, trials, Into(w), Hooks{}); err != nil {
			t.Fatal(err)
		}
	})
	got := files(t, w.Dir())
	if golden.Updating() {
		if err := os.RemoveAll(sampleDir); err != nil {
			t.Fatal(err)
		}
		for name, data := range got {
			path := filepath.Join(sampleDir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d := cmp.Diff(files(t, sampleDir), got); d != "" {
		t.Errorf("the sample is not current; write it anew with -update:\n%.2000s", d)
	}
}

// files reads a directory: path → content.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		text := string(data)
		if d.Name() == "conns.csv" { // the fake kernel lists its table in any order
			lines := strings.SplitAfter(text, "\n")
			slices.Sort(lines[1:])
			text = strings.Join(lines, "")
		}
		out[filepath.ToSlash(rel)] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
