// Package walk carries a plan out: each change as soon as what it needs is
// done, as many at a time as allowed, every call written down before it is made
// and after it has returned. It also reads what exists, for the refresh before
// a plan.
package walk

import (
	"context"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

// Recorder writes down what happens. An error of it ends the walk: what cannot
// be remembered must not be made. The sequence number 0 stands for no intent.
type Recorder interface {
	// Begin notes, durably, that a call is about to be made.
	Begin(op plan.Op, r provider.Resource) (seq uint64, err error)
	// Made: the resource exists with these attributes; with a cause it is in doubt.
	Made(seq uint64, r provider.Resource, v cty.Value, cause error) error
	// Gone: the resources do not exist any more.
	Gone(seq uint64, gone ...addr.Resource) error
	// Doubtful: the call failed and may have broken an existing resource.
	Doubtful(seq uint64, a addr.Resource, cause error) error
	// HalfDone: the update failed and may have had a part of its effect; r is what
	// was wanted.
	HalfDone(seq uint64, r provider.Resource, cause error) error
	// Unchanged: the call failed and had no effect.
	Unchanged(seq uint64, cause error) error
}

// DefaultParallelism is how many calls are in flight when nothing else is said.
const DefaultParallelism = 10

// DefaultDeadline bounds one call. Under emulation on two busy cores a boot
// takes up to half a minute, and a hung one is noticed and tried again.
const DefaultDeadline = 3 * time.Minute

// Options of [Run] and [Refresh].
type Options struct {
	Providers *plan.Providers
	// Recorder is not used by Refresh.
	Recorder Recorder
	// Parallelism is the most calls in flight, [DefaultParallelism] when 0.
	Parallelism int
	// Deadline bounds one call, [DefaultDeadline] when nil.
	Deadline func(op plan.Op, typ string) time.Duration
	// Grace is how long after its deadline a call may take to return before it
	// is given up, 5 s when 0.
	Grace time.Duration
	// Abort, when it ends, cancels the calls in flight; nil = never. The walk's
	// own context only keeps further ones from being begun.
	Abort context.Context
	// Aside names what may come last: its steps are begun when all others are
	// settled, except those that others need. It may be nil.
	Aside func(plan.Change) bool
	// Observe is told of everything that happens, one event at a time. It may be nil.
	Observe func(Event)
}

func (o Options) parallelism() int {
	if o.Parallelism > 0 {
		return o.Parallelism
	}
	return DefaultParallelism
}

func (o Options) observe(e Event) {
	if o.Observe != nil {
		o.Observe(e)
	}
}

// Kind says what an event is about.
type Kind string

// The kinds of events. Each step has one Started followed by one Done or
// Failed, or it has one Skipped or one NotBegun alone.
const (
	Started  Kind = "started"
	Done     Kind = "done"
	Failed   Kind = "failed"
	Skipped  Kind = "skipped"   // because of another one's failure
	NotBegun Kind = "not-begun" // because the walk was stopped
)

// Event is something that happens during a walk. What is deleted along with
// the thing that holds it has a Done of its own, right after that one's.
type Event struct {
	Kind   Kind
	Change plan.Change
	Op     plan.Op
	// Took is how long the call took, of Done and Failed.
	Took time.Duration
	// Err is the failure's, of Failed.
	Err error
	// Because is the resource whose failure is the cause, of Skipped.
	Because addr.Resource
}

// Result counts what became of the steps of a plan and keeps the failures.
type Result struct {
	Done, Skipped, NotBegun int
	Failures                []Failure
	// Unrecorded is the error that ended the walk because something could not
	// be written down.
	Unrecorded error
}

// Failure is one call that went wrong.
type Failure struct {
	Addr addr.Resource
	Op   plan.Op
	Err  error
}

// Run carries the plan out. When ctx ends, the calls in flight are finished and
// no further ones begun. The result is complete in any case; its Err says
// whether all went well.
func Run(ctx context.Context, p plan.Plan, o Options) Result {
	w := &walker{Options: o, steps: newSteps(p, o.Providers)}
	if err := w.noteMoved(p); err != nil {
		return Result{Unrecorded: err, NotBegun: w.steps.graph.Len()}
	}
	return w.run(ctx)
}

// noteMoved records new dependencies of what needs no call: they decide the
// order in which it is taken down some day.
func (w *walker) noteMoved(p plan.Plan) error {
	for _, c := range p.Changes {
		if c.Action != provider.NoOp || c.Want.Within == c.Have.Within && sameAddrs(c.Want.DependsOn, c.Have.DependsOn) {
			continue
		}
		if err := w.Recorder.Made(0, *c.Want, c.Have.Value, nil); err != nil {
			return err
		}
	}
	return nil
}

func sameAddrs(a, b []addr.Resource) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
