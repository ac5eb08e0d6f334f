package operation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// How far a foreign system came is told by its console. The texts are those of
// SeaBIOS, Linux, systemd and cloud-init on a Debian 12.
func TestDiskDidNotCome(t *testing.T) {
	firmware := "SeaBIOS (version 1.16.2-debian-1.16.2-1)\nBooting from Hard Disk...\n"
	kernel := firmware + "[    0.000000] Linux version 6.1.0-57-cloud-amd64\n[   12.1] systemd[1]: Starting dbus.service\n"
	cloud := kernel + "[   28.394182] cloud-init[248]: Cloud-init v. 22.4.2 running 'init'\n"
	for name, c := range map[string]struct{ console, summary, remedy string }{
		"nothing":       {firmware, "The disk of backend.a does not boot", "boot loader for BIOS"},
		"silent":        {"", "The disk of backend.a does not boot", "console=ttyS0"},
		"no cloud-init": {kernel + "Debian GNU/Linux 12 vm ttyS0\n\nvm login: ", "cloud-init did not run on backend.a", "Install cloud-init"},
		"cloud-init":    {cloud, "cloud-init did not start the agent of backend.a", "bootcmd"},
		"the agent":     {cloud + "lvslab-agent[419]: lvslab-agent: ports open, 73.76 s after boot\n", "backend.a did not come up", "Apply again"},
	} {
		file := filepath.Join(t.TempDir(), "console")
		if err := os.WriteFile(file, []byte(c.console), 0o644); err != nil {
			t.Fatal(err)
		}
		boot := diag.Fail(&client.BootError{Node: "backend.a", Reason: "nothing on its console", Lines: []string{"the tail"}}, "backend.a did not come up", "Apply again.", "")
		err := diskDidNotCome("backend.a", &images.Disk{Path: "/home/me/mine.qcow2"}, file, boot)
		var f *diag.Failure
		if !errors.As(err, &f) || f.Diagnostic.Summary != c.summary || !strings.Contains(f.Diagnostic.Remedy, c.remedy) || !strings.Contains(err.Error(), "the tail") {
			t.Errorf("%s: %v, %+v", name, err, f)
		}
	}
	other := errors.New("interrupted")
	if err := diskDidNotCome("backend.a", &images.Disk{}, "/none", other); !errors.Is(err, other) || err.Error() != "interrupted" {
		t.Errorf("%v", err)
	}
}

// A login prompt without cloud-init before it means that nobody will start the agent;
// cloud-init's later stages may well come after the prompt.
func TestBootedWithoutCloudInit(t *testing.T) {
	for text, want := range map[string]bool{
		"[  OK  ] Started serial-getty@ttyS0.service\nvm login:":                                 true,
		"[  OK  ] Started serial-getty@ttyS0.service":                                            false,
		"[   28.3] cloud-init[248]: Cloud-init v. 22.4.2 running 'init-local'\nvm login:":        false,
		"vm login: [  155.8] cloud-init[345]: Cloud-init v. 22.4.2 running 'modules:config'":     false,
		"vm login: \n[  188.0] lvslab-agent[379]: lvslab-agent: ports open, 188.02 s after boot": false,
	} {
		if got := bootedWithoutCloudInit(strings.Split(text, "\n")); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// withDisk is a lab whose backend boots from a disk.
func withDisk(t *testing.T, disk string) *applying {
	t.Helper()
	n := addr.N(addr.Image, "mine")
	top := &lang.Topology{
		Machines: []lang.Machine{{Noun: addr.N(addr.Director, "lb")}, {Noun: addr.N(addr.Backend, "a"), Image: n}},
		Images:   []lang.Image{{Noun: n, Disk: disk, Range: diag.Range{Filename: filepath.Join(t.TempDir(), "lab.hcl")}}},
	}
	top.Provider.URI = embeddedURI
	return &applying{Settings: &Settings{}, study: &study{topology: top}, cache: t.TempDir()}
}

func TestOwnDiskGuests(t *testing.T) {
	a := withDisk(t, "mine.raw")
	sector := make([]byte, 1024)
	copy(sector[510:], "\x55\xaa")
	file := filepath.Join(filepath.Dir(a.study.topology.Images[0].Range.Filename), "mine.raw")
	if err := os.WriteFile(file, sector, 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := guestsOf(a.study.topology)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := a.openDisk(t.Context(), &list[1]); err != nil || list[1].disk == nil {
		t.Fatalf("%+v, %v", list[1], err)
	}
	if err := a.openDisk(t.Context(), &list[0]); err != nil || list[0].disk != nil {
		t.Fatalf("%+v, %v", list[0], err)
	}
	a.setGuests(list)
	lb, backend := a.study.topology.Machines[0], a.study.topology.Machines[1]
	if a.whyCold(backend) != diskCold || a.whyCold(lb) != "" {
		t.Errorf("%q, %q", a.whyCold(backend), a.whyCold(lb))
	}
	g := a.lowering().Guests[list[1].key()]
	if g.Disk != file || g.DiskFormat != images.FormatRaw || g.DiskSum != list[1].disk.Sum || g.Seed == "" || g.Kernel != "" {
		t.Errorf("%+v", g)
	}
	if text := a.kernelText(backend); text != ", mine.raw" {
		t.Errorf("%q", text)
	}
	a.learnKernel("backend.a", &proto.Enrolled{Kernel: "6.1.0"})
	if text := a.kernelText(backend); text != ", mine.raw, Linux 6.1.0" || a.image.KernelRelease != "" {
		t.Errorf("%q, %q", text, a.image.KernelRelease)
	}
	again := a.guests[1]
	if err := a.openDisk(t.Context(), &again); err != nil || again.image.KernelRelease != "6.1.0" {
		t.Errorf("the next plan: %+v, %v", again, err)
	}
	if recipesKey(list) != recipesKey(list[:1]) {
		t.Error("a disk has a recipe")
	}
	if files := a.disksShown(); len(files) != 1 || files[0] != file {
		t.Errorf("%v", files)
	}
}

func TestOwnDiskRefused(t *testing.T) {
	for uri, want := range map[string]string{embeddedURI: "The disk cannot be read", "qemu:///system": "needs the embedded hypervisor"} {
		a := withDisk(t, "gone.qcow2")
		a.study.topology.Provider.URI = uri
		list, err := guestsOf(a.study.topology)
		if err != nil {
			t.Fatal(err)
		}
		err = a.openDisk(t.Context(), &list[1])
		ds := diag.From(err)
		if len(ds) != 1 || !strings.Contains(ds[0].Summary, want) || ds[0].Subject == nil || ds[0].Address != "image.mine" {
			t.Errorf("%s: %+v", uri, ds)
		}
	}
}
