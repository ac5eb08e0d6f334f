package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// timed is a test with a deadline of its own.
type timed struct {
	testing.TB
	end time.Time
}

func (t timed) Deadline() (time.Time, bool) { return t.end, !t.end.IsZero() }

func TestWithin(t *testing.T) {
	end := time.Now().Add(time.Hour)
	var l Lab
	l.setDeadline(timed{t, end})
	soft, hard, cancel := l.within(t.Context())
	defer cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		before time.Duration
	}{"soft": {soft, toTakeDown}, "hard": {hard, toTakeDown / 2}} {
		if at, ok := c.ctx.Deadline(); !ok || !at.Equal(end.Add(-c.before)) {
			t.Errorf("%s ends at %v, want %s before %v", name, at, c.before, end)
		}
	}
	l.setDeadline(timed{t, time.Now().Add(20 * time.Second)})
	if l.keep > 5*time.Second || l.keep < 4*time.Second {
		t.Errorf("%s of 20 s are kept", l.keep)
	}

	for _, none := range []testing.TB{timed{t, time.Time{}}, struct{ testing.TB }{t}} {
		l = Lab{}
		l.setDeadline(none)
		soft, hard, cancel = l.within(t.Context())
		if _, ok := soft.Deadline(); ok || hard != nil {
			t.Errorf("a test without a deadline has one")
		}
		cancel()
	}
}

// TestInTime: only an error for want of time is called one.
func TestInTime(t *testing.T) {
	broken := errors.New("broken")
	l := Lab{ends: time.Now()} // over
	soft, _, cancel := l.within(t.Context())
	defer cancel()
	<-soft.Done()
	err := l.inTime(soft, broken)
	if !errors.Is(err, broken) || !strings.Contains(Explain(err), "go test -timeout") {
		t.Errorf("%s", Explain(err))
	}
	if err := l.inTime(soft, nil); err != nil {
		t.Errorf("success became %v", err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := l.inTime(ended, broken); err != broken {
		t.Errorf("another context's end became %v", err)
	}
}
