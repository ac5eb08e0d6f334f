package artifact

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/diag"
)

func TestVerifyFindsWhatChanged(t *testing.T) {
	cases := []struct {
		name string
		do   func(dir string) error
		want []string // "path kind"
	}{
		{"a byte", func(d string) error { return os.WriteFile(filepath.Join(d, RunsFile), []byte("x"), 0o644) }, []string{"runs.csv changed"}},
		{"missing", func(d string) error { return os.Remove(filepath.Join(d, "raw/01-01-rr/queries.csv")) }, []string{"raw/01-01-rr/queries.csv missing"}},
		{"extra", func(d string) error { return os.WriteFile(filepath.Join(d, "raw/note"), nil, 0o644) }, []string{"raw/note extra"}},
		{"renamed", func(d string) error {
			return os.Rename(filepath.Join(d, PlanFile), filepath.Join(d, "plan2.json"))
		}, []string{"plan.json missing", "plan2.json extra"}},
		{"a link instead of the file", func(d string) error {
			p := filepath.Join(d, PlanFile)
			return errors.Join(os.Rename(p, filepath.Join(d, "..", "plan.json")), os.Symlink("../plan.json", p))
		}, []string{"plan.json changed"}},
		{"manifest", func(d string) error {
			p := filepath.Join(d, ManifestFile)
			b, err := os.ReadFile(p)
			return errors.Join(err, os.WriteFile(p, []byte(strings.Replace(string(b), "tcg", "kvm", 1)), 0o644))
		}, []string{"manifest.json changed"}},
		{"manifest beyond reading", func(d string) error {
			return os.WriteFile(filepath.Join(d, ManifestFile), []byte("{"), 0o644)
		}, []string{"manifest.json changed"}},
		{"sum of the manifest gone", func(d string) error { return os.Remove(filepath.Join(d, ManifestSumFile)) }, []string{"manifest.sha256 missing"}},
		{"sum of the manifest unreadable", func(d string) error {
			return os.WriteFile(filepath.Join(d, ManifestSumFile), []byte("?"), 0o644)
		}, []string{"manifest.sha256 changed"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := sealSample(t, t.TempDir())
			must(t, c.do(dir))
			problems, err := Verify(context.Background(), dir)
			must(t, err)
			var got []string
			for _, p := range problems {
				got = append(got, p.Path+" "+string(p.Kind))
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	var f *diag.Failure
	if _, err := Open(t.TempDir()); !errors.As(err, &f) || f.Diagnostic.Summary != "Not a result" {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Verify(context.Background(), filepath.Join(t.TempDir(), "no")); !errors.As(err, &f) {
		t.Errorf("nothing: %v", err)
	}
	dir := sealSample(t, t.TempDir())
	b := read(t, dir, ManifestFile)
	must(t, os.WriteFile(filepath.Join(dir, ManifestFile), []byte(strings.Replace(b, `"schema_version": 1`, `"schema_version": 99`, 1)), 0o644))
	if _, err := Open(dir); !errors.As(err, &f) || f.Diagnostic.Summary != "Result of a newer lvslab" {
		t.Errorf("a newer schema: %v", err)
	}
	dir = sealSample(t, t.TempDir())
	runs := read(t, dir, RunsFile)
	must(t, os.WriteFile(filepath.Join(dir, RunsFile), []byte(runs[:len(runs)-2]), 0o644))
	if _, err := Open(dir); !errors.Is(err, ErrTorn) {
		t.Errorf("a sealed result with a torn table: %v", err)
	}
	lines := strings.SplitAfter(runs, "\n")
	must(t, os.WriteFile(filepath.Join(dir, RunsFile), []byte(runs+lines[1]), 0o644))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "two rows") {
		t.Errorf("a run twice: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, RunsFile), []byte(lines[0]+lines[1]), 0o644))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "run 01-02-dh has no row") {
		t.Errorf("backends without their run: %v", err)
	}
}

func TestClose(t *testing.T) {
	dir := sealSample(t, t.TempDir())
	before, err := Open(dir)
	must(t, err)
	must(t, Close(dir, Closing{DestroyedS: ptr(130.25), Outcome: "check failed", ExitCode: 3}, nil))
	must(t, Close(dir, Closing{DestroyedS: ptr(130.25), Outcome: "check failed", ExitCode: 3}, nil))
	a, err := Open(dir)
	must(t, err)
	m := a.Manifest()
	if m.Timings.DestroyedS == nil || *m.Timings.DestroyedS != 130.25 || m.ExitCode != 3 || *m.Timings.CreatedS != 1.5 ||
		!m.FinishedAt.Equal(before.Manifest().FinishedAt) {
		t.Errorf("%+v", m)
	}
	if problems, err := Verify(context.Background(), dir); err != nil || len(problems) != 0 {
		t.Errorf("verify: %v, %v", problems, err)
	}
	// A crash between the two renames: the sum is new, the manifest old.
	must(t, os.WriteFile(filepath.Join(dir, ManifestSumFile), []byte(strings.Repeat("0", 64)+"  manifest.json\n"), 0o644))
	must(t, Close(dir, Closing{DestroyedS: ptr(130.25), Outcome: "check failed", ExitCode: 3}, nil))
	if problems, err := Verify(context.Background(), dir); err != nil || len(problems) != 0 {
		t.Errorf("verify after mending: %v, %v", problems, err)
	}
}
