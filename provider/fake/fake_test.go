package fake

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/provider"
)

func res(label string) provider.Resource {
	return provider.Resource{Addr: addr.Resource{Noun: addr.N(addr.Backend, label), Part: "box"}, Type: "box", Attrs: Box("round", 1)}
}

func setUp(t *testing.T) (*Provider, context.Context) {
	t.Helper()
	w, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return New(Schemas(), w), ctx
}

func TestLifeOfAnObject(t *testing.T) {
	p, ctx := setUp(t)
	if _, err := p.Read(ctx, res("a"), cty.NilVal); !errors.Is(err, provider.ErrGone) {
		t.Errorf("before: %v", err)
	}
	made, err := p.Create(ctx, res("a"))
	if err != nil || made.GetAttr("id").AsString() != "id of backend.a/box" {
		t.Fatalf("%#v, %v", made, err)
	}
	inside := res("b")
	inside.Within = res("a").Addr
	inside.DependsOn = []addr.Resource{res("a").Addr}
	if _, err := p.Create(ctx, inside); err != nil {
		t.Fatal(err)
	}
	// Another provider of the same world sees it, as another process does.
	again, err := New(Schemas(), p.World()).Read(ctx, res("a"), cty.NilVal)
	if err != nil || !again.RawEquals(made) {
		t.Errorf("%#v, %v", again, err)
	}
	for range 2 { // deleting what is gone is no error
		if err := p.Delete(ctx, res("a"), made); err != nil {
			t.Error(err)
		}
	}
	if left, err := p.World().Objects(); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if _, err := p.Create(ctx, inside); err == nil {
		t.Error("made without what it depends on")
	}
}

func TestFaultsComeAtTheirCall(t *testing.T) {
	p, ctx := setUp(t)
	mine := errors.New("mine")
	p.Script(Rule{Op: Create, Nth: 2, Fault: Fail, Err: mine}, Rule{Op: Update, Addr: res("a").Addr, Fault: FailAfter})
	if _, err := p.Create(ctx, res("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(ctx, res("b")); !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	if has, _ := p.World().Has(res("b").Addr); has {
		t.Error("Fail had its effect")
	}
	bigger := res("a")
	bigger.Attrs = Box("round", 2)
	if _, err := p.Update(ctx, bigger, cty.NilVal); !errors.Is(err, ErrScripted) {
		t.Errorf("%v", err)
	}
	if v, _, err := p.World().Get(res("a").Addr, Schemas()["box"]); err != nil || !v.GetAttr("size").RawEquals(cty.NumberIntVal(2)) {
		t.Errorf("FailAfter had no effect: %#v, %v", v, err)
	}
	if _, err := p.Create(ctx, res("b")); err != nil {
		t.Errorf("the third create: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	p.Script(Rule{Op: Delete, Fault: Hang})
	if err := p.Delete(short, res("a"), cty.NilVal); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestCallsMustBeBounded(t *testing.T) {
	p, _ := setUp(t)
	defer func() {
		if recover() == nil {
			t.Error("a call without a deadline was taken")
		}
	}()
	_, _ = p.Create(context.Background(), res("a"))
}
