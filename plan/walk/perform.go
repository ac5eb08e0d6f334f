package walk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

// perform carries out one step: intent, call, record. The first error is the
// call's, the second says that something could not be written down.
func (w *walker) perform(ctx context.Context, n step) (err, unrecorded error) {
	c, op := w.changes[n.addr], w.op(n)
	if op == plan.Delete {
		return w.remove(ctx, c)
	}
	r := *c.Want
	p, schema, err := w.Providers.For(r.Type)
	if err != nil {
		return err, nil
	}
	seq, err := w.Recorder.Begin(op, r)
	if err != nil {
		return nil, err
	}
	v, err := bounded(ctx, w.Options, op, r.Type, func(ctx context.Context) (cty.Value, error) {
		if op == plan.Update {
			return p.Update(ctx, r, c.Before())
		}
		return p.Create(ctx, r)
	})
	if err == nil {
		err = conforms(v, schema)
	}
	switch {
	case err == nil:
		return nil, w.Recorder.Made(seq, r, v, nil)
	case errors.Is(err, provider.ErrForeign):
		return err, w.Recorder.Unchanged(seq, err)
	case op == plan.Update:
		return err, w.Recorder.HalfDone(seq, r, err)
	}
	// A failed create is kept: it may have left something, and what went wrong
	// should be there to be looked at.
	return err, w.Recorder.Made(seq, r, r.Attrs, err)
}

func (w *walker) remove(ctx context.Context, c plan.Change) (err, unrecorded error) {
	r := c.Have.Resource()
	p, _, err := w.Providers.For(r.Type)
	if err != nil {
		return err, nil
	}
	seq, err := w.Recorder.Begin(plan.Delete, r)
	if err != nil {
		return nil, err
	}
	_, err = bounded(ctx, w.Options, plan.Delete, r.Type, func(ctx context.Context) (struct{}, error) {
		err := p.Delete(ctx, r, c.Have.Value)
		if half := c.Have.Half; err == nil && half != cty.NilVal { // the rest goes by its other description
			r.Attrs = half
			err = p.Delete(ctx, r, half)
		}
		return struct{}{}, err
	})
	if err != nil {
		return err, w.Recorder.Doubtful(seq, c.Addr, err)
	}
	gone := []addr.Resource{c.Addr}
	for _, held := range w.goes[c.Addr] {
		gone = append(gone, held.Addr)
	}
	return nil, w.Recorder.Gone(seq, gone...)
}

func conforms(v cty.Value, s provider.Schema) error {
	if v == cty.NilVal || v.IsNull() || !v.IsWhollyKnown() || !v.Type().Equals(s.Type()) {
		return fmt.Errorf("the provider returned something that is no known %s", s.Noun)
	}
	return nil
}

// HungError says that a call did not even return after its deadline. What it
// did is unknown, and it may be going on.
type HungError struct {
	Op       plan.Op
	Deadline time.Duration
}

func (e *HungError) Error() string {
	return fmt.Sprintf("%s has not returned, although its %s were over", e.Op, e.Deadline)
}

// bounded makes a call with its deadline. The walk's context does not cancel
// it, only Abort does. A call that does not listen is given up.
func bounded[T any](ctx context.Context, o Options, op plan.Op, typ string, call func(context.Context) (T, error)) (T, error) {
	limit := DefaultDeadline
	if o.Deadline != nil {
		limit = o.Deadline(op, typ)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if o.Abort != nil {
		defer context.AfterFunc(o.Abort, cancel)()
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		v, err := call(ctx)
		answers <- answer{v, err}
	}()
	grace := o.Grace
	if grace == 0 {
		grace = 5 * time.Second
	}
	select {
	case a := <-answers:
		return a.value, late(a.err, op, limit)
	case <-ctx.Done():
	}
	select {
	case a := <-answers:
		return a.value, cut(late(a.err, op, limit), o, op)
	case <-time.After(grace):
		var none T
		if o.aborted() {
			return none, cut(context.Canceled, o, op)
		}
		return none, diag.Fail(&HungError{op, limit}, "a call hangs", "look at the console with lvslab logs, then lvslab destroy", "")
	}
}

// ErrCutShort is wrapped by the error of a call that was cancelled while it was
// under way: what it did is unknown.
var ErrCutShort = errors.New("cut short")

func (o Options) aborted() bool { return o.Abort != nil && o.Abort.Err() != nil }

// cut explains an error that is nothing but the end of Abort. Reading has no
// effect to be unsure of.
func cut(err error, o Options, op plan.Op) error {
	var known *diag.Failure
	if op == Read || !o.aborted() || !errors.Is(err, context.Canceled) || errors.As(err, &known) {
		return err
	}
	return diag.Fail(errors.Join(ErrCutShort, err), "cut short", "the next command looks at what has become of it",
		"%s was cancelled while it was under way", op)
}

// late explains an error that is nothing but the deadline.
func late(err error, op plan.Op, limit time.Duration) error {
	var known *diag.Failure
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &known) {
		return diag.Fail(err, "took too long", "see what the machine says with lvslab logs; a busy host needs more time or less --parallelism",
			"%s did not end within %s", op, limit)
	}
	return err
}
