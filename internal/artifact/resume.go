package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Resume opens a partial result for writing what it lacks. What is left of runs
// that are not whole is removed, so that they can be made again. Inputs and plan
// are to be written anew. It fails with [ErrBusy] when another process writes to
// the result, and with [ErrCannotContinue] when it is not fit for it.
func Resume(ctx context.Context, dir string, owner *Owner) (*Writer, *Unfinished, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("partial result: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, nil, explain(err, "continuing a result", dir)
	}
	labDir := filepath.Dir(dir)
	w := &Writer{labDir: labDir, lab: filepath.Base(labDir), run: strings.TrimSuffix(filepath.Base(dir), PartialSuffix), owner: owner,
		dir: dir, lock: lock, ids: map[string]bool{}, started: map[string]bool{}}
	u, err := Unfinish(ctx, dir) // under the lock: what was planned with may be older
	if err == nil {
		err = explain(w.takeUp(u), "continuing a result", dir)
	}
	if err != nil {
		w.unlock()
		return nil, nil, errors.Join(err, w.closeTables())
	}
	return w, u, nil
}

// takeUp brings the directory to what the whole runs are, and the writer with it.
func (w *Writer) takeUp(u *Unfinished) error {
	w.factors = u.factors
	w.columns = runColumnsWith(w.factors)
	for id := range u.Whole {
		w.ids[id], w.started[id] = true, true
	}
	// The tables first: a run without a row did not happen, whatever is left of it.
	for _, name := range []string{RunsFile, BackendsFile} {
		if err := w.keepRows(name, u.Whole); err != nil {
			return err
		}
	}
	for id := range u.Broken {
		if err := os.RemoveAll(filepath.Join(w.dir, RawDir, id)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(filepath.Join(w.dir, TopologyDir)); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(w.dir, PlanFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(syncDir(filepath.Join(w.dir, RawDir)), syncDir(w.dir)); err != nil {
		return err
	}
	var err error
	if w.runs, err = os.OpenFile(filepath.Join(w.dir, RunsFile), os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return err
	}
	w.backends, err = os.OpenFile(filepath.Join(w.dir, BackendsFile), os.O_WRONLY|os.O_APPEND, 0)
	return err
}

// keepRows leaves the lines of whole runs in a table, as they are: a row is a line,
// and the run's id its first cell.
func (w *Writer) keepRows(name string, whole map[string]bool) error {
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return err
	}
	var kept bytes.Buffer
	for i, line := range bytes.SplitAfter(data, []byte("\n")) {
		id, _, _ := bytes.Cut(line, []byte(","))
		if bytes.HasSuffix(line, []byte("\n")) && (i == 0 || whole[strings.Trim(string(id), `"`)]) {
			kept.Write(line)
		}
	}
	if bytes.Equal(kept.Bytes(), data) {
		return nil
	}
	return replaceFiles(w.dir, w.owner, newFile{name, kept.Bytes()})
}

// Checkpoint writes the draft of the manifest: conditions and sessions as they are
// known before the runs, which is what remains of them when the writer is killed.
// What an earlier interruption has said of the result does not hold any more.
func (w *Writer) Checkpoint(m Manifest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return ErrEnded
	}
	m.SchemaVersion, m.Lab, m.Run, m.Files, m.Partial = SchemaVersion, w.lab, w.run, nil, "being written"
	m.FinishedAt = time.Time{}
	data, err := m.encode()
	if err == nil {
		err = replaceFiles(w.dir, w.owner, newFile{DraftFile, data})
	}
	for _, old := range []string{PartialNoteFile, ManifestSumFile, ManifestFile} {
		if err != nil {
			break
		}
		if err = os.Remove(filepath.Join(w.dir, old)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return explain(err, "writing "+DraftFile, w.dir)
}
