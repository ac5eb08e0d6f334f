package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// ErrCannotContinue is the cause when a partial result is not fit to be continued.
var ErrCannotContinue = errors.New("the partial result cannot be continued")

// Unfinished is a partial result as it can be continued.
type Unfinished struct {
	*Artifact
	// Whole are the runs that count: row, rows of the backends and raw data are
	// there. The others are to be made.
	Whole map[string]bool
	// Broken is run id → why a run that has left something is to be repeated.
	Broken map[string]string
}

// Unfinish reads a partial result and finds out which of its runs are whole. It
// changes nothing. A *diag.Failure that is [ErrCannotContinue] says why the result
// cannot be continued at all.
func Unfinish(ctx context.Context, dir string) (*Unfinished, error) {
	a, err := OpenStudy(dir)
	if err != nil {
		return nil, err
	}
	u := &Unfinished{Artifact: a, Whole: map[string]bool{}, Broken: map[string]string{}}
	switch {
	case a.sealed:
		return nil, cannotContinue(dir, "it is sealed")
	case a.manifest.Study == "":
		return nil, cannotContinue(dir, "it does not say which study it belongs to")
	case !exists(filepath.Join(a.dir, RunsFile)) || !exists(filepath.Join(a.dir, BackendsFile)):
		return nil, cannotContinue(dir, "it has no tables")
	}
	if err := u.sinceInterruption(ctx); err != nil {
		return nil, err
	}
	if data, err := a.ReadFile(PathsFile); err == nil && !json.Valid(data) {
		return nil, cannotContinue(dir, "%s cannot be read", PathsFile)
	}
	rows := map[string]int{}
	for _, b := range a.ownBackends() {
		rows[b.RunID]++
	}
	for _, r := range a.own() {
		if u.Broken[r.RunID] == "" {
			if why := u.lacks(r, rows[r.RunID]); why != "" {
				u.Broken[r.RunID] = why
				continue
			}
			u.Whole[r.RunID] = true
		}
	}
	return u, u.torn()
}

func cannotContinue(dir, format string, args ...any) error {
	return diag.Fail(diag.Told(ErrCannotContinue), "A partial result cannot be continued", "It stays where it is; another one is started.",
		"%s: %s.", dir, fmt.Sprintf(format, args...))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// lacks says what is missing of a run that has a row, "" = nothing.
func (u *Unfinished) lacks(r Run, backends int) string {
	raw := filepath.Join(u.dir, RawDir, r.RunID)
	switch {
	case !exists(raw):
		return "its raw data is gone"
	case backends > 0 && !exists(filepath.Join(raw, QueriesFile)):
		return RawDir + "/" + r.RunID + "/" + QueriesFile + " is gone"
	case backends == 0 && r.Valid:
		return "it has no row in " + BackendsFile
	}
	return ""
}

// sinceInterruption compares the files with the manifest that an orderly
// interruption has left: what was changed since must not pass for measured.
func (u *Unfinished) sinceInterruption(ctx context.Context) error {
	if u.draft || len(u.manifest.Files) == 0 {
		return nil // the writer was killed: there are no checksums
	}
	problems, err := verifyFiles(ctx, u.dir, u.manifest.Files)
	if err != nil {
		return err
	}
	for _, p := range problems {
		id, raw := strings.CutPrefix(p.Path, RawDir+"/")
		if id, _, raw = strings.Cut(id, "/"); raw && strings.HasPrefix(p.Path, RawDir+"/") {
			u.Broken[id] = fmt.Sprintf("%s is %s since the interruption", p.Path, p.Kind)
		} else if p.Path == RunsFile || p.Path == BackendsFile || p.Path == PathsFile {
			return cannotContinue(u.dir, "%s was changed since the interruption", p.Path)
		}
	}
	return nil
}

// torn notes the raw data of runs without a row: they were going on when the
// writer ended.
func (u *Unfinished) torn() error {
	entries, err := os.ReadDir(filepath.Join(u.dir, RawDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for torn runs: %w", err)
	}
	for _, e := range entries {
		if !u.Whole[e.Name()] && u.Broken[e.Name()] == "" {
			u.Broken[e.Name()] = "it has no row in " + RunsFile
		}
	}
	return nil
}

// Draft is the manifest as it was last written, ready for another session: the
// last one has the runs that the others did not make.
func (u *Unfinished) Draft() Manifest {
	m := u.manifest
	m.Partial, m.Files, m.Sessions = "", nil, slices.Clone(m.Sessions)
	if n := len(m.Sessions); n > 0 {
		m.Sessions[n-1].Runs = len(u.Whole)
		for _, s := range m.Sessions[:n-1] {
			m.Sessions[n-1].Runs -= s.Runs
		}
		m.Sessions[n-1].Runs = max(m.Sessions[n-1].Runs, 0)
	}
	return m
}
