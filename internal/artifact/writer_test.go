package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/diag"
)

func TestSealAndOpen(t *testing.T) {
	results := filepath.Join(t.TempDir(), "new", "results")
	dir := sealSample(t, results)
	if want := filepath.Join(results, "lvs-tun-dns", "20261202T100000Z-ab12"); dir != want {
		t.Errorf("dir = %s, want %s", dir, want)
	}
	if target, err := os.Readlink(filepath.Join(results, "lvs-tun-dns", LatestLink)); err != nil || target != "20261202T100000Z-ab12" {
		t.Errorf("latest → %q, %v", target, err)
	}
	a, err := Open(filepath.Join(results, "lvs-tun-dns", LatestLink))
	must(t, err)
	var wantRuns []Run
	var wantRows []BackendRow
	for i, s := range []string{"rr", "dh"} {
		run, rows := sampleRun(i+1, s)
		wantRuns, wantRows = append(wantRuns, run), append(wantRows, rows...)
	}
	if d := cmp.Diff(wantRuns, a.Runs()) + cmp.Diff(wantRows, a.Backends()); d != "" {
		t.Error(d)
	}
	m := a.Manifest()
	if !a.Sealed() || m.SchemaVersion != SchemaVersion || m.Lab != "lvs-tun-dns" || m.Run != "20261202T100000Z-ab12" || m.FinishedAt.IsZero() {
		t.Errorf("sealed %v, %+v", a.Sealed(), m)
	}
	for _, name := range []string{"topology/lvs-tun-dns.hcl", "topology/modules/a/main.hcl", "plan.json", "runs.csv", "backends.csv",
		"datapackage.json", "summary.md", "raw/queries.schema.json", "raw/01-01-rr/queries.csv", "raw/01-02-dh/try-1/conns.csv"} {
		if len(m.Files[name]) != 64 {
			t.Errorf("%s has no checksum", name)
		}
	}
	problems, err := Verify(context.Background(), dir)
	if err != nil || len(problems) != 0 {
		t.Errorf("verify: %v, %v", problems, err)
	}
}

func TestDataPackage(t *testing.T) {
	dir := sealSample(t, t.TempDir())
	var p dpPackage
	must(t, json.Unmarshal([]byte(read(t, dir, DataPackageFile)), &p))
	var paths []string
	for _, r := range p.Resources {
		paths = append(paths, r.Path)
		if _, err := os.Stat(filepath.Join(dir, r.Path)); err != nil {
			t.Errorf("resource %s: %v", r.Name, err)
		}
	}
	if d := cmp.Diff([]string{"runs.csv", "backends.csv", "raw/01-01-rr/queries.csv", "raw/01-02-dh/queries.csv"}, paths); d != "" {
		t.Error(d)
	}
	for _, c := range runColumns {
		if c.description == "" || c.source == "" || c.typ == "" {
			t.Errorf("column %s of runs.csv is not described", c.name)
		}
	}
	for _, c := range backendColumns {
		if c.description == "" || c.source == "" || c.typ == "" {
			t.Errorf("column %s of backends.csv is not described", c.name)
		}
	}
}

// After each step the directory is what a crash would leave: it must open, and
// hold every run whose AddRun returned.
func TestCrashLosesAtMostTheRunInProgress(t *testing.T) {
	results := t.TempDir()
	w, err := Create(results, "lab", "r1", nil)
	must(t, err)
	must(t, w.SetFactors([]string{"scheduler", "one_packet"}))
	for i, s := range []string{"rr", "lc", "dh"} {
		run, rows := sampleRun(i+1, s)
		_, err := w.StartRun(run.RunID)
		must(t, err)
		a, err := Open(w.Dir())
		must(t, err)
		if len(a.Runs()) != i || a.Sealed() {
			t.Errorf("before run %d: %d rows, sealed %v", i+1, len(a.Runs()), a.Sealed())
		}
		must(t, w.AddRun(run, rows))
	}
	// Half a line in runs.csv, and the backends of a run that got no row.
	f, err := os.OpenFile(filepath.Join(w.Dir(), RunsFile), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString("01-04-sed,sche")
	must(t, errors.Join(err, f.Close()))
	_, orphan := sampleRun(4, "sed")
	oc, err := cells(backendColumns, &orphan[0])
	must(t, err)
	line, err := encodeRow(oc)
	must(t, err)
	must(t, appendSync(w.backends, line))
	a, err := Open(w.Dir())
	must(t, err)
	if len(a.Runs()) != 3 || len(a.Backends()) != 6 || !a.Torn() {
		t.Errorf("%d runs, %d backends, torn %v", len(a.Runs()), len(a.Backends()), a.Torn())
	}
	left, err := Partials(results, "lab")
	if err != nil || len(left) != 1 || left[0] != filepath.Join(results, "lab", "r1.partial") {
		t.Errorf("partials: %q, %v", left, err)
	}
}

func TestAbandon(t *testing.T) {
	w := writeSample(t, t.TempDir())
	dir, err := w.Abandon(Manifest{Lineage: "l1"}, "interrupted by the user")
	must(t, err)
	if !strings.HasSuffix(dir, PartialSuffix) {
		t.Errorf("dir = %s", dir)
	}
	a, err := Open(dir)
	must(t, err)
	if a.Sealed() || len(a.Runs()) != 2 || a.Manifest().Partial != "interrupted by the user" {
		t.Errorf("sealed %v, %d runs, %+v", a.Sealed(), len(a.Runs()), a.Manifest())
	}
	if note := read(t, dir, PartialNoteFile); !strings.Contains(note, "interrupted by the user") || !strings.Contains(note, ": 2.") {
		t.Errorf("note: %s", note)
	}
	if problems, err := Verify(context.Background(), dir); err != nil || len(problems) != 0 {
		t.Errorf("verify: %v, %v", problems, err)
	}
	run, rows := sampleRun(3, "lc")
	if err := w.AddRun(run, rows); !errors.Is(err, ErrEnded) {
		t.Errorf("a row after the end: %v", err)
	}
	if _, err := w.Finalise(context.Background(), Manifest{}, nil); !errors.Is(err, ErrEnded) {
		t.Errorf("sealed after the end: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), LatestLink)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("latest points at a partial result: %v", err)
	}
}

func TestFinaliseCanBeTriedAgain(t *testing.T) {
	w := writeSample(t, t.TempDir())
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	files := map[string][]byte{"summary.md": []byte("first\n")}
	if _, err := w.Finalise(cancelled, Manifest{}, files); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	files["summary.md"] = []byte("second\n")
	dir, err := w.Finalise(context.Background(), Manifest{}, files)
	must(t, err)
	if got := read(t, dir, "summary.md"); got != "second\n" {
		t.Errorf("summary = %q", got)
	}
	again, err := w.Finalise(context.Background(), Manifest{}, files)
	if err != nil || again != dir {
		t.Errorf("second time: %s, %v", again, err)
	}
	if problems, err := Verify(context.Background(), dir); err != nil || len(problems) != 0 {
		t.Errorf("verify: %v, %v", problems, err)
	}
}

func TestLatestMovesOn(t *testing.T) {
	results := t.TempDir()
	for _, name := range []string{"a", "b"} {
		w, err := Create(results, "lab", name, nil)
		must(t, err)
		must(t, w.SetFactors(nil))
		_, err = w.Finalise(context.Background(), Manifest{Study: "s"}, nil)
		must(t, err)
		target, err := os.Readlink(filepath.Join(results, "lab", LatestLink))
		if err != nil || target != name {
			t.Errorf("latest → %q, %v", target, err)
		}
	}
	if _, err := Create(results, "lab", "a", nil); !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("the same name again: %v", err)
	}
}

func TestFind(t *testing.T) {
	results := t.TempDir()
	dir := sealSample(t, results)
	ctx := context.Background()
	if got, err := Find(ctx, results, "lvs-tun-dns", "s1", ""); err != nil || got != dir {
		t.Errorf("got %q, %v", got, err)
	}
	for _, miss := range [][2]string{{"lvs-tun-dns", "s2"}, {"other", "s1"}} {
		if got, err := Find(ctx, results, miss[0], miss[1], ""); err != nil || got != "" {
			t.Errorf("%v: got %q, %v", miss, got, err)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range [][2]string{{"", "r"}, {"..", "r"}, {"a/b", "r"}, {"lab", "../r"}, {"lab", "latest"}, {"lab", "x.partial"}, {"lab", "a\nb"}} {
		if _, err := Create(t.TempDir(), c[0], c[1], nil); err == nil {
			t.Errorf("%q was taken", c)
		}
	}
	w, err := Create(t.TempDir(), "lab", "r", nil)
	must(t, err)
	d, err := w.StartRun("01-01-rr")
	must(t, err)
	for _, name := range []string{"", "..", "../x", "/etc/x", "a/../../x", `a\b`} {
		if d.WriteFile(name, nil) == nil || w.AddInput(name, nil) == nil {
			t.Errorf("file name %q was taken", name)
		}
	}
	if _, err := w.StartRun("01-01-rr"); err == nil {
		t.Error("a run was started twice")
	}
	if _, err := w.StartRun("a/b"); err == nil {
		t.Error("a run id with a slash was taken")
	}
}

func TestAddRunRefuses(t *testing.T) {
	w, err := Create(t.TempDir(), "lab", "r", nil)
	must(t, err)
	run, rows := sampleRun(1, "rr")
	check := func(want string) {
		t.Helper()
		if err := w.AddRun(run, rows); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		run, rows = sampleRun(1, "rr")
	}
	check("factor columns are not fixed")
	must(t, w.SetFactors([]string{"scheduler", "one_packet"}))
	if w.SetFactors(nil) == nil {
		t.Error("factors were changed")
	}
	run.Factors["vips"] = "2"
	check(`factor "vips" has no column`)
	run.Block = 0
	check("count from 1")
	rows[1].RunID = "other"
	check(`belongs to run "other"`)
	rows[1].Backend = rows[0].Backend
	check("has two rows")
	run.BatchS = ptr(1 / (*run.BatchS - *run.BatchS))
	check("column batch_s")
	run.Experiment = ""
	check("column experiment: empty")
	must(t, w.AddRun(run, rows))
	check("has a row already")
	if got := strings.Count(read(t, w.Dir(), RunsFile), "\n"); got != 2 {
		t.Errorf("%d lines: a refused run left something", got)
	}
}

func TestNoSpaceLeft(t *testing.T) {
	w, err := Create(t.TempDir(), "lab", "r", nil)
	must(t, err)
	must(t, w.SetFactors([]string{"scheduler", "one_packet"}))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	must(t, w.runs.Close())
	w.runs = full
	run, rows := sampleRun(1, "rr")
	err = w.AddRun(run, rows)
	var f *diag.Failure
	if !errors.As(err, &f) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if d := f.Diagnostic; d.Summary != "No space left for results" || !strings.Contains(d.Remedy, "--results") || !strings.Contains(d.Detail, RunsFile) {
		t.Errorf("%+v", d)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{syscall.EDQUOT, "Disk quota used up by results"},
		{syscall.EROFS, "Results cannot be written"},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, "Results cannot be written"},
		{io.ErrUnexpectedEOF, "writing x in /r: unexpected EOF"},
	} {
		if err := explain(c.err, "writing x", "/r"); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	if explain(nil, "x", "y") != nil {
		t.Error("no error was explained")
	}
	blocked := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(blocked, nil, 0o600))
	var f *diag.Failure
	if _, err := Create(blocked, "lab", "r", nil); !errors.As(err, &f) {
		t.Errorf("a file in the way: %v", err)
	}
}

func TestSudoOwner(t *testing.T) {
	env := func(m map[string]string) func(string) (string, bool) {
		return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
	}
	if o, err := SudoOwner(env(nil)); o != nil || err != nil {
		t.Errorf("without sudo: %v, %v", o, err)
	}
	if o, err := SudoOwner(env(map[string]string{"SUDO_UID": "1000", "SUDO_GID": "100"})); err != nil || *o != (Owner{1000, 100}) {
		t.Errorf("%v, %v", o, err)
	}
	for _, bad := range []string{"", "-1", "bob", "99999999999"} {
		if _, err := SudoOwner(env(map[string]string{"SUDO_UID": bad, "SUDO_GID": "1"})); err == nil {
			t.Errorf("SUDO_UID %q was taken", bad)
		}
		if _, err := SudoOwner(env(map[string]string{"SUDO_UID": "1", "SUDO_GID": bad})); err == nil {
			t.Errorf("SUDO_GID %q was taken", bad)
		}
	}
}
