package artifact

import (
	"fmt"
	"path/filepath"
)

// RunDir is raw/<run_id>/, the raw data of one run.
type RunDir struct {
	w  *Writer
	id string
}

// StartRun makes raw/<run_id>/. Each run id may be started once.
func (w *Writer) StartRun(runID string) (*RunDir, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil, ErrEnded
	}
	if err := checkSegment("run id", runID); err != nil {
		return nil, err
	}
	if w.started[runID] {
		return nil, fmt.Errorf("run %s has raw data already", runID)
	}
	if err := makeDirs(filepath.Join(w.dir, RawDir, runID), w.owner); err != nil {
		return nil, explain(err, "creating the raw directory of run "+runID, w.dir)
	}
	w.started[runID] = true
	return &RunDir{w: w, id: runID}, nil
}

// WriteFile stores one file of the run and syncs it. name is relative and may
// hold slashes (try-1/conns.csv).
func (d *RunDir) WriteFile(name string, data []byte) error {
	return d.w.write(RawDir+"/"+d.id+"/"+name, data)
}

// Path returns raw/<run_id>, the path inside the result.
func (d *RunDir) Path() string { return RawDir + "/" + d.id }
