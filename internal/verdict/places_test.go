package verdict

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlacesByName(t *testing.T) {
	for p, want := range map[int]string{0: "head", 1: "2nd", 2: "3rd", 3: "4th", 10: "11th", 11: "12th", 12: "13th", 20: "21st", 21: "22nd", 111: "112th"} {
		if got := Place(p); got != want {
			t.Errorf("place %d is %q, want %q", p, got, want)
		}
	}
	for want, blocks := range map[string][]int{"block 3": {3}, "blocks 1 and 4": {1, 4}, "5 blocks from 2 to 14": {2, 5, 8, 11, 14}} {
		if got := BlocksText(blocks); got != want {
			t.Errorf("%v: %q, want %q", blocks, got, want)
		}
	}
}

// Lists are told apart by block; without turning, or in invalid runs alone, there
// is nothing to tell.
func TestListsOfBlocks(t *testing.T) {
	s := newStudy(turned(4))
	want := []List{
		{[]string{"backend.ns[0]", "backend.ns[1]", "backend.ns[2]"}, []int{1, 4}},
		{[]string{"backend.ns[1]", "backend.ns[2]", "backend.ns[0]"}, []int{2}},
		{[]string{"backend.ns[2]", "backend.ns[0]", "backend.ns[1]"}, []int{3}},
	}
	if d := cmp.Diff(want, s.lists()); d != "" {
		t.Error(d)
	}
	if got := ListsText(want); got != "ns[0], ns[1], ns[2] in blocks 1 and 4; ns[1], ns[2], ns[0] in block 2; ns[2], ns[0], ns[1] in block 3" {
		t.Error(got)
	}
	if got := standing(want, 1); got != "ns[1] in blocks 1 and 4, ns[2] in block 2 and ns[0] in block 3" {
		t.Error(got)
	}
	in := turned(4)
	for i := range in.Runs {
		in.Runs[i].Valid = in.Runs[i].Block == 2
	}
	if got := newStudy(in).lists(); got != nil {
		t.Errorf("one block has no lists to compare: %v", got)
	}
	if got := newStudy(newScene([]string{"rr", "dh"}, 4).sockets20().build()).lists(); got != nil {
		t.Errorf("one list: %v", got)
	}
	// One order for each treatment is no turning: it is what they differ in.
	in = newScene([]string{"rr", "dh"}, 4).sockets20().build()
	for i := range in.Backends {
		if in.Runs[i/3].Factors["scheduler"] == "dh" {
			in.Backends[i].Position = 2 - in.Backends[i].Position
		}
	}
	if got := newStudy(in).lists(); got != nil {
		t.Errorf("two treatments with a list each: %v", got)
	}
}
