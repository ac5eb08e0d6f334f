package lab

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// toTakeDown is what is kept of a test's time for the end of its lab, which takes a
// second or two, after the longest that a call under way takes as a rule. Of less
// than 80 s it is a quarter. In the second half of it calls are no longer waited for.
const toTakeDown = 20 * time.Second

var errTime = errors.New("the test's time is nearly up")

// setDeadline takes over when a test must have ended. A benchmark has no such moment.
func (l *Lab) setDeadline(t testing.TB) {
	if l.ends = deadlineOf(t); !l.ends.IsZero() {
		l.keep = max(0, min(toTakeDown, time.Until(l.ends)/4))
	}
}

// deadlineOf is when a test must have ended; zero when there is no such moment.
func deadlineOf(t testing.TB) time.Time {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := d.Deadline(); ok {
			return end
		}
	}
	return time.Time{}
}

// within are the two contexts of an operation of this lab: the end of the first
// lets it finish what it is at, the end of the second does not.
func (l *Lab) within(ctx context.Context) (soft, hard context.Context, cancel context.CancelFunc) {
	if l.ends.IsZero() {
		soft, cancel = context.WithCancel(ctx)
		return soft, nil, cancel
	}
	soft, end := context.WithDeadlineCause(ctx, l.ends.Add(-l.keep), errTime)
	hard, abort := context.WithDeadlineCause(context.WithoutCancel(ctx), l.ends.Add(-l.keep/2), errTime)
	return soft, hard, func() { end(); abort() }
}

// inTime says of an error of an operation that it is one of time.
func (l *Lab) inTime(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), errTime) {
		return err
	}
	return diag.Fail(err, "The test's time is nearly up", "Give it more: go test -timeout.",
		"the last %s of it are kept to take the lab down", l.keep.Round(time.Second))
}
