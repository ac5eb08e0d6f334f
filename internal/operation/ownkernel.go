package operation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/machine"
)

// silentTrial is how long the console of a kernel's first boot may be silent. It
// says everything from its first instruction on: a good boot, alone on two
// emulated cores, is never silent for more than a second.
const silentTrial = 15 * time.Second

// bootedFile in an image's directory names the accelerator that its kernel was
// seen to boot with.
const bootedFile = "booted-"

// tryOwnKernels boots each kernel of the user's that has never been seen to boot,
// alone and before anything of the lab is made. In the lab a boot that hangs is
// taken for bad luck: it is waited for and tried again, which takes minutes.
func (a *applying) tryOwnKernels(ctx context.Context) error {
	for _, g := range a.guests {
		if g.recipe.Own == nil {
			continue
		}
		seen := filepath.Join(g.image.Dir, bootedFile+string(a.accel))
		if _, err := os.Stat(seen); err == nil {
			continue
		}
		a.phase(PhaseImage, "progress", g.name()+": the first boot of Linux "+g.image.KernelRelease)
		spec := machine.Spec{Node: g.name(), Image: g.image.Image, Initrd: g.image.withAgent, Accelerator: a.accel}
		err := machine.Try(ctx, spec, patience(silentTrial, runtime.NumCPU()))
		var boot *client.BootError
		if errors.As(err, &boot) {
			i, _ := a.study.topology.ImageNamed(g.block)
			err = at(neverBoots(boot, g), a.study.topology.Place(g.block, "kernel", i.Range), g.block)
		}
		if err != nil {
			return err
		}
		_ = os.WriteFile(seen, nil, 0o644) // without it the next apply tries again
	}
	return nil
}

// neverBoots is the failure of a kernel's first boot.
func neverBoots(boot *client.BootError, g guestKind) error {
	return diag.Fail(boot, "The kernel does not boot", "Try the kernel in QEMU by hand: a guest needs virtio, squashfs, overlay, a serial console and an initramfs.",
		"Linux %s", g.image.KernelRelease)
}
