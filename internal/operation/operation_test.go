package operation

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan/state"
)

// silent throws events away.
type silent struct{}

func (silent) Emit(Event) {}

func settings(t *testing.T) *Settings {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("LVSLAB_REGISTRY", t.TempDir())
	return &Settings{Events: silent{}}
}

func TestJudge(t *testing.T) {
	ok, failed := lang.CheckResult{Passed: true}, lang.CheckResult{Passed: false}
	good, broken := artifact.Run{Valid: true}, artifact.Run{Valid: false}
	for _, c := range []struct {
		name   string
		checks []lang.CheckResult
		runs   []artifact.Run
		failed bool
		want   Exit
	}{
		{"all well", []lang.CheckResult{ok}, []artifact.Run{good}, false, ExitDone},
		{"a check failed", []lang.CheckResult{ok, failed}, []artifact.Run{good}, false, ExitCheckFailed},
		{"broken counts win", []lang.CheckResult{failed}, []artifact.Run{good, broken}, false, ExitBroken},
		{"a check that can't be evaluated", nil, []artifact.Run{good}, true, ExitError},
	} {
		if got := exitOf(lang.Conclusion{Checks: c.checks}, c.runs, c.failed); got != c.want {
			t.Errorf("%s: exit %d, want %d", c.name, got, c.want)
		}
	}
}

func TestTrialsWithoutARow(t *testing.T) {
	list := trialList{trials: []experiment.Trial{{RunID: "01-01-rr", Block: 1}, {RunID: "01-02-dh", Block: 1}}}
	if got := without(list.trials, nil); len(got) != 2 {
		t.Errorf("without a result %d are pending", len(got))
	}
	list.trials[0].Treatment.ID, list.trials[1].Treatment.ID = "s=rr", "s=dh"
	if got := without(list.trials, map[string]bool{runKey("", "", 1, "s=dh"): true}); len(got) != 1 || got[0].RunID != "01-01-rr" {
		t.Errorf("pending: %v", got)
	}
}

func sealedWith(t *testing.T, runIDs ...string) string {
	t.Helper()
	w, err := artifact.Create(t.TempDir(), "lab", "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.SetFactors(nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range runIDs {
		if _, err := w.StartRun(id); err != nil {
			t.Fatal(err)
		}
		if err := w.AddRun(artifact.Run{RunID: id, Experiment: "e", TreatmentID: "x=1", Block: 1, Order: 1, Protocol: "udp", LoadMode: "dnsperf", StartedAt: time.Unix(0, 0), Valid: true}, nil); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := w.Finalise(context.Background(), artifact.Manifest{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestKeysAreOnTheDiskBeforeAGuestGetsThem(t *testing.T) {
	dir := t.TempDir()
	store, err := state.OpenOrCreate(context.Background(), dir, "lab", "lab.hcl", state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	keys, err := openKeys(dir, store)
	if err != nil {
		t.Fatal(err)
	}
	first, err := keys.host("backend.ns[0]")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "keys.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("keys.json: %v, %v", info, err)
	}
	again, err := openKeys(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := again.host("backend.ns[0]"); err != nil || !bytes.Equal(first.Private, second.Private) || second.Public != first.Public {
		t.Errorf("another process reads another key: %v", err)
	}
	if _, err := again.host("backend.ns[1]"); err == nil {
		t.Error("a reader made a key")
	}
}

func TestWhichLabIsMeant(t *testing.T) {
	s, ctx := settings(t), context.Background()
	if _, err := s.findLab(ctx, ""); err == nil || !strings.Contains(err.Error(), "No lab here") {
		t.Errorf("nothing here: %v", err)
	}
	if _, err := s.hereOnly(ctx, ""); err == nil {
		t.Error("destroy reached for something")
	}
	make1 := func(lab string) {
		store, err := state.OpenOrCreate(ctx, filepath.Join(labsDir, lab), lab, lab+".hcl", state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store.Close()
	}
	if err := os.MkdirAll(labsDir, 0o755); err != nil {
		t.Fatal(err)
	}
	make1("one")
	if l, err := s.findLab(ctx, ""); err != nil || l.state.Lab != "one" {
		t.Errorf("the only one: %+v, %v", l, err)
	}
	make1("two")
	if _, err := s.findLab(ctx, ""); err == nil || !strings.Contains(err.Error(), "one, two") {
		t.Errorf("two of them: %v", err)
	}
	if l, err := s.findLab(ctx, "two"); err != nil || l.state.Lab != "two" {
		t.Errorf("by name: %+v, %v", l, err)
	}
	// A topology names its lab whatever its variables.
	text := "lab \"two\" {\n  description = \"x\"\n}\nvariable \"v\" { type = string }\nlocals { w = var.v }\n"
	if err := os.WriteFile("some.hcl", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if l, err := s.findLab(ctx, "some.hcl"); err != nil || l.state.Lab != "two" {
		t.Errorf("by topology: %+v, %v", l, err)
	}
	if _, err := s.findLab(ctx, "three"); err == nil || !strings.Contains(err.Error(), "No such lab") {
		t.Errorf("unknown name: %v", err)
	}
}

func TestOutputsAreMasked(t *testing.T) {
	secret, err := state.NewOutput(cty.StringVal("hush"), true)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := state.NewOutput(cty.NumberIntVal(7), false)
	if err != nil {
		t.Fatal(err)
	}
	outs := map[string]state.Output{"a": secret, "b": plain}
	text, raw, err := renderOutputs(outs, false)
	if err != nil || strings.Contains(text+string(raw), "hush") || !strings.Contains(text, "b = 7") {
		t.Errorf("%v: %s %s", err, text, raw)
	}
	if _, raw, _ := renderOutputs(outs, true); !strings.Contains(string(raw), "hush") {
		t.Errorf("asked for as data: %s", raw)
	}
	object, err := state.NewOutput(cty.ObjectVal(map[string]cty.Value{"x": cty.True}), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := renderOutput(object, OutputOptions{Name: "o", Raw: true}); err == nil {
		t.Error("--raw took an object")
	}
}

func TestHypervisorDeathIsGoneAndSaysWhy(t *testing.T) {
	cause := diag.Fail(nil, "libvirtd died", "Apply again.", "last lines")
	err := error(&hypervisorDied{cause})
	ds := diag.From(err)
	if len(ds) != 1 || ds[0].Summary != "libvirtd died" {
		t.Errorf("got %+v", ds)
	}
	var f *diag.Failure
	if !errors.As(err, &f) {
		t.Error("the diagnostic is lost")
	}
}

func TestFormatKeepsTheModeAndNamesWhatChanges(t *testing.T) {
	s := settings(t)
	if err := os.WriteFile("a.hcl", []byte("locals {\nx=1\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := Format(s, "", false)
	if err != nil || len(changed) != 1 {
		t.Fatalf("%v, %v", changed, err)
	}
	if b, _ := os.ReadFile("a.hcl"); string(b) != "locals {\nx=1\n}\n" {
		t.Error("a check changed the file")
	}
	if _, err := Format(s, "", true); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile("a.hcl")
	info, _ := os.Stat("a.hcl")
	if string(b) != "locals {\n  x = 1\n}\n" || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, text %q", info.Mode(), b)
	}
}
