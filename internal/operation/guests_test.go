package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/provider/schema"
)

// mixed is a lab whose director boots another kernel than the other machines.
func mixed() *lang.Topology {
	lb, c := addr.N(addr.Director, "lb"), addr.N(addr.Client, "c")
	six := addr.N(addr.Image, "six")
	return &lang.Topology{
		Images:   []lang.Image{{Noun: six, Kernel: "linux-image-6.12-cloud-amd64"}, {Noun: addr.N(addr.Image, "unused"), Kernel: "linux-image-amd64"}},
		Machines: []lang.Machine{{Noun: c}, {Noun: lb, Image: six}},
	}
}

func TestGuestsOf(t *testing.T) {
	list, err := guestsOf(mixed())
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v: want the director's image and the built-in one", list, err)
	}
	if list[0].name() != "image.six" || list[0].recipe.Name != "debian-12+6.12-cloud-amd64" || list[1].name() != "debian-12" {
		t.Errorf("%s (%s), %s", list[0].name(), list[0].recipe.Name, list[1].name())
	}
	if none, err := guestsOf(&lang.Topology{}); err != nil || len(none) != 1 || none[0].name() != "debian-12" {
		t.Errorf("a lab without machines: %v, %v", none, err)
	}
	bad := mixed()
	bad.Images[0].Kernel = "linux-image-6.12 cloud"
	_, err = guestsOf(bad)
	if ds := diag.From(err); len(ds) != 1 || ds[0].Address != "image.six" {
		t.Errorf("a bad name gives %+v", ds)
	}
	bad.Images[0].Kernel, bad.Images[0].Range.Filename = "./bzImage", "far/lab.hcl"
	_, err = guestsOf(bad)
	if ds := diag.From(err); len(ds) != 1 || ds[0].Address != "image.six" || !strings.Contains(ds[0].Detail, "far/bzImage") {
		t.Errorf("a kernel that is not there gives %+v", ds)
	}
}

// TestCapable: a scheduler that the director's kernel lacks is told with its
// place, and what an image does not tell is left to the kernel.
func TestCapable(t *testing.T) {
	top := mixed()
	svc, x := addr.N(addr.Service, "s"), addr.N(addr.Experiment, "x")
	top.Services = []lang.Service{{Noun: svc, Director: top.Machines[1].Noun, Scheduler: "rr"}}
	values := []cty.Value{cty.StringVal("sh"), cty.StringVal("twos")}
	top.Experiments = []lang.Experiment{{Noun: x, Service: svc, Factors: []lang.Factor{{Name: "scheduler", Values: values, Range: diag.Range{Filename: "lab.hcl"}}}}}
	a := &applying{Settings: &Settings{}, study: &study{topology: top}}
	has := func(schedulers ...string) {
		a.setGuests([]guestKind{{block: top.Machines[1].Image, image: guestImage{Image: images.Image{KernelRelease: "6.1.0", Schedulers: schedulers}}}})
	}
	if has(); a.capable() != nil {
		t.Errorf("an image that tells nothing: %v", a.capable())
	}
	if has("rr", "sh", "twos"); a.capable() != nil {
		t.Errorf("all are there: %v", a.capable())
	}
	has("rr", "sh")
	ds := diag.From(a.capable())
	if len(ds) != 1 || ds[0].Address != "experiment.x" || ds[0].Subject == nil || ds[0].Subject.Filename != "lab.hcl" {
		t.Fatalf("%+v", ds)
	}
	for _, want := range []string{`wants "twos"`, "Linux 6.1.0", "rr, sh"} {
		if !strings.Contains(ds[0].Detail, want) {
			t.Errorf("%q is not in %q", want, ds[0].Detail)
		}
	}
	if !strings.Contains(ds[0].Remedy, "linux-image-6.12-cloud-amd64") {
		t.Errorf("remedy %q", ds[0].Remedy)
	}
	if top.Images[0].Kernel = "./bzImage"; !strings.Contains(diag.From(a.capable())[0].Remedy, "CONFIG_IP_VS_TWOS=m") {
		t.Errorf("remedy of an own kernel: %+v", diag.From(a.capable()))
	}
}

// TestEachImageHasItsOwn: files, template and digest of a machine are those of
// the image that it boots.
func TestEachImageHasItsOwn(t *testing.T) {
	a := &applying{Settings: &Settings{}, study: &study{topology: mixed()}, dir: "/lab"}
	list, err := guestsOf(a.study.topology)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"six", "old"} {
		list[i].image = guestImage{Image: images.Image{Key: name, Digest: "d-" + name, Root: "/" + name + "/root", KernelRelease: name}, withAgent: "/" + name + "/initrd"}
	}
	a.setGuests(list)
	if a.image.Key != "six" {
		t.Errorf("the study's kernel is %s, want the director's", a.image.Key)
	}
	if got := a.lowering().Guests; got[lang.Guest{}].Root != "/old/root" || got[lang.Guest{Image: addr.N(addr.Image, "six")}].Initrd != "/six/initrd" {
		t.Errorf("%+v", got)
	}
	one, other := schema.Domain{Memory: 1, Root: "/six/root"}, schema.Domain{Memory: 1, Root: "/old/root"}
	if a.imageOf(one).Key != "six" || a.imageOf(other).Key != "old" || a.templates.kindOf(one) == a.templates.kindOf(other) {
		t.Error("two images share a template")
	}
	if got, want := a.digests(), []string{"image.six=d-six", "d-old"}; !slices.Equal(got, want) {
		t.Errorf("digests %q, want %q", got, want)
	}
	if got := a.imageDigests(); got["image.six"] != "d-six" || got["debian-12"] != "d-old" {
		t.Errorf("%v", got)
	}
	if got := a.kernels(); got["image.six"] != "six" || got["debian-12"] != "old" {
		t.Errorf("%v", got)
	}
	if text := a.kernelText(a.study.topology.Machines[1]); !strings.Contains(text, "Linux six") {
		t.Errorf("the plan says %q of the director", text)
	}
	if text := a.kernelText(a.study.topology.Machines[0]); text != "" {
		t.Errorf("the plan says %q of a machine with the built-in image", text)
	}
	before := a.imagesHash()
	a.guests[1].image.Digest = "another"
	if a.imagesHash() == before {
		t.Error("a saved plan would fit another image")
	}
}

// TestImageFailurePointsToItsBlock: what cannot be built is said where it is asked for,
// with its cause kept; the built-in image has no such place.
func TestImageFailurePointsToItsBlock(t *testing.T) {
	top := mixed()
	top.Images[0].Range.Filename = "lab.hcl"
	a := &applying{Settings: &Settings{}, study: &study{topology: top}}
	cause := errors.New("exit status 25")
	fail := func() error {
		return fmt.Errorf("build: %w", diag.Fail(cause, "The package sources have no such kernel", "Look.", ""))
	}
	err := a.atImage(fail(), addr.N(addr.Image, "six"))
	if ds := diag.From(err); !errors.Is(err, cause) || len(ds) != 1 || ds[0].Address != "image.six" || ds[0].Subject == nil || ds[0].Subject.Filename != "lab.hcl" {
		t.Errorf("%v: %+v", err, ds)
	}
	if ds := diag.From(a.atImage(fail(), addr.Noun{})); len(ds) != 1 || ds[0].Subject != nil {
		t.Errorf("the built-in image: %+v", ds)
	}
	if err := a.atImage(context.Canceled, addr.N(addr.Image, "six")); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupt became %v", err)
	}
}
