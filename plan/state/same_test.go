package state

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
)

// filled sets a field to something that is not its zero value.
func filled(t *testing.T, f reflect.Value) {
	t.Helper()
	noun := addr.N(addr.Backend, "x")
	for _, v := range []any{"x", Status("x"), true, []byte("1"), 7, uint64(7), addr.Resource{Noun: noun, Part: "p"},
		[]addr.Resource{{Noun: noun, Part: "p"}}, []Resource{{Type: "x"}}, []string{"x"},
		map[string]netip.Addr{"x": netip.MustParseAddr("198.18.0.1")}, map[addr.Noun]addr.Noun{noun: noun}, map[string]Output{"x": {}}} {
		if val := reflect.ValueOf(v); val.Type() == f.Type() || f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Uint8 && val.Type() == reflect.TypeFor[[]byte]() {
			f.Set(val.Convert(f.Type()))
			return
		}
	}
	t.Fatalf("the test knows no value of %s", f.Type())
}

// Whatever is added to a state must count, or a change of it is never written.
func TestEveryFieldCounts(t *testing.T) {
	exempt := map[string]bool{"Version": true, "Lvslab": true, "Serial": true}
	for i := range reflect.TypeFor[State]().NumField() {
		var a, b State
		filled(t, reflect.ValueOf(&b).Elem().Field(i))
		if name := reflect.TypeFor[State]().Field(i).Name; same(&a, &b) != exempt[name] {
			t.Errorf("State.%s", name)
		}
	}
	for i := range reflect.TypeFor[Resource]().NumField() {
		a, b := State{Resources: []Resource{{}}}, State{Resources: []Resource{{}}}
		filled(t, reflect.ValueOf(&b.Resources[0]).Elem().Field(i))
		if same(&a, &b) {
			t.Errorf("Resource.%s", reflect.TypeFor[Resource]().Field(i).Name)
		}
	}
	for i := range reflect.TypeFor[Output]().NumField() {
		a, o := State{Outputs: map[string]Output{"x": {}}}, Output{}
		filled(t, reflect.ValueOf(&o).Elem().Field(i))
		if b := (State{Outputs: map[string]Output{"x": o}}); same(&a, &b) {
			t.Errorf("Output.%s", reflect.TypeFor[Output]().Field(i).Name)
		}
	}
	if !same(&State{}, &State{Serial: 3}) {
		t.Error("the serial counts")
	}
}
