package operation

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
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

// By whose rules treatments were found to be one is said where the director boots a
// kernel whose rules nobody here knows.
func TestCollapseOnForeignKernels(t *testing.T) {
	own, packaged := addr.N(addr.Image, "own"), addr.N(addr.Image, "old")
	lb := addr.N(addr.Director, "lb")
	e := lang.Experiment{Service: addr.N(addr.Service, "s"), StandsFor: map[string][]string{"scheduler=rr": {"scheduler=wrr"}}}
	top := &lang.Topology{
		Machines: []lang.Machine{{Noun: lb, Image: packaged}}, Services: []lang.Service{{Noun: e.Service, Director: lb}},
		Images: []lang.Image{{Noun: own, Kernel: "/home/me/linux"}, {Noun: packaged, Kernel: "linux-image-cloud-amd64"}},
	}
	trials := make([]experiment.Trial, 1)
	if lines := foreignRules(top, e, trials); len(lines) > 0 {
		t.Errorf("a package's kernel: %q", lines)
	}
	trials[0].Treatment.Setting.Kernel = own.String()
	if lines := foreignRules(top, e, trials); len(lines) != 1 || !strings.Contains(lines[0], "the kernel of image.own") {
		t.Errorf("by a factor: %q", lines)
	}
	trials[0].Treatment.Setting.Kernel, top.Machines[0].Image = "", own
	if lines := foreignRules(top, e, trials); len(lines) != 1 {
		t.Errorf("declared: %q", lines)
	}
	e.StandsFor = nil
	if lines := foreignRules(top, e, trials); len(lines) > 0 {
		t.Errorf("nobody stands for another: %q", lines)
	}
}
