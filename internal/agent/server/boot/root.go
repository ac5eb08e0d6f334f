package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/server"
)

// What the image's initramfs holds for the agent.
const (
	moduleList = "/lib/lvslab/modules" // paths of .ko files in the order of loading
	lower      = "/lower"              // for the read-only root image
	upper      = "/upper"              // for the layer of RAM above it
	newRoot    = "/newroot"
)

// rootVariable of the kernel's command line names the root image's device.
const (
	rootVariable = "lvslab.root="
	defaultRoot  = "/dev/vda"
	rootWithin   = 20 * time.Second
)

type mount struct {
	source, target, fstype string
	flags                  uintptr
	data                   string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.fstype, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s (%s) on %s: %w", m.source, m.fstype, m.target, err)
	}
	return nil
}

// earlyMounts makes the kernel's own file systems visible. The console is
// opened again: without a console node in the initramfs PID 1 starts without.
func earlyMounts() error {
	for _, m := range []mount{
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
	} {
		if err := m.do(); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	fd, err := unix.Open("/dev/console", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil // a machine without a console works too
	}
	for std := range 3 {
		if fd != std {
			_ = unix.Dup3(fd, std, 0)
		}
	}
	if fd > 2 {
		_ = unix.Close(fd)
	}
	return nil
}

func loadModules(list string) error {
	text, err := os.ReadFile(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel with everything built in
	}
	if err != nil {
		return err
	}
	for path := range strings.Lines(string(text)) {
		if path = strings.TrimSpace(path); path == "" || path[0] == '#' {
			continue
		}
		if err := server.LoadModuleFile(path); err != nil {
			return err
		}
	}
	return nil
}

// switchRoot mounts root image and layer, frees the initramfs's RAM, and makes
// the mounted tree the root of this process.
func switchRoot() error {
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	device := rootDevice(string(cmdline))
	if err := waitFor(device); err != nil {
		return err
	}
	mounts := []mount{
		{device, lower, "squashfs", unix.MS_RDONLY, ""},
		{"tmpfs", upper, "tmpfs", 0, "mode=0755"},
	}
	for _, m := range mounts {
		if err := m.do(); err != nil {
			return err
		}
	}
	for _, dir := range []string{upper + "/up", upper + "/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s/up,workdir=%s/work", lower, upper, upper)
	if err := (mount{"root", newRoot, "overlay", 0, layers}).do(); err != nil {
		return err
	}
	return enterRoot()
}

func enterRoot() error {
	for _, dir := range []string{"/dev", "/proc", "/sys"} {
		if err := os.MkdirAll(newRoot+dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(dir, newRoot+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	if err := freeInitramfs(); err != nil {
		return err
	}
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	for _, m := range []mount{
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0666"},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	return os.MkdirAll(server.FileRoot, 0o755)
}

// freeInitramfs deletes the files of the first root, which is RAM, and keeps to
// its device: what is mounted on it stays.
func freeInitramfs() error {
	var root unix.Stat_t
	if err := unix.Lstat("/", &root); err != nil {
		return err
	}
	return filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil {
			return nil
		}
		if st.Dev != root.Dev {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.IsDir() {
			_ = os.Remove(path)
		}
		return nil
	})
}

// rootDevice finds the root image's device in the kernel's command line.
func rootDevice(cmdline string) string {
	for word := range strings.FieldsSeq(cmdline) {
		if device, ok := strings.CutPrefix(word, rootVariable); ok {
			return device
		}
	}
	return defaultRoot
}

// waitFor waits until the driver has made the device.
func waitFor(device string) error {
	for end := time.Now().Add(rootWithin); ; time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(device); err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the root image's device %s did not appear within %s", device, rootWithin)
		}
	}
}
