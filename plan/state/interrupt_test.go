package state

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider/fake"
)

// interruption is a way in which the user ends an operation while a call is under
// way.
type interruption struct {
	name  string
	fault fake.Fault // of the call
	twice bool       // the call is cancelled, too
}

var interruptions = []interruption{
	{"once", fake.Work, false},
	{"twice, without effect", fake.Hang, true},
	{"twice, with half its effect", fake.HangHalf, true},
	{"twice, after its effect", fake.HangAfter, true},
}

// at makes the next operation of the bed be interrupted at its nth call.
func (i interruption) at(b *bed, nth int) {
	var interrupt, abort context.CancelFunc
	b.interrupted, interrupt = context.WithCancel(context.Background())
	b.aborted, abort = context.WithCancel(context.Background())
	b.rules = []fake.Rule{{Nth: nth, Fault: i.fault, Meanwhile: func() {
		interrupt()
		if i.twice {
			abort()
		}
	}}}
}

// Creating, changing and destroying the demonstration's lab is interrupted at each
// call, looking included. Once: the calls under way end as if nothing were, no
// further one is begun, and the state is in order, without an open intent and
// without anything in doubt. Twice: the call is cancelled, whatever its effect was,
// and what it was about is in doubt. In both cases nothing that exists is
// unknown, and the next apply and the next destroy leave what they should.
func TestEveryInterrupt(t *testing.T) {
	total := 0
	for _, s := range stories(t) {
		for k, i := range interruptions {
			if raced && k%2 == 1 {
				continue
			}
			base, points, begun := s.before(t), 0, time.Now()
			lineage := lineageOf(base)
			for nth := 1; ; nth += every() {
				b := base.after(t)
				b.parallelism = 1 + 3*((k+nth)%2) // by turns alone and with others under way
				i.at(b, nth)
				err := s.run(b, nil)
				if b.calls < nth {
					if err != nil {
						t.Fatalf("%s without an interruption: %v", s.name, err)
					}
					break
				}
				points++
				cut := b.after(t)
				if err := errors.Join(i.says(err), i.inOrder(cut), cut.checkKnown(lineage), s.recover(t, cut)); err != nil {
					t.Errorf("%s, interrupted %s at call %d: %v", s.name, i.name, nth, err)
				}
			}
			t.Logf("%s, interrupted %s: %d points, %s", s.name, i.name, points, time.Since(begun).Round(time.Millisecond))
			total += points
		}
	}
	t.Logf("%d points of interruption", total)
	if total < 250/every()/3 {
		t.Errorf("only %d points of interruption: some are missing", total)
	}
}

// every is how many points are passed over to the next: the race detector looks at
// some of them.
func every() int {
	if raced {
		return 5
	}
	return 1
}

// says checks what an interrupted operation says; one that is interrupted at its
// last call may be done.
func (i interruption) says(err error) error {
	switch {
	case err == nil && !i.twice, errors.Is(err, walk.ErrStopped), errors.Is(err, context.Canceled), errors.Is(err, walk.ErrCutShort):
		return nil
	}
	return fmt.Errorf("the interrupted operation says %w", err)
}

// inOrder: no intent is open, and what was interrupted once has nothing in doubt.
func (i interruption) inOrder(b *bed) error {
	j, err := openJournal(b.disk, journalPath(b.dir))
	if err != nil {
		return err
	}
	if len(j.pending) > 0 {
		return fmt.Errorf("intents are open: %v", j.pending)
	}
	st, _, err := read(b.disk, b.dir)
	if err != nil || i.twice {
		return err
	}
	for _, r := range st.Resources {
		if r.Status != OK || len(r.Half) > 0 {
			return fmt.Errorf("%s is %s, half %s", r.Addr, r.Status, r.Half)
		}
	}
	return nil
}
