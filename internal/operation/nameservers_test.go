package operation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// TestEachServerHasItsImage: a backend with another name server boots an image of
// its own, is cloned from a template without named, and is told in the manifest.
func TestEachServerHasItsImage(t *testing.T) {
	web := addr.N(addr.Backend, "web")
	zones := []addr.Noun{addr.N(addr.Zone, "z")}
	machines := []lang.Machine{
		{Noun: web.At(addr.Index(0)), Serves: zones},
		{Noun: web.At(addr.Index(1)), Serves: zones, Server: "nsd"},
		{Noun: web.At(addr.Index(2)), Serves: zones, Server: "nsd", Image: addr.N(addr.Image, "six")},
		{Noun: addr.N(addr.Director, "lb")},
	}
	a := &applying{Settings: &Settings{}, dir: "/lab", study: &study{topology: &lang.Topology{Machines: machines,
		Images: []lang.Image{{Noun: addr.N(addr.Image, "six"), Kernel: "linux-image-6.12-cloud-amd64"}}}}}
	list, err := guestsOf(a.study.topology)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list {
		names = append(names, list[i].name())
		list[i].image = guestImage{Image: images.Image{Key: list[i].name(), Digest: list[i].name(), Root: "/" + list[i].name(), Packages: map[string]string{"bind9": "9", "nsd": "4"}}}
	}
	a.setGuests(list)
	if d := cmp.Diff([]string{"debian-12", "debian-12+nsd", "image.six+nsd"}, names); d != "" {
		t.Errorf("images: %s", d)
	}
	for i, want := range []string{"/debian-12", "/debian-12+nsd", "/image.six+nsd", "/debian-12"} {
		if got := a.lowering().Guests[machines[i].Guest()].Root; got != want {
			t.Errorf("%s boots %s, want %s", machines[i].Noun, got, want)
		}
	}
	if !runsNamed(machines[0]) || runsNamed(machines[1]) || runsNamed(machines[3]) {
		t.Error("a template with named is for machines that serve with BIND")
	}
	named, others := a.nameServers()
	if d := cmp.Diff(map[string]string{"backend.web[1]": "nsd 4", "backend.web[2]": "nsd 4"}, others); d != "" || named != "9" {
		t.Errorf("BIND %q, others: %s", named, d)
	}
	for i, want := range []string{"", ", nsd", ", Linux , nsd"} {
		if got := a.kernelText(machines[i]); got != want {
			t.Errorf("the plan says %q of %s, want %q", got, machines[i].Noun, want)
		}
	}
	a.study.topology.Machines = machines[1:2]
	if named, _ := a.nameServers(); named != "" {
		t.Errorf("nobody runs BIND %q", named)
	}
}
