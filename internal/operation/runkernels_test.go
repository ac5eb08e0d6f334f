package operation

import (
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

var imageOld, imageNew = addr.N(addr.Image, "old"), addr.N(addr.Image, "new")

// overKernels is the lab of [paper], up, whose experiment runs over two kernels.
func overKernels(t *testing.T) (*applying, func(map[addr.Noun]addr.Noun) []string) {
	t.Helper()
	a, ps, _ := paper(t, "restore")
	top := a.study.topology
	top.Images = []lang.Image{{Noun: imageOld, Kernel: "linux-image-cloud-amd64"}, {Noun: imageNew, Kernel: "linux-image-6.12-cloud-amd64"}}
	values := []cty.Value{cty.StringVal("image.old"), cty.StringVal("image.new")}
	top.Experiments[0].Factors = append(top.Experiments[0].Factors, lang.Factor{Name: "kernel", Values: values})
	list, err := guestsOf(top)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"six", "one", "twelve"} { // the built-in image, old, new
		list[i].image = guestImage{Image: images.Image{Key: name, Kernel: "/" + name, Root: "/root-" + name, KernelRelease: name, Schedulers: lang.Schedulers}}
	}
	a.setGuests(list)
	if a.list, err = a.study.trials(nil, ""); err != nil {
		t.Fatal(err)
	}
	a.todo = a.list.trials
	if a.wanted, err = lower.Resources(top, a.study.layout, a.lowering()); err != nil {
		t.Fatal(err)
	}
	var have []plan.Existing
	for _, r := range a.wanted {
		have = append(have, plan.Existing{Addr: r.Addr, Type: r.Type, Value: r.Attrs, DependsOn: r.DependsOn, Within: r.Within})
	}
	changed := func(boot map[addr.Noun]addr.Noun) []string {
		wanted, err := a.wantedWith(boot)
		if err != nil {
			t.Fatal(err)
		}
		p, err := renewal(ps, wanted, have, []addr.Noun{top.Services[0].Director})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range p.Changes {
			if c.Action == provider.Replace && c.Type == schema.TypeDomain {
				d, err := schema.DomainFrom(c.Want.Attrs)
				out = append(out, c.Addr.Noun.String()+" "+d.Kernel)
				if err != nil {
					t.Error(err)
				}
			}
		}
		return out
	}
	return a, changed
}

// The images of the runs are made beside that of the lab, whose kernel stays the one
// that it is known by.
func TestGuestsOfRuns(t *testing.T) {
	a, _ := overKernels(t)
	var names []string
	for _, g := range a.guests {
		names = append(names, g.name())
	}
	if !slices.Equal(names, []string{"debian-12", "image.old", "image.new"}) || a.image.KernelRelease != "six" {
		t.Errorf("%q, %s", names, a.image.KernelRelease)
	}
	got := a.releases(a.study.topology.Experiments[0])
	if len(got) != 3 || got[addr.Noun{}] != "six" || got[imageOld] != "one" || got[imageNew] != "twelve" {
		t.Errorf("uname -r is to say %v", got)
	}
	var roots []string
	for _, d := range a.renewedDomains() {
		roots = append(roots, d.Root)
	}
	if !slices.Equal(roots, []string{"/root-six", "/root-one", "/root-twelve"}) {
		t.Errorf("templates for %q", roots)
	}
	text := a.kernelsText(a.study.topology.Experiments[0])
	if !strings.HasSuffix(text, "director.lb boots for its runs image.old Linux one, image.new Linux twelve") {
		t.Errorf("the plan says %q", text)
	}
	if a.todo = nil; len(a.renewedDomains()) != 0 {
		t.Error("templates for an apply without runs")
	}
}

// A run replaces the director alone, by one that boots its image.
func TestRenewalWithAnotherImage(t *testing.T) {
	a, changed := overKernels(t)
	lb := a.study.topology.Services[0].Director
	if got := changed(map[addr.Noun]addr.Noun{lb: imageNew}); !slices.Equal(got, []string{"director.lb /twelve"}) {
		t.Errorf("made anew: %q", got)
	}
	if got := changed(nil); !slices.Equal(got, []string{"director.lb /six"}) {
		t.Errorf("as declared: %q", got)
	}
}

// Each scheduler is to be in each kernel, and those on other kernels are not asked of
// the director as it is declared.
func TestCapableOfEachKernel(t *testing.T) {
	a, _ := overKernels(t)
	if err := a.capable(); err != nil {
		t.Fatal(err)
	}
	if got := a.needs(); len(got) != 0 {
		t.Errorf("asked of the declared kernel: %v", got)
	}
	for i := range a.guests {
		if a.guests[i].block == imageOld {
			a.guests[i].image.Schedulers = []string{"rr", "wlc"}
		}
	}
	ds := diag.From(a.capable())
	if len(ds) == 0 {
		t.Fatal("a kernel lacks what its runs want, and nobody says so")
	}
	for _, d := range ds {
		if d.Address != "experiment.schedulers" || !strings.Contains(d.Detail, "image.old has Linux one, which has rr, wlc.") ||
			d.Remedy != `Use another one, or take image.old out of the factor "kernel".` {
			t.Errorf("%+v", d)
		}
	}
	a.study.topology.Services[0].Scheduler = "sh"
	a.study.topology.Experiments[0].Factors = []lang.Factor{{Name: "kernel", Values: []cty.Value{cty.StringVal("image.old")}}}
	if ds := diag.From(a.capable()); len(ds) != 1 || !strings.Contains(ds[0].Detail, `wants "sh"`) {
		t.Errorf("the declared scheduler: %+v", ds)
	}
}
