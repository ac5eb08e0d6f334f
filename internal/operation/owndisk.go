package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/binary"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/walk"
)

// A machine with a disk of the user's boots a whole distribution: firmware, boot
// loader, initramfs, its services and at last cloud-init, which starts the agent.
// One that does little else took 55 s, alone on two emulated cores.
const (
	diskContact = 12 * time.Minute
	// silentDisk is how long its console may be silent: cloud-init says little.
	silentDisk = 2 * time.Minute
	// idleDisk is how long after a login prompt, when nothing was seen of cloud-init:
	// its units come before those that let users in.
	idleDisk = 45 * time.Second
)

// readDiskWithin bounds the reading of a disk for its sum.
const readDiskWithin = 10 * time.Minute

// diskCold is why a machine with a disk of its own is booted.
const diskCold = "it has a disk of its own"

// fromHere returns a path of an image block as it counts from here: those in a
// file count from its directory.
func fromHere(i lang.Image, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(i.Range.Filename), path)
}

// openDisk looks at a guest's disk, when it has one.
func (a *applying) openDisk(ctx context.Context, g *guestKind) error {
	i, ok := a.study.topology.ImageNamed(g.block)
	if !ok || i.Disk == "" {
		return nil
	}
	place := a.study.topology.Place(g.block, "disk", i.Range)
	if !a.embedded() {
		return at(diag.Fail(nil, "A disk of its own needs the embedded hypervisor",
			`Leave the provider block out, or write uri = "embedded" in it.`, "%s names %s, and the lab's machines run on %q", g.block, i.Disk, a.study.topology.Provider.URI), place, g.block)
	}
	ctx, cancel := context.WithTimeout(ctx, readDiskWithin)
	defer cancel()
	d, err := images.OpenDisk(ctx, fromHere(i, i.Disk), a.cache)
	if err != nil {
		return at(err, place, g.block)
	}
	agent, err := binary.Sum()
	if err != nil {
		return err
	}
	g.disk, g.image, g.seed = &d, guestImage{Image: d.Image()}, images.SeedPath(agent, a.cache)
	return nil
}

// prepareDisk makes what cloud-init reads beside the disk, and returns a phrase
// about the disk.
func (a *applying) prepareDisk(ctx context.Context, g *guestKind) (string, error) {
	if !images.CachedSeed(g.seed) {
		agent, err := binary.Bytes()
		if err == nil {
			g.seed, err = images.Seed(ctx, agent, a.cache)
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s %s%s, a disk of its own", g.image.Name, g.image.Key, g.linux()), nil
}

// linux is ", Linux RELEASE", "" before a machine was booted from the disk.
func (g guestKind) linux() string {
	if g.image.KernelRelease == "" {
		return ""
	}
	return ", Linux " + g.image.KernelRelease
}

// probeKernel is a kernel to try the accelerator with: that of the director's
// image, or the built-in one where the director has a disk of its own.
func (a *applying) probeKernel() string {
	img, _, _ := images.Cached(images.Debian12, a.cache)
	return cmp.Or(a.image.Kernel, img.Kernel)
}

// diskOf returns the disk that a machine boots from, nil when it is none of the
// user's.
func (a *applying) diskOf(node string) *images.Disk {
	n, err := addr.ParseNoun(node)
	if err != nil {
		return nil
	}
	m, ok := a.study.topology.Machine(n)
	if !ok {
		return nil
	}
	return a.guestOf(m).disk
}

// callWithin bounds one call that makes something: the first one to a machine
// waits for its boot.
func (a *applying) callWithin(plan.Op, string) time.Duration {
	if len(a.disksShown()) > 0 {
		return diskContact + walk.DefaultDeadline
	}
	return walk.DefaultDeadline
}

// disksShown are the disks that the hypervisor must be able to read.
func (a *applying) disksShown() (files []string) {
	for _, g := range a.guests {
		if g.disk != nil {
			files = append(files, g.disk.Files...)
		}
	}
	return files
}

// learnKernel notes which kernel a disk has brought, once one of its machines
// has told.
func (a *applying) learnKernel(node string, e *proto.Enrolled) {
	d := a.diskOf(node)
	if d == nil || e == nil {
		return
	}
	a.guestsMu.Lock()
	defer a.guestsMu.Unlock()
	for i := range a.guests {
		if g := &a.guests[i]; g.disk == d && g.image.KernelRelease != e.Kernel {
			g.image.KernelRelease = e.Kernel
			images.NoteKernel(*d, e.Kernel, a.cache)
			if i == 0 {
				a.image.KernelRelease = e.Kernel
			}
		}
	}
}

// What the consoles of foreign systems show on their way up.
var (
	kernelMarks = []string{"Linux version ", "Run /init as init process", "systemd[1]:", "Starting ", "Reached target"}
	cloudMarks  = []string{"cloud-init[", "Cloud-init v. "}
	loginMark   = " login:"
	agentMark   = "lvslab-agent:"
)

// shown reports whether a console shows one of the marks.
func shown(lines []string, marks ...string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(line, m) })
	})
}

// bootedWithoutCloudInit reports whether a console shows that a system is up and
// cloud-init was not on its way there.
func bootedWithoutCloudInit(lines []string) bool {
	return shown(lines, loginMark) && !shown(lines, append([]string{agentMark}, cloudMarks...)...)
}

// diskDidNotCome says of a machine with a disk of its own that gave no answer
// how far it came, by its console.
func diskDidNotCome(node string, d *images.Disk, console string, err error) error {
	var boot *client.BootError
	if !errors.As(err, &boot) {
		return err
	}
	lines := client.Lines(console)
	summary := "The disk of " + node + " does not boot"
	remedy := "Try it in QEMU by hand. It needs a boot loader for BIOS, virtio's drivers, and console=ttyS0 for its kernel to be heard."
	switch {
	case shown(lines, agentMark):
		return err
	case shown(lines, cloudMarks...):
		summary = "cloud-init did not start the agent of " + node
		remedy = "Look above for what cloud-init says of bootcmd; a datasource_list in the image's /etc/cloud must name NoCloud, and systemd must run the services."
	case shown(lines, append(kernelMarks, loginMark)...):
		summary = "cloud-init did not run on " + node
		remedy = "Install cloud-init in the image and enable it (apt-get install cloud-init; no /etc/cloud/cloud-init.disabled), with NoCloud in its datasource_list: see docs/images.md."
	}
	f := diag.Fail(boot, summary, remedy, "%s", d.Path)
	f.Diagnostic = f.Diagnostic.For(node)
	return f
}
