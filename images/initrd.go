package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/u-root/u-root/pkg/cpio"
)

// AgentPath is where the agent lies in the initramfs; the kernel is started
// with rdinit= this.
const AgentPath = "/lvslab-agent"

// ModuleList is the file in the initramfs that names the modules to load, one
// absolute path a line, in the order of loading.
const ModuleList = "/lib/lvslab/modules"

// KernelArgs are arguments that make an emulated guest start sooner and are
// right for every lab: no console chatter, no mitigations against neighbours
// that a guest does not have, no self-tests of ciphers (0.4 of 3.5 s of CPU
// time), none of the accounts that the kernel's scheduler would keep for
// pressure, memory groups and watchdogs, and pages cleared when they are freed
// and not when they are used: free memory is zeros then, and costs nothing in a
// saved machine. Console, rdinit and the like are for the caller to add.
const KernelArgs = "quiet mitigations=off cryptomgr.notests panic=-1 psi=0 cgroup_disable=memory nowatchdog init_on_alloc=0 init_on_free=1"

// fallbackInit is /init of the initramfs: what the agent does to reach the
// root, as a shell script, for looking at an image without an agent.
//
//go:embed init.sh
var fallbackInit string

// initrdDirs are the mount points that the way to the root needs.
var initrdDirs = []string{"bin", "dev", "lib", "lib/lvslab", "lib/lvslab/ko", "lower", "newroot", "proc", "run", "sys", "upper"}

// writeInitrd writes the initramfs without agent: busybox, the modules, the
// list of them, mount points. It is not compressed: unpacking 4 MB is cheaper
// for an emulated CPU than decompressing 1.5.
func writeInitrd(ctx context.Context, w io.Writer, recipe Recipe, t tree, k *kernelTree) error {
	order, err := k.loadOrder(ctx, recipe.BootModules)
	if err != nil {
		return err
	}
	_, bb, ok := t.follow("usr/bin/busybox")
	if !ok {
		return fmt.Errorf("recipe %s brings no busybox", recipe.Name)
	}
	prog, err := readProgram(bb)
	if err != nil {
		return err
	}
	if prog == nil || prog.interp != "" || len(prog.needed) > 0 {
		return fmt.Errorf("recipe %s brings a busybox that is not static", recipe.Name)
	}
	busybox, err := bb.content()
	if err != nil {
		return err
	}
	var records []cpio.Record
	for _, dir := range initrdDirs {
		records = append(records, cpio.Directory(dir, 0o755))
	}
	records = append(records,
		cpio.CharDev("dev/console", 0o600, 5, 1), cpio.CharDev("dev/null", 0o666, 1, 3),
		cpio.StaticFile("bin/busybox", string(busybox), 0o755), cpio.Symlink("bin/sh", "busybox"),
		cpio.StaticFile("init", fallbackInit, 0o755))
	var list strings.Builder
	for _, name := range order {
		info, err := k.info(ctx, name)
		if err != nil {
			return err
		}
		file := "lib/lvslab/ko/" + name + ".ko"
		fmt.Fprintf(&list, "/%s\n", file)
		records = append(records, cpio.StaticFile(file, string(info.text), 0o644))
	}
	records = append(records, cpio.StaticFile(strings.TrimPrefix(ModuleList, "/"), list.String(), 0o644))
	return writeCPIO(w, records, recipe.Epoch)
}

// writeCPIO writes a newc archive whose bytes depend on names, modes and
// content alone.
func writeCPIO(w io.Writer, records []cpio.Record, epoch int64) error {
	rw := cpio.Newc.Writer(w)
	for i, r := range records {
		r.Ino = uint64(i + 1)
		r.NLink = 1
		r.MTime = uint64(epoch)
		r.UID, r.GID, r.Dev, r.Major, r.Minor = 0, 0, 0, 0, 0
		if err := rw.WriteRecord(r); err != nil {
			return fmt.Errorf("write %s to the initramfs: %w", r.Name, err)
		}
	}
	return cpio.WriteTrailer(rw)
}

// initrdAge is how long an initramfs with an agent stays without being asked
// for. Each build of lvslab has its own of some 12 MB.
const initrdAge = 7 * 24 * time.Hour

// InitrdPath is where [InitrdWithAgent] keeps the initramfs of an image and an
// agent, whose SHA-256 is given: the name holds the sums of both.
func InitrdPath(img Image, agent [sha256.Size]byte, cacheDir string) string {
	sum := sha256.Sum256(append([]byte(img.Digest+"\n"), agent[:]...))
	return filepath.Join(initrdsDir(cacheDir), img.Key+"-"+hex.EncodeToString(sum[:8])+".cpio")
}

// CachedInitrd returns the path of an initramfs that is in the cache, without
// the agent itself: its 9 MB need not be read into memory (0.05 s).
func CachedInitrd(img Image, agent [sha256.Size]byte, cacheDir string) (string, bool) {
	path, now := InitrdPath(img, agent, cacheDir), time.Now()
	if _, err := os.Stat(path); err != nil {
		return "", false
	}
	_ = os.Chtimes(path, now, now)
	return path, true
}

// InitrdWithAgent returns the path of an initramfs that is the image's with
// the agent at [AgentPath], mode 0755, appended as a second archive (the
// kernel unpacks concatenated archives one after the other,
// Documentation/driver-api/early-userspace/buffer-format.rst). It is kept in
// the cache under the sums of both.
func InitrdWithAgent(ctx context.Context, img Image, agent []byte, cacheDir string) (string, error) {
	sum := sha256.Sum256(agent)
	if path, ok := CachedInitrd(img, sum, cacheDir); ok {
		return path, nil
	}
	path, now := InitrdPath(img, sum, cacheDir), time.Now()
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return "", err
	}
	if err := checkSpace(dir, "an initramfs", uint64(img.Sizes[initrdFile])+uint64(len(agent))+16<<20); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	dropOld(dir, now.Add(-initrdAge))
	base, err := os.ReadFile(img.Initrd)
	if err != nil {
		return "", damaged(img, err)
	}
	var buf bytes.Buffer
	buf.Write(base)
	for buf.Len()%4 != 0 { // an archive starts at a multiple of four
		buf.WriteByte(0)
	}
	record := cpio.StaticFile(strings.TrimPrefix(AgentPath, "/"), string(agent), 0o755)
	if err := writeCPIO(&buf, []cpio.Record{record}, 0); err != nil {
		return "", err
	}
	return path, replaceFile(path, buf.Bytes())
}

// replaceFile writes a file that others see complete or not at all.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), buildPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	handOver(path)
	return nil
}

// dropOld removes files not used since a time. A VM that runs has read its
// initramfs; only a lab of a week without any start would have to make it anew.
func dropOld(dir string, before time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.ModTime().Before(before) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
