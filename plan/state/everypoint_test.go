package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/plan/labtest"
	"github.com/lvslab/lvslab/provider/fake"
)

// story is an operation that is cut short and what is tried afterwards.
type story struct {
	name string
	from *labtest.Topology // the lab before, nil for none
	to   *labtest.Topology // what the operation wants, nil to take the lab down
	// then are the topologies that are applied afterwards, each to what the cut has
	// left; the lab is also taken down.
	then []*labtest.Topology
	// steps is the least number of steps that the operation must have: with fewer,
	// something is not counted.
	steps int
}

func readLab(t tb, text string) *labtest.Topology {
	t.Helper()
	top, err := labtest.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func stories(t testing.TB) []story {
	t.Helper()
	demo, changed := readLab(t, labtest.Demo()), readLab(t, labtest.Changed())
	return []story{
		{"create", nil, demo, []*labtest.Topology{demo}, 300},
		{"update", demo, changed, []*labtest.Topology{changed, demo}, 250},
		{"destroy", demo, nil, []*labtest.Topology{demo}, 70},
	}
}

func (s story) before(t testing.TB) *bed {
	t.Helper()
	b := newBed(t.TempDir())
	if s.from != nil {
		if _, err := b.apply(s.from, nil); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// run carries the operation out.
func (s story) run(b *bed, fuse *fake.Fuse) error {
	if s.to == nil {
		return b.destroy(fuse)
	}
	_, err := b.apply(s.to, fuse)
	return err
}

// recover tries all that may come after the cut.
func (s story) recover(t testing.TB, cut *bed) error {
	t.Helper()
	lineage := lineageOf(cut)
	keeps := func(b *bed) error {
		if now := lineageOf(b); lineage != "" && now != lineage {
			return fmt.Errorf("the lineage was %s and is %s", lineage, now)
		}
		return nil
	}
	for i, top := range s.then {
		b := cut.after(t)
		if _, err := b.apply(top, nil); err != nil {
			return fmt.Errorf("apply %d: %w", i, err)
		}
		if err := errors.Join(keeps(b), b.checkIs(top)); err != nil {
			return fmt.Errorf("after apply %d: %w", i, err)
		}
	}
	b := cut.after(t)
	if err := b.destroy(nil); err != nil {
		return fmt.Errorf("destroy: %w", err)
	}
	if err := errors.Join(keeps(b), b.checkIs(nil)); err != nil {
		return fmt.Errorf("after destroy: %w", err)
	}
	return nil
}

// The process is killed at every point of creating, changing and destroying the
// demonstration's lab: before, amid and after each call of the provider, and
// before, amid and after each operation on the disk that records it. Whatever is
// found, the next apply makes the lab what it is to be and the next destroy leaves
// nothing, without one exception.
//
// The kill is played within this process: from the chosen step on nothing has an
// effect any more, neither on the disk nor in the world, and both go on as copies
// of what they hold. That is what SIGKILL leaves. It ends a process between two
// system calls, and what the calls before have done stays in the kernel: files as
// they were written, synced or not, machines as they were told. A call to libvirt
// or to a guest is cut the same way: asked or not asked, answered or not; the half
// effects stand for a daemon or an agent that dies with it. TestKilledAtEveryCall in
// package plan does it to a real process, and TestCrashAtEveryStep here takes the power
// away, when unsynced bytes are lost as well.
func TestEveryCrash(t *testing.T) {
	total := 0
	for _, s := range stories(t) {
		t.Run(s.name, func(t *testing.T) {
			base, points, begun := s.before(t), 0, time.Now()
			lineage := lineageOf(base)
			for at := 1; ; at += every() {
				b, fuse := base.after(t), fake.NewFuse(at)
				err := s.run(b, fuse)
				if !fuse.Blown() {
					if err != nil {
						t.Fatalf("without a crash: %v", err)
					}
					break
				}
				points++
				if err == nil || !errors.Is(err, fake.ErrCrashed) {
					t.Fatalf("crash at step %d: the operation says %v", at, err)
				}
				cut := b.after(t)
				if err := errors.Join(cut.checkKnown(lineage), s.recover(t, cut)); err != nil {
					t.Errorf("crash at step %d: %v", at, err)
				}
			}
			t.Logf("%s: %d crash points, %d recoveries, %s", s.name, points, points*(len(s.then)+1), time.Since(begun).Round(time.Millisecond))
			total += points
			if least := s.steps; !raced && points < least || points < least/8/every() {
				t.Errorf("only %d crash points: steps are missing", points)
			}
		})
	}
	t.Logf("%d crash points", total)
}

func lineageOf(b *bed) string {
	st, _, err := read(b.disk, b.dir)
	if err != nil {
		return ""
	}
	return st.Lineage
}

// Every call fails: without its effect, with half of it, with all of it, and by
// hanging until its deadline. The rest goes on, what depends on it is left, and
// the next apply and destroy find everything.
func TestEveryError(t *testing.T) {
	total := 0
	faults := map[string]fake.Fault{"without effect": fake.Fail, "with half its effect": fake.FailHalf, "after its effect": fake.FailAfter, "hangs": fake.Hang}
	if raced {
		delete(faults, "without effect")
		delete(faults, "hangs")
	}
	for _, s := range stories(t) {
		for name, fault := range faults {
			base, points := s.before(t), 0
			lineage := lineageOf(base)
			for nth := 1; ; nth += every() {
				b := base.after(t)
				b.rules = []fake.Rule{{Nth: nth, Fault: fault}}
				err := s.run(b, nil)
				if b.calls < nth {
					break
				}
				points++
				if err == nil || strings.Count(err.Error(), " of ") == 0 {
					t.Fatalf("%s, call %d fails %s: the operation says %v", s.name, nth, name, err)
				}
				cut := b.after(t)
				if err := errors.Join(cut.checkKnown(lineage), s.recover(t, cut)); err != nil {
					t.Errorf("%s, call %d fails %s: %v", s.name, nth, name, err)
				}
			}
			t.Logf("%s: %d calls that fail %s", s.name, points, name)
			total += points
		}
	}
	t.Logf("%d failing calls", total)
	if total < 250 && !raced || total < 120/every() {
		t.Errorf("only %d failing calls: some are missing", total)
	}
}
