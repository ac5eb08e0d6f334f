package fake

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/provider"
)

// machine is a schema with an identity and a boot, as the product's have them.
func machineSchemas() map[string]provider.Schema {
	claims := func(v cty.Value) []string { return []string{"uuid " + text(v, "uuid")} }
	s := Schemas()
	s["vm"] = provider.Schema{Noun: "machine", Claims: claims, Attributes: map[string]provider.Attribute{"uuid": {Type: cty.String}, "pid": {Type: cty.Number, Computed: true}}}
	s["set"] = provider.Schema{Noun: "setting", Attributes: map[string]provider.Attribute{"size": {Type: cty.Number}, "boot_id": {Type: cty.String, Computed: true}}}
	return s
}

func vm(label, uuid string) provider.Resource {
	return provider.Resource{Addr: addr.Resource{Noun: addr.N(addr.Backend, label), Part: "vm"}, Type: "vm",
		Attrs: cty.ObjectVal(map[string]cty.Value{"uuid": cty.StringVal(uuid), "pid": cty.NullVal(cty.Number)})}
}

func setting(label string, in provider.Resource) provider.Resource {
	return provider.Resource{Addr: addr.Resource{Noun: in.Addr.Noun, Part: label}, Type: "set", Within: in.Addr,
		Attrs: cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(1), "boot_id": cty.NullVal(cty.String)})}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T) func(cty.Value, error) cty.Value {
	return func(v cty.Value, err error) cty.Value {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestSettingsBelongToABoot(t *testing.T) {
	ctx, p := deadline(t), New(machineSchemas(), InMemory())
	a := vm("a", "1")
	made := must(t)(p.Create(ctx, a))
	in := setting("x", a)
	set := must(t)(p.Create(ctx, in))
	if err := p.World().Reboot(a.Addr); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(ctx, in, set); !errors.Is(err, provider.ErrGone) {
		t.Errorf("after a boot: %v", err)
	}
	if now := must(t)(p.Read(ctx, a, made)); now.RawEquals(made) {
		t.Error("a boot does not show")
	}
	again := must(t)(p.Create(ctx, in))
	if again.RawEquals(set) {
		t.Error("two boots have one id")
	}
	if _, err := p.Read(ctx, in, set); !errors.Is(err, provider.ErrGone) || !strings.Contains(err.Error(), "gone with its boot") {
		t.Errorf("what was set in an earlier boot: %v", err)
	}
	if _, err := p.Read(ctx, in, in.Attrs); err != nil {
		t.Errorf("what no boot is known of is looked for: %v", err)
	}
}

func TestTwoIdentitiesOfOneAddress(t *testing.T) {
	ctx, p := deadline(t), New(machineSchemas(), InMemory())
	must(t)(p.Create(ctx, vm("a", "1")))
	must(t)(p.Create(ctx, vm("a", "2")))
	if _, _, err := p.World().Get(vm("a", "1").Addr, machineSchemas()["vm"]); err == nil {
		t.Error("a duplicate went unnoticed")
	}
	if dump, err := p.World().Dump(); err != nil || strings.Count(dump, "\n") != 1 {
		t.Errorf("%s, %v", dump, err)
	}
	if err := p.Delete(ctx, vm("a", "2"), vm("a", "2").Attrs); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(ctx, vm("a", "1"), vm("a", "1").Attrs); err != nil {
		t.Errorf("the other one was deleted: %v", err)
	}
}

func TestNamesAreTaken(t *testing.T) {
	ctx, host := deadline(t), InMemory()
	one, two := New(machineSchemas(), host.Lab("one")), New(machineSchemas(), host.Lab("two"))
	must(t)(one.Create(ctx, vm("a", "1")))
	if _, err := two.Create(ctx, vm("a", "1")); !errors.Is(err, provider.ErrForeign) {
		t.Errorf("two labs have one UUID: %v", err)
	}
	must(t)(two.Create(ctx, vm("a", "2")))
	if objects, err := two.World().Objects(); err != nil || len(objects) != 1 {
		t.Errorf("%v, %v", objects, err)
	}
	peg := func(label string, holes ...string) provider.Resource {
		r := setting(label, vm("a", ""))
		r.Type, r.Attrs = "peg", Peg(holes...)
		return r
	}
	for _, p := range []*Provider{one, two} { // names in machines are the machines' own
		must(t)(p.Create(ctx, peg("x", "1", "2")))
	}
	if _, err := one.Create(ctx, peg("y", "3", "2")); !errors.Is(err, provider.ErrForeign) {
		t.Errorf("%v", err)
	}
	if v := must(t)(one.Read(ctx, peg("y", "3", "2"), Peg("3", "2"))); len(v.GetAttr("holes").AsValueSlice()) != 1 {
		t.Errorf("the first piece was made before the second failed: %#v", v)
	}
	v := must(t)(one.Update(ctx, peg("x", "2", "4"), Peg("1", "2")))
	if names := v.GetAttr("holes").AsValueSlice(); len(names) != 2 || names[1].AsString() != "4" {
		t.Errorf("%#v", v)
	}
	if _, err := one.Read(ctx, peg("x", "1"), Peg("1")); !errors.Is(err, provider.ErrGone) {
		t.Errorf("a piece that was given up: %v", err)
	}
	if err := one.Delete(ctx, peg("x", "2"), Peg("2")); err != nil {
		t.Fatal(err)
	}
	if v := must(t)(one.Read(ctx, peg("x", "2"), Peg("2", "4"))); len(v.GetAttr("holes").AsValueSlice()) != 1 {
		t.Errorf("only what is described is deleted: %#v", v)
	}
}

func TestHalfEffects(t *testing.T) {
	ctx, p := deadline(t), New(Schemas(), InMemory())
	p.Script(Rule{Op: Create, Nth: 1, Fault: FailHalf}, Rule{Op: Update, Nth: 1, Fault: FailHalf})
	if _, err := p.Create(ctx, res("a")); !errors.Is(err, ErrScripted) {
		t.Fatal(err)
	}
	if v := must(t)(p.Read(ctx, res("a"), cty.NilVal)); v.GetAttr("shape").IsNull() || !v.GetAttr("size").IsNull() {
		t.Errorf("half made: %#v", v)
	}
	must(t)(p.Create(ctx, res("a")))
	flat := res("a")
	flat.Attrs = Box("flat", 2)
	if _, err := p.Update(ctx, flat, cty.NilVal); !errors.Is(err, ErrScripted) {
		t.Fatal(err)
	}
	if v := must(t)(p.Read(ctx, flat, cty.NilVal)); v.GetAttr("shape").AsString() != "flat" || !v.GetAttr("size").RawEquals(cty.NumberIntVal(1)) {
		t.Errorf("half changed: %#v", v)
	}
}

// A fuse blows before, amid and after an effect, and nothing happens afterwards.
func TestFuse(t *testing.T) {
	effects := []int{0, 1, 2, 2} // of a creation that is cut short at its first, second … step
	for at := 1; at <= 4; at++ {
		ctx, p := deadline(t), New(Schemas(), InMemory())
		p.Fuse = NewFuse(at)
		if _, err := p.Create(ctx, res("a")); !errors.Is(err, ErrCrashed) || !p.Fuse.Blown() || p.Fuse.Steps() != at {
			t.Errorf("at %d: %v after %d steps", at, err, p.Fuse.Steps())
		}
		if _, err := p.Create(ctx, res("b")); !errors.Is(err, ErrCrashed) {
			t.Errorf("after the crash: %v", err)
		}
		later, err := p.World().Clone()
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		if v, found, err := later.Get(res("a").Addr, Schemas()["box"]); err != nil {
			t.Fatal(err)
		} else if found {
			if got = 1; !v.GetAttr("size").IsNull() {
				got = 2
			}
		}
		if objects, err := later.Objects(); err != nil || got != effects[at-1] || len(objects) > 1 {
			t.Errorf("at %d: %d halves, %v, %v", at, got, objects, err)
		}
	}
	never := NewFuse(0)
	if err := errors.Join(never.Step(), (*Fuse)(nil).Step()); err != nil || never.Blown() {
		t.Errorf("%v", err)
	}
}
