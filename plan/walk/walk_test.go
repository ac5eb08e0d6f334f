package walk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
)

func box(label string, edit ...func(*provider.Resource)) provider.Resource {
	r := provider.Resource{Addr: at("backend." + label + "/box"), Type: "box", Attrs: fake.Box("round", 1)}
	for _, e := range edit {
		e(&r)
	}
	return r
}

func needs(labels ...string) func(*provider.Resource) {
	return func(r *provider.Resource) {
		for _, l := range labels {
			r.DependsOn = append(r.DependsOn, at("backend."+l+"/box"))
		}
	}
}

// unawaited are needs of which the resource may be made first.
func unawaited(labels ...string) func(*provider.Resource) {
	return func(r *provider.Resource) {
		needs(labels...)(r)
		r.NotAwaited = r.DependsOn
	}
}

func within(label string) func(*provider.Resource) {
	return func(r *provider.Resource) { r.Within = at("backend." + label + "/box") }
}

func shape(s string, size int) func(*provider.Resource) {
	return func(r *provider.Resource) { r.Attrs = fake.Box(s, size) }
}

func peg(label, holder string, holes ...string) provider.Resource {
	return box(label, within(holder), func(r *provider.Resource) { r.Type, r.Attrs = "peg", fake.Peg(holes...) })
}

func TestOrderOfCalls(t *testing.T) {
	vm, dns, svc := box("vm"), box("dns", within("vm")), box("svc", needs("dns"))
	other := box("other")
	cases := []struct {
		name          string
		before, after []provider.Resource
		want          string
	}{
		{"create forward", nil, []provider.Resource{svc, dns, vm}, "create vm, create dns, create svc"},
		{"delete backward, what is within goes along", []provider.Resource{vm, dns, svc}, nil, "delete svc, delete vm"},
		{"nothing to do", []provider.Resource{vm, dns}, []provider.Resource{vm, dns}, ""},
		{"replace takes along and makes anew", []provider.Resource{vm, dns, svc},
			[]provider.Resource{box("vm", shape("flat", 1)), dns, svc}, "delete vm, create vm, create dns"},
		{"the user is changed before the used is deleted", []provider.Resource{vm, dns, svc},
			[]provider.Resource{box("svc", shape("round", 2))}, "update svc, delete vm"},
		{"the user is deleted before the used is replaced", []provider.Resource{vm, dns, svc},
			[]provider.Resource{box("vm", shape("flat", 1)), dns}, "delete svc, delete vm, create vm, create dns"},
		{"turned round", []provider.Resource{box("a"), box("b", needs("a"))},
			[]provider.Resource{box("b", shape("flat", 1)), box("a", shape("flat", 1), needs("b"))}, "delete b, delete a, create b, create a"},
		{"plugged into something replaced", []provider.Resource{box("net"), box("vm", func(r *provider.Resource) { r.ReplacedBy = []addr.Resource{at("backend.net/box")} })},
			[]provider.Resource{box("net", shape("flat", 1)), box("vm", func(r *provider.Resource) { r.ReplacedBy = []addr.Resource{at("backend.net/box")} })},
			"delete vm, delete net, create net, create vm"},
		{"a name is given up by a deletion before it is taken", []provider.Resource{vm, peg("z", "vm", "53")}, []provider.Resource{vm, peg("a", "vm", "53")}, "delete z, create a"},
		{"a name is given up by a change before it is taken", []provider.Resource{vm, peg("z", "vm", "53", "54")},
			[]provider.Resource{vm, peg("z", "vm", "54"), peg("a", "vm", "53")}, "update z, create a"},
		{"a name is taken by a change", []provider.Resource{vm, peg("z", "vm", "53"), peg("a", "vm", "54")}, []provider.Resource{vm, peg("a", "vm", "54", "53")}, "delete z, update a"},
		{"names are passed on", []provider.Resource{vm, peg("a", "vm", "1"), peg("b", "vm", "2"), peg("c", "vm", "3")},
			[]provider.Resource{vm, peg("a", "vm", "2"), peg("b", "vm", "3"), peg("c", "vm", "4")}, "update c, update b, update a"},
		{"names are swapped", []provider.Resource{vm, peg("a", "vm", "1"), peg("b", "vm", "2")},
			[]provider.Resource{vm, peg("a", "vm", "2"), peg("b", "vm", "1")}, "delete a, update b, create a"},
		{"names go round", []provider.Resource{vm, peg("a", "vm", "1"), peg("b", "vm", "2"), peg("c", "vm", "3")},
			[]provider.Resource{vm, peg("a", "vm", "2"), peg("b", "vm", "3"), peg("c", "vm", "1")}, "delete a, update c, update b, create a"},
		{"the same name in another machine is another name", []provider.Resource{vm, other, peg("z", "other", "53")},
			[]provider.Resource{vm, other, peg("a", "vm", "53"), peg("z", "other", "54")}, "create a, update z"},
		{"a name moves with its machine's end", []provider.Resource{vm, other, peg("z", "vm", "53")}, []provider.Resource{other, peg("a", "other", "53")}, "create a, delete vm"},
		{"what goes makes room for what comes", []provider.Resource{box("z1"), box("z2")}, []provider.Resource{box("a1"), box("a2")}, "delete z1, delete z2, create a1, create a2"},
		{"but what is left in use stays until it is not", []provider.Resource{box("old"), box("svc", needs("old"))},
			[]provider.Resource{box("new"), box("svc", needs("new"), shape("round", 2))}, "create new, update svc, delete old"},
		{"not awaited: made without it", nil, []provider.Resource{box("a", unawaited("b")), box("b")}, "create a, create b"},
		{"not awaited: and deleted before it", []provider.Resource{box("b"), box("z", unawaited("b"))}, nil, "delete z, delete b"},
		{"not awaited: changed before it is deleted", []provider.Resource{box("b"), box("z", unawaited("b"))},
			[]provider.Resource{box("z", shape("round", 2))}, "update z, delete b"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, t.TempDir())
			b.opt.Parallelism = 1
			if err := b.apply(c.before...).Err(); err != nil {
				t.Fatal(err)
			}
			from := len(b.fake.Calls())
			if err := b.apply(c.after...).Err(); err != nil {
				t.Fatal(err)
			}
			if got := b.log(from); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if p := b.plan(c.after...); !p.Empty() {
				t.Errorf("not converged: %+v", p.Totals())
			}
			checkWorld(t, b, c.after)
		})
	}
}

func checkWorld(t tb, b *bench, wanted []provider.Resource) {
	t.Helper()
	objects, err := b.fake.World().Objects()
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != len(wanted) || len(b.memory.have) != len(wanted) || len(b.memory.open) != 0 {
		t.Errorf("world %v, state %d, wanted %d, open intents %v", objects, len(b.memory.have), len(wanted), b.memory.open)
	}
}

func TestFailureIsToldOnceAndTheRestGoesOn(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.opt.Parallelism = 1
	b.fake.Script(fake.Rule{Op: fake.Create, Addr: at("backend.b/box"), Fault: fake.FailAfter})
	res := b.apply(box("a"), box("b", needs("a")), box("c", needs("b")), box("d", needs("c")), box("e"))
	want := "started create a, done create a, started create b, failed create b, skipped create c because of b, " +
		"skipped create d because of b, started create e, done create e"
	if got := b.kinds(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if res.Done != 2 || res.Skipped != 2 || len(res.Failures) != 1 || res.NotBegun != 0 {
		t.Errorf("%+v", res)
	}
	ds := diag.From(res.Err())
	if len(ds) != 1 || ds[0].Address != "backend.b/box" || !errors.Is(res.Err(), fake.ErrScripted) {
		t.Errorf("%v", ds)
	}
	// The failed create is kept, in doubt, and the next apply replaces it.
	if e := b.memory.have[at("backend.b/box")]; !e.Tainted || e.Value.GetAttr("shape").AsString() != "round" {
		t.Errorf("%+v", e)
	}
	b2 := b.plan(box("a"), box("b", needs("a")))
	if c, _ := b2.Change(at("backend.b/box")); c.Action != provider.Replace {
		t.Errorf("next plan: %s", c.Action)
	}
}

func TestWhatAFailureLeavesInTheState(t *testing.T) {
	foreign := fmt.Errorf("somebody's: %w", provider.ErrForeign)
	cases := []struct {
		name    string
		op      fake.Op
		err     error
		exists  bool
		tainted bool
	}{
		{"create", fake.Create, nil, true, true},
		{"create of a foreign thing", fake.Create, foreign, false, false},
		{"update", fake.Update, nil, true, false},
		{"update of a foreign thing", fake.Update, foreign, true, false},
		{"delete", fake.Delete, nil, true, true},
	}
	for _, c := range cases {
		b := newBench(t, t.TempDir())
		var wanted []provider.Resource
		if c.op != fake.Create {
			b.apply(box("a"))
		}
		if c.op != fake.Delete {
			wanted = append(wanted, box("a", shape("round", 2)))
		}
		b.fake.Script(fake.Rule{Op: c.op, Fault: fake.Fail, Err: c.err})
		if err := b.apply(wanted...).Err(); err == nil {
			t.Errorf("%s: no error", c.name)
		}
		e, exists := b.memory.have[at("backend.a/box")]
		if half := c.op == fake.Update && c.err == nil; half != (e.Half != cty.NilVal) {
			t.Errorf("%s: half %#v", c.name, e.Half)
		}
		if exists != c.exists || e.Tainted != c.tainted || len(b.memory.open) != 0 {
			t.Errorf("%s: exists %v, tainted %v, open %v", c.name, exists, e.Tainted, b.memory.open)
		}
	}
}

func TestFailedDeletionKeepsWhatItNeeds(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.apply(box("net"), box("vm", needs("net")), box("dns", within("vm")))
	b.fake.Script(fake.Rule{Op: fake.Delete, Addr: at("backend.vm/box"), Nth: 1})
	if res := b.apply(); len(res.Failures) != 1 || res.Skipped != 1 || len(b.memory.have) != 3 {
		t.Errorf("%+v, state holds %d", res, len(b.memory.have))
	}
	if err := b.apply().Err(); err != nil {
		t.Error(err)
	}
	checkWorld(t, b, nil)
}

// What goes makes room for what comes, but does not decide about it.
func TestFailedDeletionDoesNotKeepOthersFromBeingMade(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.opt.Parallelism = 1
	b.apply(box("z"), box("y"))
	b.fake.Script(fake.Rule{Op: fake.Delete, Addr: at("backend.z/box"), Nth: 1})
	res := b.apply(box("a"))
	if got := b.kinds(); got != "started delete y, done delete y, started delete z, failed delete z, started create a, done create a" {
		t.Error(got)
	}
	if len(res.Failures) != 1 || res.Done != 2 || res.Skipped != 0 {
		t.Errorf("%+v", res)
	}
	// A name that could not be freed is another matter.
	b.apply(box("a"), peg("p", "a", "1"))
	b.fake.Script(fake.Rule{Op: fake.Delete, Addr: at("backend.p/box"), Nth: 1})
	if res = b.apply(box("a"), peg("q", "a", "1")); res.Skipped != 1 || b.kinds() != "started delete p, failed delete p, skipped create q because of p" {
		t.Errorf("%+v: %s", res, b.kinds())
	}
}

func TestStopFinishesWhatRuns(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.opt.Parallelism = 1
	ctx, cancel := context.WithCancel(context.Background())
	observe := b.opt.Observe
	b.opt.Observe = func(e walk.Event) {
		observe(e)
		if e.Kind == walk.Started {
			cancel()
		}
	}
	res := walk.Run(ctx, b.plan(box("a"), box("b", needs("a")), box("c")), b.opt)
	if got := b.kinds(); got != "started create a, done create a, not-begun create b, not-begun create c" {
		t.Error(got)
	}
	if !errors.Is(res.Err(), walk.ErrStopped) || res.Done != 1 || res.NotBegun != 2 {
		t.Errorf("%+v: %v", res, res.Err())
	}
	checkWorld(t, b, []provider.Resource{box("a")})
}

func TestStoppedBeforehandBeginsNothing(t *testing.T) {
	b := newBench(t, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if res := walk.Run(ctx, b.plan(box("a")), b.opt); res.NotBegun != 1 || len(b.fake.Calls()) != 0 {
		t.Errorf("%+v", res)
	}
}

func TestDeadlineAndAbort(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, dir)
		b.opt.Deadline = func(op plan.Op, typ string) time.Duration {
			if op == plan.Create && typ == "box" {
				return time.Minute
			}
			return time.Hour
		}
		b.fake.Script(fake.Rule{Op: fake.Create, Addr: at("backend.a/box"), Nth: 1, Fault: fake.Hang})
		begun := time.Now()
		res := b.apply(box("a"))
		if took := time.Since(begun); took != time.Minute || b.events[1].Took != time.Minute {
			t.Errorf("ended after %s", took)
		}
		if !errors.Is(res.Err(), context.DeadlineExceeded) || !strings.Contains(res.Err().Error(), "create did not end within 1m0s") {
			t.Errorf("%v", res.Err())
		}

		b.fake.Script(fake.Rule{Op: fake.Create, Addr: at("backend.deaf/box"), Fault: fake.HangOn})
		begun = time.Now()
		res = b.apply(box("deaf"))
		var hung *walk.HungError
		if !errors.As(res.Err(), &hung) || time.Since(begun) != time.Minute+5*time.Second {
			t.Errorf("%v after %s", res.Err(), time.Since(begun))
		}
		if !b.memory.have[at("backend.deaf/box")].Tainted {
			t.Error("a create that hangs is not in doubt")
		}
		b.fake.Release()
		synctest.Wait()

		abort, cancel := context.WithCancel(context.Background())
		b.opt.Abort = abort
		time.AfterFunc(time.Second, cancel)
		b.fake.Script(fake.Rule{Op: fake.Create, Addr: at("backend.b/box"), Fault: fake.Hang})
		begun = time.Now()
		if res = b.apply(box("b")); !errors.Is(res.Err(), context.Canceled) || time.Since(begun) != time.Second {
			t.Errorf("%v after %s", res.Err(), time.Since(begun))
		}
	})
}

func TestWhatCannotBeRecordedIsNotMade(t *testing.T) {
	full := errors.New("no space left on device")
	b := newBench(t, t.TempDir())
	b.opt.Parallelism = 1
	b.memory.failNow = func(_ plan.Op, a addr.Resource) error {
		if a == at("backend.b/box") {
			return full
		}
		return nil
	}
	res := b.apply(box("a"), box("b"), box("c"))
	if !errors.Is(res.Err(), full) || res.Done != 1 || res.NotBegun != 1 {
		t.Errorf("%+v: %v", res, res.Err())
	}
	checkWorld(t, b, []provider.Resource{box("a")})
}

func TestNewDependenciesOfUnchangedThingsAreRecorded(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.apply(box("a"), box("b"))
	from := len(b.fake.Calls())
	if err := b.apply(box("a"), box("b", needs("a"))).Err(); err != nil {
		t.Fatal(err)
	}
	if len(b.fake.Calls()) != from || len(b.memory.have[at("backend.b/box")].DependsOn) != 1 {
		t.Errorf("%d calls, %+v", len(b.fake.Calls())-from, b.memory.have[at("backend.b/box")])
	}
}

// liar returns something that is not of its schema.
type liar struct{ *fake.Provider }

func (liar) Create(context.Context, provider.Resource) (cty.Value, error) { return cty.True, nil }

func TestProviderMustReturnItsSchema(t *testing.T) {
	b := newBench(t, t.TempDir())
	ps, err := plan.NewProviders(liar{b.fake})
	if err != nil {
		t.Fatal(err)
	}
	b.opt.Providers = ps
	if err := b.apply(box("a")).Err(); err == nil || !strings.Contains(err.Error(), "no known box") {
		t.Errorf("%v", err)
	}
}
