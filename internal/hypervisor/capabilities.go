package hypervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// libvirt learns what QEMU can do by starting it several times: measured 1 to
// 4 s, paid at the first start of a domain. It keeps the answer in a directory
// of one XML file per emulator, checked against the emulator's and its own
// change time, the kernel, the processor and the user. That directory is
// private here and would be empty in each new lab, so it is filled from lvslab's
// cache at the start and copied back after the first question.

// capabilitiesDir is the place of the copies, one directory for each
// combination of programs, kernel and accelerator. libvirt checks the content
// itself: the key only keeps combinations from evicting each other.
func capabilitiesDir(o Options) (string, error) {
	programs, err := programsIdentity()
	if err != nil {
		return "", err
	}
	release, err := kernelRelease()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprint(sum, programs)
	fmt.Fprintln(sum, release, o.Accelerator)
	return filepath.Join(o.CacheDir, "libvirt-capabilities", hex.EncodeToString(sum.Sum(nil)[:8])), nil
}

// programsIdentity changes when QEMU or libvirtd is replaced by another build.
func programsIdentity() (string, error) {
	var b strings.Builder
	for _, path := range []string{Emulator, libvirtd} {
		id, err := fileIdentity(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, path, id)
	}
	return b.String(), nil
}

// World changes when a machine that was saved cannot be trusted to go on any
// more: with QEMU, with libvirtd and, under KVM, with the kernel and the
// processor, of which the guest has seen more than its model's name.
func World(a Accelerator) (string, error) {
	world, err := programsIdentity()
	if err != nil || a != KVM {
		return world, err
	}
	release, err := kernelRelease()
	if err != nil {
		return "", err
	}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	return world + release + "\n" + cpuIdentity(string(cpu)) + "\n", nil
}

// restoreCapabilities is called inside, before libvirtd starts.
func restoreCapabilities(o Options) error {
	dir, err := capabilitiesDir(o)
	if err != nil {
		return err
	}
	return copyFiles(dir, insideCaps, -1, -1)
}

// saveCapabilities is called outside, when libvirtd answers: it asks the
// question whose answer takes long and keeps the answer.
func saveCapabilities(h *Holder, o Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := h.call(ctx, func(l *libvirt.Libvirt) error {
		virt := "qemu"
		if o.Accelerator == KVM {
			virt = "kvm"
		}
		_, err := l.ConnectGetDomainCapabilities(libvirt.OptString{Emulator}, libvirt.OptString{"x86_64"},
			libvirt.OptString{"pc"}, libvirt.OptString{virt}, 0)
		return err
	})
	if err != nil {
		return err
	}
	dir, err := capabilitiesDir(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chown(d, o.UID, o.GID); err != nil {
			return err
		}
	}
	return copyFiles(h.outside(insideCaps), dir, o.UID, o.GID)
}

// copyFiles copies the XML files that the target lacks or has otherwise, each
// whole or not at all.
func copyFiles(from, to string, uid, gid int) error {
	names, err := filepath.Glob(filepath.Join(from, "*.xml"))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.Base(name))
		if old, err := os.ReadFile(target); err == nil && string(old) == string(text) {
			continue
		}
		if err := replaceFile(target, text, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a file beside its target and renames it. uid -1 gives it
// the owner of its directory: the cache of a user who called sudo stays his.
func replaceFile(target string, text []byte, uid, gid int) error {
	if uid == -1 {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Dir(target), &st); err != nil {
			return &fs.PathError{Op: "stat", Path: filepath.Dir(target), Err: err}
		}
		uid, gid = int(st.Uid), int(st.Gid)
	}
	f, err := os.CreateTemp(filepath.Dir(target), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Chown(uid, gid); err != nil {
		return err
	}
	return os.Rename(f.Name(), target)
}
