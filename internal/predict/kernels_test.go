package predict

import (
	"maps"
	"slices"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

const twoImages = `image "old" { kernel = "linux-image-cloud-amd64" }
image "new" { kernel = "linux-image-6.12-cloud-amd64" }
`

// Each run is foretold by the rules of the kernel that its director boots.
func TestKernelOfARun(t *testing.T) {
	top := topology(t, twoImages+design(1, 0, "", "", "factor \"kernel\" { values = [image.old, image.new] }\n"+load20))
	kernels := Kernels{addr.N(addr.Image, "old"): {Before2026: true}}
	for setting, want := range map[string]bool{"image.old": true, "image.new": false, "": false} {
		if got := kernels.of(top, top.Services[0], experiment.Setting{Kernel: setting}); got.Before2026 != want {
			t.Errorf("%q: %+v", setting, got)
		}
	}
	top.Machines[1].Image = addr.N(addr.Image, "old")
	if top.Machines[1].Noun != top.Services[0].Director {
		t.Fatalf("machine 1 is %s", top.Machines[1].Noun)
	}
	if got := kernels.of(top, top.Services[0], experiment.Setting{}); !got.Before2026 {
		t.Errorf("the declared image counts where no factor says otherwise: %+v", got)
	}
	if got := Kernels(nil).of(top, top.Services[0], experiment.Setting{}); got != (ipvsmodel.Kernel{}) {
		t.Errorf("nothing is known: %+v", got)
	}
}

// Two kernels are alike by the rules, and the prediction says so; but to collapse
// them would leave nothing of the study.
func TestNoKernelStandsForAnother(t *testing.T) {
	exp := "collapse = true\nfactor \"kernel\" { values = [image.old, image.new] }\nfactor \"scheduler\" { values = [\"rr\", \"wrr\"] }\n" + load20
	p := of(t, twoImages+design(1, 0, "", "", exp))
	if len(p.Same) != 1 || len(p.Same[0]) != 4 {
		t.Errorf("one treatment by the rules: %v", p.Same)
	}
	got := StandsFor(p)
	if len(got) != 2 || !slices.Equal(slices.Sorted(maps.Keys(got)), []string{"kernel=new,scheduler=rr", "kernel=old,scheduler=rr"}) ||
		!slices.Equal(got["kernel=old,scheduler=rr"], []string{"kernel=old,scheduler=wrr"}) {
		t.Errorf("stands for: %v", got)
	}
}

// What is one treatment by the rules of one kernel and two by those of another is
// run; so is what only one of them foretells to the last query.
func TestStandsForByAllRules(t *testing.T) {
	cells := func(groups ...int) Prediction {
		var p Prediction
		for i, g := range groups {
			p.Cells = append(p.Cells, Cell{Treatment: string(rune('a' + i)), Group: g, Kind: Exact})
		}
		return p
	}
	newest, older := cells(1, 1, 1, 2, 2), cells(1, 1, 2, 2, 2)
	want := map[string][]string{"a": {"b"}, "d": {"e"}}
	if got := StandsFor(newest, older); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("by both: %v, want %v", got, want)
	}
	older.Cells[4].Kind = Time
	if got := StandsFor(newest, older); len(got) != 1 || got["d"] != nil {
		t.Errorf("e is not certain by the older rules: %v", got)
	}
	if got := StandsFor(newest)["a"]; len(got) != 2 {
		t.Errorf("by the newest alone a stands for %v", got)
	}
}

// All images of a lab get the rules that are asked for, the built-in one too.
func TestEverywhere(t *testing.T) {
	top := topology(t, twoImages+design(1, 0, "", "", "factor \"kernel\" { values = [image.old, image.new] }\n"+load20))
	for _, k := range ipvsmodel.Kernels() {
		all := Everywhere(top, k)
		for _, setting := range []string{"", "image.old", "image.new"} {
			if got := all.of(top, top.Services[0], experiment.Setting{Kernel: setting}); got != k {
				t.Errorf("%q: %+v, want %+v", setting, got, k)
			}
		}
	}
}
