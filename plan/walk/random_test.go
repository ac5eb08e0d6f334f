package walk_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
)

// randomLab draws resources of which each may need, be within or be plugged
// into earlier ones.
func randomLab(t *rapid.T, n int) []provider.Resource {
	var out []provider.Resource
	for i := range n {
		if rapid.IntRange(0, 5).Draw(t, "left out") == 0 {
			continue
		}
		r := box(fmt.Sprintf("m%d", i), shape(rapid.SampledFrom([]string{"round", "flat"}).Draw(t, "shape"), rapid.IntRange(1, 2).Draw(t, "size")))
		for _, d := range out {
			switch rapid.IntRange(0, 9).Draw(t, "edge") {
			case 0, 1:
				r.DependsOn = append(r.DependsOn, d.Addr)
			case 2:
				r.ReplacedBy = append(r.ReplacedBy, d.Addr)
			case 3:
				r.Within = d.Addr
			}
		}
		out = append(out, r)
	}
	return append(out, randomPegs(t)...)
}

// randomPegs draws objects in one machine that share its names among them.
func randomPegs(t *rapid.T) []provider.Resource {
	if rapid.IntRange(0, 3).Draw(t, "machine") == 0 {
		return nil
	}
	out := []provider.Resource{box("vm", shape(rapid.SampledFrom([]string{"round", "round", "flat"}).Draw(t, "shape"), 1))}
	holes := rapid.Permutation([]string{"1", "2", "3", "4", "5"}).Draw(t, "holes")
	for _, label := range []string{"p", "q", "r"} {
		n := rapid.IntRange(0, min(2, len(holes))).Draw(t, "of "+label)
		if n > 0 {
			out = append(out, peg(label, "vm", holes[:n]...))
		}
		holes = holes[n:]
	}
	return out
}

// randomAside draws what may come last.
func randomAside(t *rapid.T, n int) func(plan.Change) bool {
	aside := map[addr.Resource]bool{}
	for i := range n {
		aside[at(fmt.Sprintf("backend.m%d/box", i))] = rapid.Bool().Draw(t, "aside")
	}
	return func(c plan.Change) bool { return aside[c.Addr] }
}

// For any two labs after each other and any failing calls: the order holds, what
// was skipped has a failed cause that it needs, nothing is lost from the
// records, and once the faults are over the lab converges and can be destroyed.
func TestAnyWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBenchIn(t, fake.InMemory())
		b.opt.Parallelism = rapid.IntRange(1, 4).Draw(t, "parallelism")
		n := rapid.IntRange(1, 7).Draw(t, "n")
		b.opt.Aside = randomAside(t, n)
		for range 2 {
			wanted := randomLab(t, n)
			for range rapid.IntRange(0, 2).Draw(t, "faults") {
				names := []string{"vm", "p", "q", "r"}
				for i := range n {
					names = append(names, fmt.Sprintf("m%d", i))
				}
				b.fake.Script(fake.Rule{
					Op:    rapid.SampledFrom([]fake.Op{fake.Create, fake.Update, fake.Delete}).Draw(t, "op"),
					Addr:  at("backend." + rapid.SampledFrom(names).Draw(t, "which") + "/box"),
					Nth:   1,
					Fault: rapid.SampledFrom([]fake.Fault{fake.Fail, fake.FailHalf, fake.FailAfter}).Draw(t, "fault"),
				})
			}
			p := b.plan(wanted...)
			b.events = nil
			res := walk.Run(context.Background(), p, b.opt)
			checkEvents(t, b, p, res)
			checkKnown(t, b)
			converge(t, b, res, wanted)
			checkWorld(t, b, wanted)
			checkSame(t, b, wanted)
		}
		converge(t, b, b.apply(), nil)
		checkWorld(t, b, nil)
	})
}

// converge applies again until all is well, looking before each plan: what
// failed may be there, half there or gone.
func converge(t *rapid.T, b *bench, res walk.Result, wanted []provider.Resource) {
	for try := 0; res.Err() != nil; try++ {
		if try > 20 {
			t.Fatalf("does not converge: %v", res.Err())
		}
		seen, err := walk.Refresh(context.Background(), b.memory.existing(), b.opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := seen.Record(b.memory); err != nil {
			t.Fatal(err)
		}
		res = b.apply(wanted...)
		checkKnown(t, b)
	}
}

func checkEvents(t *rapid.T, b *bench, p plan.Plan, res walk.Result) {
	running, most, ended := 0, 0, map[string]walk.Kind{}
	failed := map[addr.Resource]bool{}
	name := func(op plan.Op, a addr.Resource) string { return string(op) + " " + a.String() }
	for _, e := range b.events {
		key := name(e.Op, e.Change.Addr)
		switch e.Kind {
		case walk.Started:
			running++
			most = max(most, running)
			if e.Op != plan.Delete {
				for _, d := range e.Change.Want.DependsOn {
					for _, op := range []plan.Op{plan.Create, plan.Update} {
						if c, ok := p.Change(d); ok && c.Action != provider.NoOp && (c.Action == provider.Update) == (op == plan.Update) && ended[name(op, d)] != walk.Done {
							t.Fatalf("%s began before %s was done", key, name(op, d))
						}
					}
				}
			}
			continue
		case walk.Done, walk.Failed:
			if b.hasStarted(e) {
				running--
			}
			failed[e.Change.Addr] = failed[e.Change.Addr] || e.Kind == walk.Failed
		case walk.Skipped:
			if !failed[e.Because] {
				t.Fatalf("%s was skipped because of %s, which did not fail", key, e.Because)
			}
		}
		if ended[key] != "" {
			t.Fatalf("%s ended twice", key)
		}
		ended[key] = e.Kind
	}
	if running != 0 || most > b.opt.Parallelism {
		t.Fatalf("%d still running, at most %d of %d", running, most, b.opt.Parallelism)
	}
	if res.NotBegun != 0 || res.Unrecorded != nil {
		t.Fatalf("%+v", res)
	}
}

func (b *bench) hasStarted(e walk.Event) bool {
	return slices.ContainsFunc(b.events, func(o walk.Event) bool {
		return o.Kind == walk.Started && o.Op == e.Op && o.Change.Addr == e.Change.Addr
	})
}

// checkKnown: nothing exists that the records do not know.
func checkKnown(t *rapid.T, b *bench) {
	objects, err := b.fake.World().Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if _, known := b.memory.have[o]; !known {
			t.Fatalf("%s exists, but nobody knows", o)
		}
	}
	if len(b.memory.open) != 0 {
		t.Fatalf("open intents: %v", b.memory.open)
	}
}
