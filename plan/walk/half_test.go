package walk_test

import (
	"context"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
)

// look refreshes, records, and plans anew.
func (b *bench) look(wanted ...provider.Resource) (walk.Refreshed, plan.Plan) {
	b.t.Helper()
	in := diff.Input{Providers: b.ps, Wanted: wanted, Recorded: recorded(b.memory.existing())}
	seen, err := walk.Refresh(context.Background(), b.memory.existing(), b.opt)
	if err == nil {
		err = seen.Record(b.memory)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	in.Have, in.Gone = seen.Have, seen.Gone
	p, err := diff.Compute(in)
	if err != nil {
		b.t.Fatal(err)
	}
	return seen, p
}

// An update that fails leaves what it had before, what it was to get, or some of
// each. What the next plan does depends on what is found.
func TestAfterAFailedUpdate(t *testing.T) {
	vm := box("vm")
	cases := []struct {
		name         string
		before, want provider.Resource
		fault        fake.Fault
		action       provider.Action
		reason       string
		ambiguous    bool
	}{
		{"same names, nothing done", box("x"), box("x", shape("round", 2)), fake.Fail, provider.Update, "changed in the topology", false},
		{"same names, all done", box("x"), box("x", shape("round", 2)), fake.FailAfter, provider.NoOp, "", false},
		{"other names, nothing done", peg("x", "vm", "1"), peg("x", "vm", "2"), fake.Fail, provider.Replace, "an update that failed or was interrupted left it half done", true},
		{"other names, half done", peg("x", "vm", "1"), peg("x", "vm", "1", "2", "3"), fake.FailHalf, provider.Replace, "an update that failed or was interrupted left it half done", true},
		{"other names, all done", peg("x", "vm", "1"), peg("x", "vm", "2"), fake.FailAfter, provider.NoOp, "", false},
	}
	for _, c := range cases {
		for _, rest := range []string{"again", "back", "away"} {
			t.Run(c.name+", "+rest, func(t *testing.T) {
				b := newBench(t, t.TempDir())
				b.apply(vm, c.before)
				b.fake.Script(fake.Rule{Op: fake.Update, Fault: c.fault, Nth: 1})
				if err := b.apply(vm, c.want).Err(); err == nil {
					t.Fatal("no error")
				}
				wanted := map[string][]provider.Resource{"again": {vm, c.want}, "back": {vm, c.before}, "away": {vm}}[rest]
				seen, p := b.look(wanted...)
				if len(seen.Changed) != 0 || len(seen.Settled) == 0 != c.ambiguous {
					t.Errorf("changed %v, settled %v", seen.Changed, seen.Settled)
				}
				if ch, _ := p.Change(c.want.Addr); rest == "again" && (ch.Action != c.action || ch.Action != provider.NoOp && ch.Reasons[0].Text != c.reason) {
					t.Errorf("%s %v", ch.Action, ch.Reasons)
				}
				if err := walk.Run(context.Background(), p, b.opt).Err(); err != nil {
					t.Fatal(err)
				}
				_, p = b.look(wanted...)
				if !p.Empty() || b.memory.have[c.want.Addr].Half != cty.NilVal {
					t.Errorf("not converged: %+v, %+v", p.Totals(), b.memory.have[c.want.Addr])
				}
				checkSame(t, b, wanted)
			})
		}
	}
}

// What an update did before it was interrupted is not somebody else's doing.
func TestInterruptedUpdateIsNotDrift(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.apply(box("x"))
	b.fake.Script(fake.Rule{Op: fake.Update, Fault: fake.FailAfter, Nth: 1})
	b.apply(box("x", shape("round", 2)))
	_, p := b.look(box("x", shape("round", 3)))
	c, _ := p.Change(at("backend.x/box"))
	if c.Action != provider.Update || c.Reasons[0].Text != "left by an update that failed or was interrupted" {
		t.Errorf("%s %v", c.Action, c.Reasons)
	}
}

func recorded(have []plan.Existing) map[addr.Resource]cty.Value {
	out := map[addr.Resource]cty.Value{}
	for _, e := range have {
		out[e.Addr] = e.Value
	}
	return out
}

// checkSame: the world is the one that these resources make when they are made
// alone.
func checkSame(t tb, b *bench, wanted []provider.Resource) {
	t.Helper()
	alone := newBenchIn(t, fake.InMemory())
	if err := alone.apply(wanted...).Err(); err != nil {
		t.Fatal(err)
	}
	got, err := b.fake.World().Dump()
	if err != nil {
		t.Fatal(err)
	}
	want, err := alone.fake.World().Dump()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the world is\n%s\nand would alone be\n%s", got, want)
	}
}
