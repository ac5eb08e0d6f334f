package operation

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/remote"
	"github.com/lvslab/lvslab/internal/remote/remotetest"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/schema"
)

func remoteHost(t *testing.T) (*remotetest.Server, *remote.Host) {
	t.Helper()
	s := remotetest.Serve(t)
	h, err := remote.Open(t.Context(), remote.Spec{User: "tester", Host: s.Host, Port: s.Port,
		KeyFile: filepath.Join(s.Dir, "key"), KnownHosts: filepath.Join(s.Dir, "known_hosts")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return s, h
}

// A copy goes on where it ended, whoever made it so far, and begins anew with its
// original.
func TestConsoleCopies(t *testing.T) {
	_, h := remoteHost(t)
	there, here, ctx := t.TempDir(), filepath.Join(t.TempDir(), "console"), t.Context()
	a, b := newConsoleCopies(h, there, here), newConsoleCopies(h, there, here)
	write := func(text string, flag int) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(there, "n.log"), os.O_WRONLY|os.O_CREATE|flag, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(text string, from ...*consoleCopies) {
		t.Helper()
		for _, c := range from {
			if err := c.pull(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(here, "n.log")); err != nil || string(got) != text {
			t.Errorf("%d bytes and not %d, %v", len(got), len(text), err)
		}
	}
	if err := a.pull(ctx); err != nil {
		t.Error(err)
	}
	long := strings.Repeat("0123456789abcdef", copyStep/8) // two steps
	write(long, 0)
	want(long, a, b)
	write("more\n", os.O_APPEND)
	want(long+"more\n", b, a)
	write("anew\n", os.O_TRUNC) // and nobody has told
	want("anew\n", a)
	renew := func() error { write("", os.O_TRUNC); write("another machine\n", 0); return nil }
	if err := a.renew(ctx, "n.log", renew); err != nil {
		t.Fatal(err)
	}
	want("")
	want("another machine\n", b)
	if err := os.RemoveAll(there); err != nil {
		t.Fatal(err)
	}
	want("another machine\n", a) // what was said stays
	a.start()
	a.close()
}

// Directories in marks tell whose they are.
func TestFarLabels(t *testing.T) {
	if dir, elsewhere := fromLabel(farLabel("/home/x/lab")); dir != "/home/x/lab" || elsewhere {
		t.Errorf("%s, %v", dir, elsewhere)
	}
	if dir, elsewhere := fromLabel("0123456789ab:/home/x/lab"); dir != "/home/x/lab" || !elsewhere {
		t.Errorf("%s, %v", dir, elsewhere)
	}
	if dir, elsewhere := fromLabel("/home/x/lab"); dir != "/home/x/lab" || elsewhere {
		t.Errorf("%s, %v", dir, elsewhere)
	}
	l := abroad{lineage: "0123456789abcdef", dir: "/nowhere/lab", elsewhere: true}
	if why, err := passOverAbroad(l, nil); err != nil || !strings.Contains(why, "another machine") {
		t.Errorf("%q, %v", why, err)
	}
	if why, err := passOverAbroad(l, []string{"lab"}); err != nil || why != "" {
		t.Errorf("named: %q, %v", why, err)
	}
}

// Every socket of a lab has a path that a socket can have.
func TestFarSockets(t *testing.T) {
	path := farOptions(nil, strings.Repeat("f", 32)).ChannelPath(strings.Repeat("d", 200), "org.lvslab."+strings.Repeat("p", 200))
	if len(path) > 107 {
		t.Errorf("%s has %d bytes", path, len(path))
	}
}

func TestFarMachinesBoot(t *testing.T) {
	a := &applying{Settings: &Settings{}, study: &study{topology: &lang.Topology{Provider: lang.Provider{URI: "qemu+ssh://host/system"}}}}
	if why := a.whyCold(lang.Machine{}); why != farCold {
		t.Errorf("%q", why)
	}
	a.study.topology.Provider.URI = "qemu:///system"
	if why := a.whyCold(lang.Machine{}); why != "" {
		t.Errorf("%q", why)
	}
}

// What is uploaded has a name by its content; an image that is not built yet
// keeps its own.
func TestCargo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "vmlinuz")
	if c, err := cargoOf("kernel", name); err != nil || c.to != name || c.file.Path != "" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := os.WriteFile(name, []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	one, err := cargoOf("kernel", name)
	if err != nil || !strings.HasPrefix(one.to, farImages+"/") || one.file.Size != 3 {
		t.Errorf("%+v, %v", one, err)
	}
	if err := os.WriteFile(name, []byte("two"), 0o644); err != nil {
		t.Fatal(err)
	}
	if two, err := cargoOf("kernel", name); err != nil || two.to == one.to {
		t.Errorf("%+v, %v", two, err)
	}
}

// Machines may boot several images: all their files are shipped, each once, and the
// machines are made with the names that those have there.
func TestShipment(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	root := file("root")
	old := guestKind{image: guestImage{images.Image{Kernel: file("old"), Root: root}, file("old-initrd")}}
	six := guestKind{block: addr.N(addr.Image, "six"), image: guestImage{images.Image{Kernel: file("six"), Root: root}, filepath.Join(dir, "not-built")}}
	a := &applying{Settings: &Settings{}, guests: []guestKind{old, six}, prior: state.State{Lineage: strings.Repeat("f", 32)},
		study: &study{topology: &lang.Topology{Provider: lang.Provider{URI: "qemu+ssh://host/system"}}}}
	var err error
	if a.shipment, err = a.load(); err != nil || len(a.shipment) != 5 {
		t.Fatalf("%+v, %v", a.shipment, err)
	}
	o := a.lowering()
	one, two := o.Guests[lang.Guest{}], o.Guests[six.key()]
	for _, name := range []string{one.Kernel, one.Initrd, one.Root, two.Kernel, two.Root, o.LabDir} {
		if !strings.HasPrefix(name, farHome+"/") {
			t.Errorf("%s is not there", name)
		}
	}
	if one.Kernel == two.Kernel || one.Root != two.Root || two.Initrd != six.image.withAgent {
		t.Errorf("%+v, %+v", one, two)
	}
	if got := a.imageOf(schema.Domain{Root: two.Root}); got.Kernel != old.image.Kernel { // the first that has this root
		t.Errorf("%+v", got)
	}
	a.study.topology.Provider.URI, a.shipment = embeddedURI, nil
	a.dir = "/lab"
	if o := a.lowering(); o.LabDir != "/lab" || o.Guests[six.key()].Kernel != six.image.Kernel {
		t.Errorf("here: %+v", o)
	}
}

// The loss of the connection is noticed a moment after what broke with it.
func TestSevered(t *testing.T) {
	s, h := remoteHost(t)
	f, began := &far{Host: h}, time.Now()
	if err := h.Lost(began); err != nil {
		t.Errorf("%v", err)
	}
	s.Cut()
	err := f.severed(began)
	for limit := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(limit); {
		err = f.severed(began)
	}
	if !errors.Is(err, remote.ErrLost) || len(diag.From(err)) != 1 {
		t.Errorf("%v", err)
	}
}

func TestFarFacts(t *testing.T) {
	_, h := remoteHost(t) // which is this machine
	f := &far{Host: h}
	facts := f.facts(t.Context())
	have, _, err := hypervisor.MemoryAvailable()
	if here := thisHost(); facts.ID != here.ID || facts.CPU != here.CPU || facts.Cores < 1 || facts.kernel != hostVersions().HostKernel || len(facts.boot) != 36 || err == nil && have > 0 && facts.memory == 0 {
		t.Errorf("%+v, and here %+v", facts, here)
	}
	if err := f.Exists(t.Context(), "/nonexistent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
