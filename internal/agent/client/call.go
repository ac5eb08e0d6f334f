// Package client is the host's side of the agent: it opens a guest's port,
// enrols the guest, speaks SSH with it, and sends the typed calls of package
// proto, alone ([Do]) or several in one round trip ([Batch]).
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Caller sends a batch of calls to one guest. [Conn] is the real one; tests
// bring their own. The agent carries the calls out in order and stops after the
// first that fails: there are as many results as calls begun. The error is not
// nil when the batch as a whole has no known outcome: the connection was lost,
// or ctx ended first.
type Caller interface {
	Call(ctx context.Context, calls []proto.Envelope) ([]proto.Result, error)
}

// ErrNotRun is the error of a batch's call that was not begun because an
// earlier one had failed.
var ErrNotRun = errors.New("not run: an earlier call of the batch failed")

// Do carries out one call. An error from inside the guest is a [*proto.Error].
func Do[A, R any](ctx context.Context, c Caller, call proto.Call[A, R], args A) (R, error) {
	var b Batch
	f := Add(&b, call, args)
	err := b.Run(ctx, c)
	return f.value, err
}

// Batch is a list of calls that cost one round trip. The zero Batch is empty.
type Batch struct {
	calls []proto.Envelope
	take  []func(proto.Result, error)
	err   error // of making the arguments
}

// Future is the outcome of one call of a batch, known after [Batch.Run].
type Future[R any] struct {
	value R
	err   error
}

// Value returns the result, the zero R when the call failed or was not run.
func (f *Future[R]) Value() R { return f.value }

// Err returns the call's own error, ErrNotRun when it was not begun.
func (f *Future[R]) Err() error { return f.err }

// Add puts a call at the end of the batch.
func Add[A, R any](b *Batch, call proto.Call[A, R], args A) *Future[R] {
	f := &Future[R]{err: ErrNotRun}
	raw, err := json.Marshal(args)
	if err != nil {
		b.err = errors.Join(b.err, fmt.Errorf("arguments of %s: %w", call.Op, err))
	}
	b.calls = append(b.calls, proto.Envelope{Op: call.Op, Args: raw})
	b.take = append(b.take, func(r proto.Result, err error) { f.value, f.err = decode[R](call.Op, r, err) })
	return f
}

func decode[R any](op string, r proto.Result, err error) (value R, _ error) {
	switch {
	case err != nil:
		return value, err
	case r.Error != nil:
		return value, r.Error
	case len(r.Value) == 0:
		return value, nil
	}
	if err := json.Unmarshal(r.Value, &value); err != nil {
		return value, fmt.Errorf("result of %s: %w", op, err)
	}
	return value, nil
}

// Len returns the number of calls in the batch.
func (b *Batch) Len() int { return len(b.calls) }

// Run sends the batch and fills in its futures. It returns the first error of
// any call. An empty batch costs nothing. A batch runs once.
func (b *Batch) Run(ctx context.Context, c Caller) error {
	if b.err != nil {
		return b.err
	}
	if len(b.calls) == 0 {
		return nil
	}
	results, err := c.Call(ctx, b.calls)
	var first error
	for i, take := range b.take {
		switch {
		case i < len(results):
			take(results[i], nil)
			if first == nil && results[i].Error != nil {
				first = results[i].Error
			}
		case err != nil:
			take(proto.Result{}, err)
		default:
			take(proto.Result{}, ErrNotRun)
		}
	}
	if err != nil {
		return err
	}
	if first == nil && len(results) < len(b.calls) {
		return fmt.Errorf("the agent answered %d of %d calls without naming an error", len(results), len(b.calls))
	}
	return first
}
