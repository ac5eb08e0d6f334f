package operation

import (
	"slices"
	"testing"

	"github.com/lvslab/lvslab/plan/state"
)

// What is one treatment at the first place of the list only is not collapsed: nq
// takes the head and sed the largest weight, which is the head in one block of three.
func TestCollapseGoesRoundTheList(t *testing.T) {
	s := settings(t)
	st, err := s.parse("builtin:mechanism")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.resolve(st, state.State{Lineage: state.NewLineage()}); err != nil {
		t.Fatal(err)
	}
	e := st.topology.Experiments[0]
	const rest = ",sockets=20,one_packet=false,weights="
	first := "scheduler=lblc" + rest + "1:1:1,vips=1"
	for id, want := range map[string]bool{
		"scheduler=sed" + rest + "1:1:1,vips=1": true, "scheduler=nq" + rest + "1:1:1,vips=1": true,
		"scheduler=nq" + rest + "3:2:1,vips=1": true, "scheduler=sed" + rest + "3:2:1,vips=1": false,
	} {
		if got := slices.Contains(e.StandsFor[first], id); got != want {
			t.Errorf("%s stands for %s: %v, want %v", first, id, got, want)
		}
	}
	list, err := st.trials(nil, "tcg")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(list.of(e)); n != 3*40 {
		t.Errorf("%d runs, want 120", n)
	}
}
