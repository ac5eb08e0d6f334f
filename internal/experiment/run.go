package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

const (
	// tries is how often the preconditions of a run are attempted. What is
	// measured is never attempted again, but for the clients of a run that began
	// further apart than was asked: see [machinery.load].
	tries = 3
	// tryPause lets what disturbed a try go by.
	tryPause = 500 * time.Millisecond
	// hopeless is the number of runs in a row without preconditions after
	// which a lab is given up: something in it is broken for good.
	hopeless = 3
)

// Hooks tell whoever watches. Both may be nil.
type Hooks struct {
	// RunStarted is called before run k of n, k from 1.
	RunStarted func(k, n int, t Trial)
	// RunDone is called when the run is recorded; took includes everything
	// since RunStarted.
	RunDone func(k, n int, run artifact.Run, backends []artifact.BackendRow, took time.Duration)
}

// Done is one finished run.
type Done struct {
	Run      artifact.Run
	Backends []artifact.BackendRow
	// Renewed are the machines that were made anew for the run.
	Renewed []Renewed
}

// Outcome is what [Run] brought, also when it ended early.
type Outcome struct {
	Done []Done
	// Interrupted says that the context ended before all trials were run.
	Interrupted bool
	// GivenBack says that the director has its declared services again: the
	// journaled loan can be cleared.
	GivenBack bool
}

// Run carries out the trials in order and records each as it finishes. It
// borrows the service's settings (journal [Borrow] before) and gives them back
// at the end, also after a failure or an interruption. When ctx ends, the run
// in progress is finished if its load is done and abandoned without a trace if
// not; that is no error. An error means that a machine no longer answers, that
// nothing can be recorded, or that the lab does not meet the preconditions.
func Run(ctx context.Context, lab *Lab, e lang.Experiment, trials []Trial, rec Recorder, hooks Hooks) (Outcome, error) {
	var out Outcome
	loan, err := Borrow(lab.Topology, e.Noun, e.Service)
	if err != nil {
		return out, err
	}
	c, err := lab.cast(e.Service, e.Clients)
	if err != nil {
		return out, err
	}
	m, err := newMachinery(lab, e, c)
	if err != nil {
		return out, err
	}
	failedRuns := 0
	for k, t := range trials {
		if ctx.Err() != nil {
			break
		}
		if hooks.RunStarted != nil {
			hooks.RunStarted(k+1, len(trials), t)
		}
		began := time.Now()
		done, runErr := m.one(ctx, c, t, rec)
		if runErr != nil {
			if ctx.Err() == nil || inDoubt(runErr) {
				err = fmt.Errorf("run %s: %w", t.RunID, runErr)
			}
			break
		}
		out.Done = append(out.Done, done)
		if hooks.RunDone != nil {
			hooks.RunDone(k+1, len(trials), done.Run, done.Backends, time.Since(began))
		}
		if failedRuns = countFailed(failedRuns, done); failedRuns == hopeless {
			err = unfit(done.Run)
			break
		}
	}
	out.Interrupted = err == nil && len(out.Done) < len(trials)
	if inDoubt(err) {
		out.GivenBack = true // what had borrowed something is gone, or will be replaced
		return out, err
	}
	if back := m.declaredAgain(ctx); back != nil {
		out.GivenBack = true
		return out, errors.Join(err, back)
	}
	back := loan.GiveBack(context.WithoutCancel(ctx), lab)
	out.GivenBack = back == nil
	return out, errors.Join(err, back)
}

// countFailed counts the runs in a row that were never loaded.
func countFailed(before int, d Done) int {
	if !d.Run.Valid && len(d.Backends) == 0 {
		return before + 1
	}
	return 0
}

func unfit(last artifact.Run) error {
	return diag.Fail(nil, "The lab does not meet the preconditions of a run",
		"Look at the machines named (lvslab exec, lvslab logs), then apply again; the tries are in raw/"+last.RunID+"/.",
		"%d runs in a row could not start. The last one: %s.", hopeless, last.PreconditionFailures[len(last.PreconditionFailures)-1])
}

// one carries out a trial and records it.
func (m *machinery) one(ctx context.Context, c *cast, t Trial, rec Recorder) (Done, error) {
	out := &measured{
		trial: t, cast: c, planned: m.lab.Planned[t.RunID], keepCaptures: m.exp.Capture, duplicating: duplicates(m.lab.Topology),
		captures: map[addr.Noun]proto.CaptureResult{},
		after:    map[addr.Noun]proto.CounterSet{},
		klog:     map[addr.Noun][]proto.KernelLine{},
	}
	var err error
	if out.processes, err = m.processes(c, t.Treatment.Setting); err != nil {
		return Done{}, err
	}
	if err := m.meet(ctx, out); err != nil {
		return Done{}, err
	}
	if err := m.load(ctx, out); err != nil {
		return Done{}, err
	}
	done := Done{Renewed: out.renewed}
	var raw map[string][]byte
	if out.before == nil {
		done.Run, raw = failedRow(t, out.tries), map[string][]byte{}
		addTries(raw, out.tries)
		if err := addRenewed(raw, out.renewed); err != nil {
			return Done{}, err
		}
	} else {
		if err := m.read(ctx, out); err != nil {
			return Done{}, err
		}
		var notes []string
		done.Run, done.Backends, notes = out.rows()
		if raw, err = out.raw(notes); err != nil {
			return Done{}, err
		}
	}
	return done, rec.Record(done.Run, done.Backends, raw)
}

// meet brings about the preconditions, in at most three tries, each with
// machines of its own when the experiment isolates its runs so. Without success
// out.before stays nil.
func (m *machinery) meet(ctx context.Context, out *measured) error {
	for n := len(out.tries) + 1; n <= tries; n++ {
		at := time.Now()
		failed, err := m.attempt(ctx, out, n)
		if err != nil && len(m.renewals) > 0 && n < tries && ctx.Err() == nil {
			// A machine that could not be made or does not answer is not the last
			// one: the next try has another.
			failed, err = []string{err.Error()}, nil
		}
		if err != nil {
			return err
		}
		if out.before != nil {
			return nil
		}
		if ctx.Err() != nil { // a guest may answer that its call was cancelled
			return ctx.Err()
		}
		out.tries = append(out.tries, try{n, at, failed})
		if n < tries {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(tryPause):
			}
		}
	}
	return nil
}

// attempt is try n: new machines if need be, step 1, steps 2 to 6. What does not
// hold is returned in words.
func (m *machinery) attempt(ctx context.Context, out *measured, n int) ([]string, error) {
	if err := m.renew(ctx, out); err != nil {
		return nil, err
	}
	s := out.trial.Treatment.Setting
	failed, err := prime(ctx, m.lab, out.cast, s)
	if err == nil && len(failed) == 0 {
		out.before, failed, err = m.prepare(ctx, out.cast, s, out.processes, fmt.Sprintf("%s.%d", out.trial.RunID, n))
	}
	return failed, err
}
