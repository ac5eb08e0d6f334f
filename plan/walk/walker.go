package walk

import (
	"context"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
)

// walker is one run. All its bookkeeping happens in one goroutine; only the
// calls run in others.
type walker struct {
	Options
	*steps
	result  Result
	open    map[step]int // what a step still waits for
	ready   []step
	settled map[step]bool // done, failed, skipped or not begun
	results chan outcome
	room    int // how many of the steps that come first are not settled
	aside   map[step]bool
	held    []step // of these, what is ready but for the others
	others  int    // not aside and not settled
	running int
	stopped bool
}

type outcome struct {
	step       step
	took       time.Duration
	err        error // of the call
	unrecorded error
}

func (w *walker) run(ctx context.Context) Result {
	w.open, w.settled, w.results = map[step]int{}, map[step]bool{}, make(chan outcome)
	if _, err := w.graph.Levels(); err != nil {
		return Result{Unrecorded: err, NotBegun: w.graph.Len()}
	}
	for _, n := range w.graph.Nodes() {
		w.open[n] = len(w.graph.Needs(n))
	}
	if w.room = len(w.first); w.room > 0 {
		for _, n := range w.later {
			w.open[n]++
		}
	}
	w.putAside()
	for _, n := range w.graph.Nodes() {
		if w.open[n] == 0 {
			w.enqueue(n)
		}
	}
	w.stopped = ctx.Err() != nil
	stop := ctx.Done()
	for {
		w.launch(ctx)
		if w.running == 0 {
			break
		}
		select {
		case o := <-w.results:
			w.running--
			w.settle(o)
		case <-stop:
			w.stopped, stop = true, nil
		}
	}
	w.leave()
	return w.result
}

func (w *walker) launch(ctx context.Context) {
	slices.SortFunc(w.ready, w.urgency)
	for len(w.ready) > 0 && w.running < w.parallelism() && !w.stopped && ctx.Err() == nil {
		n := w.ready[0]
		w.ready = w.ready[1:]
		w.running++
		w.observe(Event{Kind: Started, Change: w.changes[n.addr], Op: w.op(n)})
		go func() {
			begun := time.Now()
			err, unrecorded := w.perform(ctx, n)
			w.results <- outcome{n, time.Since(begun), err, unrecorded}
		}()
	}
}

func (w *walker) settle(o outcome) {
	n := o.step
	w.mark(n)
	if o.unrecorded != nil {
		w.stopped = true
		if w.result.Unrecorded == nil {
			w.result.Unrecorded = o.unrecorded
		}
	}
	e := Event{Kind: Done, Change: w.changes[n.addr], Op: w.op(n), Took: o.took}
	if err := firstOf(o.err, o.unrecorded); err != nil {
		e.Kind, e.Err = Failed, err
		w.observe(e)
		if o.err != nil {
			w.result.Failures = append(w.result.Failures, Failure{n.addr, e.Op, o.err})
		}
		w.skip(n, n.addr)
		return
	}
	w.result.Done++
	w.observe(e)
	if n.drop {
		for _, c := range w.goes[n.addr] {
			w.observe(Event{Kind: Done, Change: c, Op: e.Op})
		}
	}
	for _, m := range w.graph.NeededBy(n) {
		w.release(m)
	}
}

// mark notes that a step needs no more attention, however it ended.
func (w *walker) mark(n step) {
	w.settled[n] = true
	if !w.aside[n] {
		if w.others--; w.others == 0 {
			w.ready, w.held = append(w.ready, w.held...), nil
		}
	}
	if !w.first[n] {
		return
	}
	if w.room--; w.room == 0 {
		for _, m := range w.later {
			w.release(m)
		}
	}
}

// release takes away one of the things that a step waits for.
func (w *walker) release(n step) {
	if w.open[n]--; w.open[n] == 0 && !w.settled[n] {
		w.enqueue(n)
	}
}

// skip settles all that needs a failed step. The cause stays the first failure,
// so that it is told once.
func (w *walker) skip(n step, because addr.Resource) {
	for _, m := range w.graph.NeededBy(n) {
		if w.settled[m] {
			continue
		}
		w.mark(m)
		w.result.Skipped++
		w.observe(Event{Kind: Skipped, Change: w.changes[m.addr], Op: w.op(m), Because: because})
		w.skip(m, because)
	}
}

// leave accounts for what was not begun.
func (w *walker) leave() {
	for _, n := range w.graph.Nodes() {
		if !w.settled[n] {
			w.result.NotBegun++
			w.observe(Event{Kind: NotBegun, Change: w.changes[n.addr], Op: w.op(n)})
		}
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
