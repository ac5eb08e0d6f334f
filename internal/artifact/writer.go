package artifact

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/lvslab/lvslab/internal/diag"
)

// Writer writes one result. Its methods may be called from several goroutines.
type Writer struct {
	mu       sync.Mutex
	labDir   string // results/<lab>
	lab, run string
	dir      string // results/<lab>/<run>.partial until sealed
	owner    *Owner
	columns  []column[Run] // nil before SetFactors
	factors  []string
	runs     *os.File
	backends *os.File
	ids      map[string]bool // runs that have a row
	started  map[string]bool // runs that have a directory
	ended    bool
	lock     *os.File // of the directory, until the end
}

// ErrEnded is returned by the methods of a Writer after Finalise or Abandon.
var ErrEnded = errors.New("the result is already closed")

// Create makes results/<lab>/<run>.partial. runName must be new: the caller
// makes it from the time in UTC and a short random suffix. Everything written
// belongs to owner (nil = as the program runs).
func Create(resultsDir, lab, runName string, owner *Owner) (*Writer, error) {
	if err := errors.Join(checkSegment("lab name", lab), checkSegment("result name", runName)); err != nil {
		return nil, err
	}
	if runName == LatestLink || strings.HasSuffix(runName, PartialSuffix) {
		return nil, fmt.Errorf("result name %q is reserved", runName)
	}
	abs, err := filepath.Abs(resultsDir)
	if err != nil {
		return nil, fmt.Errorf("results directory: %w", err)
	}
	w := &Writer{labDir: filepath.Join(abs, lab), lab: lab, run: runName, owner: owner,
		ids: map[string]bool{}, started: map[string]bool{}}
	w.dir = filepath.Join(w.labDir, runName+PartialSuffix)
	if err := w.makeEmpty(); err != nil {
		return nil, explain(err, "creating the result", w.labDir)
	}
	return w, nil
}

func (w *Writer) makeEmpty() error {
	if err := makeDirs(w.labDir, w.owner); err != nil {
		return err
	}
	taken := func(path string) error {
		return diag.Fail(os.ErrExist, "A result of this name exists already",
			"Apply again: the next result gets another name.", "%s is there.", path)
	}
	if _, err := os.Lstat(filepath.Join(w.labDir, w.run)); err == nil {
		return taken(filepath.Join(w.labDir, w.run))
	}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return taken(w.dir)
		}
		return err
	}
	var err error
	if w.lock, err = lockDir(w.dir); err != nil {
		return err
	}
	if err := w.owner.take(w.dir); err != nil {
		return err
	}
	for _, sub := range []string{TopologyDir, RawDir} {
		if err := makeDirs(filepath.Join(w.dir, sub), w.owner); err != nil {
			return err
		}
	}
	return syncDir(w.labDir)
}

// Dir returns the directory as it is named now.
func (w *Writer) Dir() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dir
}

// AddInput stores a file of the input below topology/; name is relative and
// may hold slashes.
func (w *Writer) AddInput(name string, data []byte) error {
	return w.write(TopologyDir+"/"+name, data)
}

// SetPlan stores plan.json.
func (w *Writer) SetPlan(json []byte) error { return w.write(PlanFile, json) }

// SetPaths stores paths.json, in the place of the one that an earlier session has left.
func (w *Writer) SetPaths(json []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return ErrEnded
	}
	return explain(replaceFiles(w.dir, w.owner, newFile{PathsFile, json}), "writing "+PathsFile, w.dir)
}

// write stores a new file under its path in the result.
func (w *Writer) write(name string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return ErrEnded
	}
	return w.writeLocked(name, data)
}

func (w *Writer) writeLocked(name string, data []byte) error {
	if err := checkRelative(name); err != nil {
		return err
	}
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	err := makeDirs(filepath.Dir(path), w.owner)
	if err == nil {
		err = writeFile(path, data, w.owner)
	}
	return explain(err, "writing "+name, w.dir)
}

// SetFactors fixes the factor columns of runs.csv and writes both tables'
// header lines. It must come before the first AddRun and only once.
func (w *Writer) SetFactors(names []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return ErrEnded
	}
	if w.columns != nil {
		return fmt.Errorf("the factor columns are already fixed as %q", w.factors)
	}
	for i, n := range names {
		if n == "" || strings.ContainsAny(n, ",\"\r\n;") || slices.Contains(names[:i], n) {
			return fmt.Errorf("factor name %q cannot be a column", n)
		}
	}
	w.factors = slices.Clone(names)
	columns := runColumnsWith(w.factors)
	runs, err := w.newTable(RunsFile, header(columns))
	if err != nil {
		return err
	}
	backends, err := w.newTable(BackendsFile, header(backendColumns))
	if err != nil {
		return errors.Join(err, runs.Close())
	}
	w.columns, w.runs, w.backends = columns, runs, backends
	return nil
}

func (w *Writer) newTable(name string, head []string) (*os.File, error) {
	line, err := encodeRow(head)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(w.dir, name)
	if err := writeFile(path, line, w.owner); err != nil {
		return nil, explain(err, "writing "+name, w.dir)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	return f, explain(err, "opening "+name, w.dir)
}

// AddRun appends the run's row and those of its backends and syncs them. The
// backends' rows are written first: a run without a row in runs.csv did not
// happen, whatever else a crash left of it.
func (w *Writer) AddRun(run Run, rows []BackendRow) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return ErrEnded
	}
	if err := w.checkRun(run, rows); err != nil {
		return fmt.Errorf("run %s: %w", run.RunID, err)
	}
	rc, err := cells(w.columns, &run)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.RunID, err)
	}
	runLine, err := encodeRow(rc)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.RunID, err)
	}
	var backendLines []byte
	for i := range rows {
		bc, err := cells(backendColumns, &rows[i])
		if err != nil {
			return fmt.Errorf("run %s, backend %s: %w", run.RunID, rows[i].Backend, err)
		}
		line, err := encodeRow(bc)
		if err != nil {
			return fmt.Errorf("run %s, backend %s: %w", run.RunID, rows[i].Backend, err)
		}
		backendLines = append(backendLines, line...)
	}
	if err := appendSync(w.backends, backendLines); err != nil {
		return explain(err, "writing "+BackendsFile, w.dir)
	}
	if err := appendSync(w.runs, runLine); err != nil {
		return explain(err, "writing "+RunsFile, w.dir)
	}
	w.ids[run.RunID] = true
	return nil
}

func (w *Writer) checkRun(run Run, rows []BackendRow) error {
	switch {
	case w.columns == nil:
		return errors.New("the factor columns are not fixed yet")
	case w.ids[run.RunID]:
		return errors.New("it has a row already")
	case run.Block < 1 || run.Order < 1:
		return fmt.Errorf("block %d and order %d count from 1", run.Block, run.Order)
	}
	for name := range run.Factors {
		if !slices.Contains(w.factors, name) {
			return fmt.Errorf("factor %q has no column", name)
		}
	}
	for i, b := range rows {
		if b.RunID != run.RunID {
			return fmt.Errorf("backend %s belongs to run %q", b.Backend, b.RunID)
		}
		for _, other := range rows[:i] {
			if other.Backend == b.Backend {
				return fmt.Errorf("backend %s has two rows", b.Backend)
			}
		}
	}
	return checkSegment("run id", run.RunID)
}

// appendSync appends with one write. A write that failed half-way is taken
// back, so that a full disk leaves no torn line behind.
func appendSync(f *os.File, data []byte) error {
	before, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Truncate(before))
	}
	return f.Sync()
}
