package hypervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hidden are the directories of the host that get a private tmpfs: libvirt
// keeps its configuration, sockets, state, caches and logs below them, and the
// host may lack the very directories that a bind mount would need.
var hidden = []string{"/etc", "/run", "/var"}

// mount names its target in the error: the kernel's own text names nothing.
func mount(source, target, fstype string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", fstype+source, target, err)
	}
	return nil
}

// kept is a directory or file of the host that is put back after its parent
// was hidden.
type kept struct {
	path string
	fd   int // O_PATH
	dir  bool
}

// hold opens a path of the host before it is hidden. A missing one is no error.
func hold(path string) (*kept, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", path, err)
	}
	return &kept{path: path, fd: fd, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// putBack bind-mounts it at its old path.
func (k *kept) putBack() error {
	defer unix.Close(k.fd)
	var err error
	if k.dir {
		err = os.MkdirAll(k.path, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(k.path), 0o755); err == nil {
		err = os.WriteFile(k.path, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return mount(fmt.Sprintf("/proc/self/fd/%d", k.fd), k.path, "", unix.MS_BIND|unix.MS_REC, "")
}

// below reports whether path is dir or inside it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// privateFiles builds the private view of the file system: fresh /proc, /sys
// and /dev, a tmpfs over each hidden directory, everything else of the host
// visible and read-only, except the lab's directory.
func privateFiles(o Options) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	keep, err := holdAll(o)
	if err != nil {
		return err
	}
	devices, err := holdDevices(o.Accelerator)
	if err != nil {
		return err
	}
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := mount("proc", "/proc", "proc", safe, ""); err != nil {
		return err
	}
	// Detached with all below it, so that libvirt finds no cgroups in the list of
	// mounts and looks for none.
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("detach /sys: %w", err)
	}
	// A sysfs shows the links of the network namespace it was mounted in.
	// Without cgroups below it libvirt makes none on the host.
	if err := mount("sysfs", "/sys", "sysfs", safe, ""); err != nil {
		return err
	}
	if err := privateDev(devices); err != nil {
		return err
	}
	for _, dir := range hidden {
		if err := mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return err
		}
	}
	for _, k := range keep {
		if err := k.putBack(); err != nil {
			return fmt.Errorf("keep %s visible: %w", k.path, err)
		}
	}
	if err := writeTree(o); err != nil {
		return fmt.Errorf("private configuration: %w", err)
	}
	return protectHost(o.LabDir)
}

// holdAll opens what must stay visible below the hidden directories.
func holdAll(o Options) ([]*kept, error) {
	paths := []string{"/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"}
	for _, p := range append([]string{o.LabDir, o.CacheDir}, o.Visible...) {
		if p != "" && slices.ContainsFunc(hidden, func(dir string) bool { return below(p, dir) }) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths) // parents before what is inside them
	var keep []*kept
	for _, p := range slices.Compact(paths) {
		k, err := hold(p)
		if err != nil {
			return nil, err
		}
		if k != nil {
			keep = append(keep, k)
		}
	}
	return keep, nil
}

// protectHost makes the host's file systems read-only in here, so that
// "touches nothing outside the lab's directory" is a property and not a hope.
// Kernels before 5.12 lack mount_setattr: there it stays a hope.
func protectHost(labDir string) error {
	// A mount of its own, so that its flags can differ from its surroundings'.
	if err := mount(labDir, labDir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &readOnly)
	if errors.Is(err, unix.ENOSYS) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the host's file systems read-only: %w", err)
	}
	writable := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	for _, dir := range append([]string{"/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", labDir}, hidden...) {
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &writable); err != nil {
			return fmt.Errorf("make %s writable: %w", dir, err)
		}
	}
	return nil
}

// holdDevices opens the device nodes that QEMU and libvirt need. /dev/kvm is
// shown only when it is to be used: libvirt probes QEMU with whatever it finds.
func holdDevices(a Accelerator) ([]*kept, error) {
	nodes := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/net/tun"}
	if a == KVM {
		nodes = append(nodes, "/dev/kvm", "/dev/vhost-net")
	}
	var keep []*kept
	for _, n := range nodes {
		k, err := hold(n)
		if err != nil {
			return nil, err
		}
		if k != nil {
			keep = append(keep, k)
		}
	}
	return keep, nil
}

func privateDev(devices []*kept) error {
	if err := mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for _, d := range devices {
		if err := d.putBack(); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/dev/pts", "/dev/shm"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return err
	}
	if err := mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	for link, target := range map[string]string{"/dev/ptmx": "pts/ptmx", "/dev/fd": "/proc/self/fd",
		"/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}

// writeTree makes the directories and files of the private /etc, /run and /var.
func writeTree(o Options) error {
	for _, dir := range []string{"/etc/libvirt/qemu/networks", "/run/libvirt", insideChannels, insideTmp, insideDrivers,
		insideBin, insideCaps, insideQEMULogs, "/var/lib/libvirt/qemu", "/var/lib/libvirt/network", "/var/tmp"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	name := hostname(o.Lineage)
	files := etcFiles(name)
	files["libvirt/libvirtd.conf"] = libvirtdConf(o.Lineage)
	files["libvirt/qemu.conf"] = qemuConf()
	for path, text := range files {
		if err := os.WriteFile(filepath.Join("/etc", path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", "/var/run"); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := restoreCapabilities(o); err != nil {
		logf("known capabilities of QEMU are not used: %v", err)
	}
	return linkTools()
}
