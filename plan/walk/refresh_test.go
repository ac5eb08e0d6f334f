package walk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider/fake"
)

func TestRefresh(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.apply(box("gone"), box("inside", within("gone")), box("deeper", within("inside")), box("same"), box("other"), box("holder"), box("lost", within("holder")))
	world := b.fake.World()
	changed := fake.Box("round", 9)
	if err := errors.Join(world.Remove(at("backend.gone/box")), world.Remove(at("backend.lost/box")), world.Set(at("backend.other/box"), addr.Resource{}, changed)); err != nil {
		t.Fatal(err)
	}
	from := len(b.fake.Calls())
	seen, err := walk.Refresh(context.Background(), b.memory.existing(), b.opt)
	if err != nil {
		t.Fatal(err)
	}
	want := map[addr.Resource]string{
		at("backend.gone/box"): "gone from the world", at("backend.lost/box"): "gone from the world",
		at("backend.inside/box"): "gone with backend.gone/box", at("backend.deeper/box"): "gone with backend.inside/box",
	}
	same := cmp.Comparer(func(a, b addr.Resource) bool { return a == b })
	if d := cmp.Diff(want, seen.Gone, same); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]addr.Resource{at("backend.other/box")}, seen.Changed, same); d != "" {
		t.Error(d)
	}
	nine := func(v cty.Value) bool { return v.GetAttr("size").RawEquals(cty.NumberIntVal(9)) }
	if len(seen.Have) != 3 || !nine(seen.Have[1].Value) {
		t.Errorf("have %+v", seen.Have)
	}
	if n := len(b.fake.Calls()) - from; n != 5 {
		t.Errorf("%d reads: what is within something gone needs none", n)
	}
	if len(seen.Warnings()) != 5 || seen.Warnings()[0].Address != "backend.deeper/box" {
		t.Errorf("%v", seen.Warnings())
	}
	if err := seen.Record(b.memory); err != nil {
		t.Fatal(err)
	}
	if e := b.memory.have[at("backend.other/box")]; len(b.memory.have) != 3 || !nine(e.Value) {
		t.Errorf("recorded: %+v", b.memory.have)
	}
}

func TestUnreadableIsNotGone(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.apply(box("a"), box("b"))
	b.fake.Script(fake.Rule{Op: fake.Read, Addr: at("backend.a/box"), Fault: fake.Fail})
	seen, err := walk.Refresh(context.Background(), b.memory.existing(), b.opt)
	if !errors.Is(err, fake.ErrScripted) || len(seen.Gone) != 0 {
		t.Errorf("%v, gone %v", err, seen.Gone)
	}
	if ds := diag.From(err); len(ds) != 1 || ds[0].Address != "backend.a/box" || ds[0].Summary != "read failed" {
		t.Errorf("%v", ds)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := walk.Refresh(ctx, b.memory.existing(), b.opt); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestRefreshKeepsDoubt(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.fake.Script(fake.Rule{Op: fake.Create, Nth: 1, Fault: fake.FailAfter})
	b.apply(box("a"))
	seen, err := walk.Refresh(context.Background(), b.memory.existing(), b.opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := seen.Record(b.memory); err != nil {
		t.Fatal(err)
	}
	if !seen.Have[0].Tainted || !b.memory.have[at("backend.a/box")].Tainted {
		t.Errorf("a half-made thing became trusted by being looked at: %+v", seen.Have)
	}
}
