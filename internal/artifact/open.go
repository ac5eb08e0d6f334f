package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// Artifact is a result that was read.
type Artifact struct {
	dir      string
	manifest Manifest
	sum      string // SHA-256 of manifest.json, hex
	sealed   bool
	torn     bool
	runs     []Run
	factors  []string
	backends []BackendRow
	draft    bool        // the manifest is the draft of a writer that was killed or still writes
	links    []*Artifact // of a study in several results, the first one first; nil = this one alone
	owner    map[string]*Artifact
}

// Open reads a result: a sealed one, the latest link, or a .partial one. Of a
// partial one the incomplete last line of a table, and the backends of a run
// that has no row, are left out; of a sealed one they are an error. It does
// not compare checksums: see [Verify].
func Open(dir string) (*Artifact, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, noResult(dir, err)
	}
	a := &Artifact{dir: real, sealed: !strings.HasSuffix(real, PartialSuffix)}
	if err := a.readManifest(dir); err != nil {
		return nil, err
	}
	if err := a.readTables(); err != nil {
		return nil, fmt.Errorf("result %s: %w", dir, err)
	}
	return a, nil
}

// readManifest reads the manifest; of a partial result its draft when there is one,
// which is the newer of the two.
func (a *Artifact) readManifest(dir string) error {
	file := ManifestFile
	if !a.sealed {
		if _, err := os.Lstat(filepath.Join(a.dir, DraftFile)); err == nil {
			file, a.draft = DraftFile, true
		}
	}
	data, err := os.ReadFile(filepath.Join(a.dir, file))
	switch {
	case err == nil:
		sum := sha256.Sum256(data)
		a.sum = hex.EncodeToString(sum[:])
		if a.manifest, err = ParseManifest(data); err != nil {
			return fmt.Errorf("result %s: %w", dir, err)
		}
		a.sealed = a.sealed && a.manifest.Partial == ""
	case a.sealed || !errors.Is(err, fs.ErrNotExist):
		return noResult(dir, err)
	}
	return nil
}

func noResult(dir string, err error) error {
	return diag.Fail(err, "Not a result",
		"Name a directory results/<lab>/<run>, or results/<lab>/latest.",
		"%s holds no readable %s.", dir, ManifestFile)
}

func (a *Artifact) readTables() error {
	tolerate := func(err error) error {
		if !a.sealed && (errors.Is(err, ErrTorn) || errors.Is(err, fs.ErrNotExist)) {
			a.torn = a.torn || errors.Is(err, ErrTorn)
			return nil
		}
		return err
	}
	runs, err := os.Open(filepath.Join(a.dir, RunsFile))
	if err == nil {
		defer runs.Close()
		a.runs, a.factors, err = ReadRuns(runs)
	}
	if err := tolerate(err); err != nil {
		return err
	}
	backends, err := os.Open(filepath.Join(a.dir, BackendsFile))
	if err == nil {
		defer backends.Close()
		a.backends, err = ReadBackends(backends)
	}
	if err := tolerate(err); err != nil {
		return err
	}
	return a.joinRows()
}

// joinRows checks that run ids are unique and that each row of backends.csv
// belongs to a run.
func (a *Artifact) joinRows() error {
	ids := map[string]bool{}
	for _, r := range a.runs {
		if ids[r.RunID] {
			return fmt.Errorf("%s: run %s has two rows", RunsFile, r.RunID)
		}
		ids[r.RunID] = true
	}
	kept := a.backends[:0]
	for _, b := range a.backends {
		if ids[b.RunID] {
			kept = append(kept, b)
		} else if a.sealed {
			return fmt.Errorf("%s: run %s has no row in %s", BackendsFile, b.RunID, RunsFile)
		}
	}
	a.backends = kept
	return nil
}

// Dir returns the absolute directory, links resolved.
func (a *Artifact) Dir() string { return a.dir }

// Manifest returns the manifest; of a partial result it may be the zero value.
func (a *Artifact) Manifest() Manifest { return a.manifest }

// Sealed reports whether the result is complete.
func (a *Artifact) Sealed() bool { return a.sealed }

// Torn reports whether the last line of a table was incomplete and left out.
func (a *Artifact) Torn() bool { return a.torn }

// Runs returns the rows of runs.csv in the order of the file; of a study in several
// results those of all of them, the parents' first.
func (a *Artifact) Runs() []Run { return a.runs }

// Factors returns the names of the factors in the order of their columns.
func (a *Artifact) Factors() []string { return a.factors }

// Backends returns the rows of backends.csv as [Artifact.Runs] does.
func (a *Artifact) Backends() []BackendRow { return a.backends }

// ReadFile returns a file of the result by its path with slashes; raw data comes
// from the result of the study that has the run.
func (a *Artifact) ReadFile(name string) ([]byte, error) {
	if err := checkRelative(name); err != nil {
		return nil, err
	}
	dir := a.dir
	if rest, raw := strings.CutPrefix(name, RawDir+"/"); raw {
		if id, _, _ := strings.Cut(rest, "/"); a.owner[id] != nil {
			dir = a.owner[id].dir
		}
	}
	return os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
}

// Partials returns the directories of the lab's results that were never
// sealed, oldest name first. The next apply tells the user about them.
func Partials(resultsDir, lab string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(resultsDir, lab))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for unfinished results: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && strings.HasSuffix(e.Name(), PartialSuffix) {
			out = append(out, filepath.Join(resultsDir, lab, e.Name()))
		}
	}
	sort.Strings(out)
	return out, nil
}

// Find returns the newest sealed result of the lab that belongs to the study,
// or "" when there is none; shard is the share of its blocks, "" = all of them.
// Results that cannot be read are passed over.
func Find(ctx context.Context, resultsDir, lab, study, shard string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(resultsDir, lab))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for results: %w", err)
	}
	best, bestTime := "", int64(0)
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if !e.IsDir() || strings.HasSuffix(e.Name(), PartialSuffix) {
			continue
		}
		dir := filepath.Join(resultsDir, lab, e.Name())
		data, err := os.ReadFile(filepath.Join(dir, ManifestFile))
		if err != nil {
			continue
		}
		m, err := ParseManifest(data)
		if err != nil || m.Study != study || m.Shard != shard || m.Partial != "" {
			continue
		}
		if t := m.StartedAt.UnixNano(); best == "" || t > bestTime {
			best, bestTime = dir, t
		}
	}
	return best, nil
}
