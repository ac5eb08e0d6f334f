package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/operation"
)

// Result is what the experiments of a lab have found.
type Result struct {
	// Dir is the artifact's directory, absolute; its files are described in
	// docs/artifact.md, and summary.json is the whole answer as data.
	Dir string
	// Checks are the topology's check blocks, in their order.
	Checks []Check
	// Runs are the rows of runs.csv, in the order in which the runs were made.
	Runs []Run
}

// Check is one check block, evaluated.
type Check struct {
	Name    string
	Passed  bool
	Message string // why not
}

// Run is one run of an experiment.
type Run struct {
	ID         string // of the run, as in runs.csv
	Experiment string // its name
	Treatment  string // scheduler=rr,one_packet=false
	Block      int    // from 1
	// Valid is false when the lab or its counts broke during the run, so that it
	// can carry no claim. Lost queries do not make it so.
	Valid bool
	Flags []string // named outcomes, as lost_in_tunnel; empty = none
	// Sent are the queries that left the clients, Answered those with a good answer
	// in time, from the VIP.
	Sent, Answered int
	// Decisions are the choices that the scheduler made, -1 where that is not known.
	Decisions int
	// Backends are in the order of the kernel's list, the head first.
	Backends []Backend
}

// Backend is what one backend had of a run.
type Backend struct {
	Name string // backend.ns[0]
	// Answered are the good answers that came from it, Conns the connections that
	// IPVS has made to it: 0 in a run without LVS.
	Answered int
	Conns    int64
}

// Err is nil when every run is valid and every check has passed; else it says
// which is not.
func (r *Result) Err() error {
	var errs []error
	for _, x := range r.Runs {
		if !x.Valid {
			errs = append(errs, fmt.Errorf("run %s of %s is not valid: %v", x.ID, x.Treatment, x.Flags))
		}
	}
	for _, c := range r.Checks {
		if !c.Passed {
			errs = append(errs, fmt.Errorf("check %s: %s", c.Name, c.Message))
		}
	}
	return errors.Join(errs...)
}

// Run carries out the experiments of the topology on the lab, which stays up, and
// returns what they have found: a failed check is a result and no error, see
// [Result.Err]. Each call makes all runs and leaves an artifact of its own.
func (l *Lab) Run(ctx context.Context) (*Result, error) {
	ctx, abort, cancel := l.within(ctx)
	defer cancel()
	var heard ending
	s, end := l.settings(&heard)
	defer end()
	s.Abort = abort
	if _, err := operation.Run(ctx, s, l.topology, operation.RunOptions{Results: l.opts.results}); err != nil {
		return nil, explainable(l.inTime(ctx, err), s)
	}
	return heard.result()
}

// ending keeps what an operation says at its end. No two of these events come at
// once.
type ending struct {
	dir    string
	checks []Check
}

// Emit implements operation.Events.
func (e *ending) Emit(event operation.Event) {
	switch event := event.(type) {
	case operation.CheckEvent:
		e.checks = append(e.checks, Check{event.Name, event.Passed, event.Message})
	case operation.SummaryEvent:
		e.dir = event.Artifact
	}
}

func (e *ending) result() (*Result, error) {
	a, err := artifact.Open(e.dir)
	if err != nil {
		return nil, err
	}
	rows := map[string][]artifact.BackendRow{}
	for _, b := range a.Backends() {
		rows[b.RunID] = append(rows[b.RunID], b)
	}
	r := &Result{Dir: a.Dir(), Checks: e.checks}
	for _, run := range a.Runs() {
		r.Runs = append(r.Runs, runOf(run, rows[run.RunID]))
	}
	return r, nil
}
