package operation

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/plan/state"
)

// registered makes a process the hypervisor of a lab with a directory of its
// own, and with a state when stateful.
func registered(t *testing.T, lab string, stateful bool) (process, hypervisor.Holder) {
	t.Helper()
	p, dir := newProcess(t), filepath.Join(t.TempDir(), labsDir, lab)
	lineage := "lost-" + filepath.Base(filepath.Dir(filepath.Dir(dir)))
	if stateful {
		store, err := state.OpenOrCreate(t.Context(), dir, lab, "lab.hcl", state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		lineage = store.State().Lineage
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	boot, err := hypervisor.BootID()
	if err != nil {
		t.Fatal(err)
	}
	h := hypervisor.Holder{PID: p.Process.Pid, StartTime: p.start, BootID: boot, Protocol: hypervisor.Protocol, Lineage: lineage, Lab: lab, LabDir: dir}
	text, err := json.Marshal(h)
	if err == nil {
		err = os.MkdirAll(hypervisor.RegistryDir(), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(hypervisor.RegistryDir(), lineage+".json"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, h
}

// sweep runs a sweep and returns what it said.
func sweep(t *testing.T, s *Settings, labs ...string) (string, error) {
	t.Helper()
	out := &heard{}
	s.Events = out
	_, err := Sweep(context.Background(), s, SweepOptions{Labs: labs, AutoApprove: true})
	return strings.Join(out.lines, "\n"), err
}

// TestSweepTakesWhatNobodyKnows: a lab whose state is lost goes, one with a
// state stays unless it is named, one that somebody works on stays anyway.
func TestSweepTakesWhatNobodyKnows(t *testing.T) {
	s := settings(t)
	t.Setenv("LVSLAB_CACHE", t.TempDir())
	lost, _ := registered(t, "lost", false)
	kept, k := registered(t, "kept", true)
	text, err := sweep(t, s)
	if err != nil || lost.alive() || !kept.alive() || !strings.Contains(text, "removed      lost, verified") || !strings.Contains(text, "it has a state") {
		t.Errorf("lost lives: %v, kept lives: %v, %v\n%s", lost.alive(), kept.alive(), err, text)
	}
	store, err := state.Open(t.Context(), k.LabDir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := sweep(t, s, "kept"); err != nil || !kept.alive() || !strings.Contains(text, "somebody works on it") {
		t.Errorf("a lab whose lock is held: lives %v, %v\n%s", kept.alive(), err, text)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := sweep(t, s, "kept"); err != nil || kept.alive() {
		t.Errorf("a lab that was named lives %v, %v\n%s", kept.alive(), err, text)
	}
}

// TestSweepOfANameThatTwoLabsHave takes neither: one may be another user's.
func TestSweepOfANameThatTwoLabsHave(t *testing.T) {
	s := settings(t)
	t.Setenv("LVSLAB_CACHE", t.TempDir())
	one, h := registered(t, "same", true)
	two, other := registered(t, "same", true)
	if text, err := sweep(t, s, "same"); err == nil || !strings.Contains(err.Error(), "Several labs have this name") || !one.alive() || !two.alive() {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := sweep(t, s, h.LabDir); err != nil || one.alive() || !two.alive() {
		t.Errorf("by directory: one lives %v, two lives %v, %v\n%s", one.alive(), two.alive(), err, text)
	}
	if text, err := sweep(t, s, other.LabDir); err != nil || two.alive() {
		t.Errorf("the other: lives %v, %v\n%s", two.alive(), err, text)
	}
}

// TestCrashBetweenClaimAndProcess leaves an empty entry in the registry; both
// sweep and destroy remove it.
func TestCrashBetweenClaimAndProcess(t *testing.T) {
	s := settings(t)
	t.Setenv("LVSLAB_CACHE", t.TempDir())
	empty := func(lineage string) string {
		path := filepath.Join(hypervisor.RegistryDir(), lineage+".json")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := empty("half")
	if text, err := sweep(t, s); err != nil || !strings.Contains(text, "never came up") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("sweep left %s", path)
	}
	path = empty("half")
	if err := stopHolder(t.Context(), "half"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("destroy left %s", path)
	}
}
