package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Level is the result of a check.
type Level string

// The levels: a lab cannot run with Fail; with Warn it runs, but slower or
// with less room than it might want.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Check is one thing that was looked at. Remedy is empty when Level is OK.
type Check struct {
	Name   string `json:"name"`
	Level  Level  `json:"level"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// DoctorOptions say what the machine is looked at for.
type DoctorOptions struct {
	// CacheDir is where images and the accelerator's answer are cached.
	CacheDir string
	// KernelPath is a guest kernel for the accelerator probe, "" for none.
	KernelPath string
	// NeedMemory and NeedDisk are bytes; 0 means 2 GiB and 1 GiB, enough for
	// five small VMs and an image.
	NeedMemory, NeedDisk uint64
}

// Doctor looks at everything that a lab needs from this machine. It changes
// nothing on it: what must be tried is tried in namespaces that end with it.
func Doctor(ctx context.Context, o DoctorOptions) []Check {
	if o.NeedMemory == 0 {
		o.NeedMemory = 2 << 30
	}
	if o.NeedDisk == 0 {
		o.NeedDisk = 1 << 30
	}
	list := []Check{checkRoot()}
	list = append(list, checkPrograms()...)
	list = append(list, checkNamespaces(ctx)...)
	list = append(list, checkMemory(o.NeedMemory), checkDisk(o.CacheDir, o.NeedDisk))
	list = append(list, checkAccelerator(ctx, o))
	return append(list, checkLeftovers(ctx)...)
}

func checkRoot() Check {
	c := Check{Name: "root", Level: OK, Detail: "running as root"}
	if os.Geteuid() != 0 {
		c.Level, c.Detail = Fail, fmt.Sprintf("running as user %d", os.Geteuid())
		c.Remedy = "Run lvslab with sudo: namespaces, mounts and bridges need root."
	}
	return c
}

// needed are the programs and drivers that a lab runs, and those that build
// its image.
var needed = []struct{ name, use string }{
	{"qemu-system-x86_64", "runs the VMs"},
	{"libvirtd", "drives QEMU"},
	{"libvirt_driver_qemu.so", "is libvirt's QEMU driver"},
	{"libvirt_driver_network.so", "is libvirt's network driver"},
	{"mmdebstrap", "builds the guest image"},
	{"mksquashfs", "builds the guest image"},
}

func checkPrograms() []Check {
	var list []Check
	for _, n := range needed {
		c := Check{Name: n.name, Level: OK}
		path, err := locate(n.name)
		if err == nil {
			c.Detail = path
		} else {
			c.Level, c.Detail = Fail, "not installed; it "+n.use
			if builder(n.name) {
				c.Level = Warn // a cached image needs none
			}
			c.Remedy = "Install it: " + installCommand(packageOf[n.name])
		}
		list = append(list, c)
	}
	return list
}

func locate(name string) (string, error) {
	switch {
	case strings.HasSuffix(name, ".so"):
		return findDriver(name)
	case name == filepath.Base(Emulator):
		return Emulator, exists(Emulator)
	case name == filepath.Base(libvirtd):
		return libvirtd, exists(libvirtd)
	}
	return exec.LookPath(name)
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// MemoryAvailable returns what can be used without swapping, bytes: the
// kernel's own estimate, or what is left below the control group's limit when
// that is less. limited says that it is.
func MemoryAvailable() (free uint64, limited bool, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false, err
	}
	if free, err = memAvailable(string(text)); err != nil {
		return 0, false, err
	}
	if room, ok := cgroupRoom(); ok && room < free {
		return room, true, nil
	}
	return free, false, nil
}

func checkMemory(need uint64) Check {
	c := Check{Name: "memory", Level: OK}
	free, limited, err := MemoryAvailable()
	if err != nil {
		return Check{Name: c.Name, Level: Warn, Detail: err.Error(), Remedy: "Mount /proc, and look at /proc/meminfo."}
	}
	c.Detail = fmt.Sprintf("%s available", gib(free))
	if limited {
		c.Detail = fmt.Sprintf("%s left below the control group's limit", gib(free))
	}
	if free < need {
		c.Level = Warn
		c.Detail += fmt.Sprintf(", %s wanted", gib(need))
		c.Remedy = "End other programs, or give the machines of the lab less memory."
	}
	return c
}

// memAvailable parses /proc/meminfo (proc(5)); the result is in bytes.
func memAvailable(text string) (uint64, error) {
	for _, line := range strings.Split(text, "\n") {
		rest, ok := strings.CutPrefix(line, "MemAvailable:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 54)
		if err != nil {
			return 0, fmt.Errorf("/proc/meminfo: %w", err)
		}
		return kib << 10, nil
	}
	return 0, errors.New("/proc/meminfo has no line MemAvailable")
}

// cgroupRoom returns what is left below the memory limit of this process's
// control group, when it has one: a CI container has, and /proc/meminfo does not show it.
func cgroupRoom() (uint64, bool) {
	for _, names := range [][2]string{
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
	} {
		limit, err1 := readNumber(names[0])
		used, err2 := readNumber(names[1])
		if err1 == nil && err2 == nil && limit < 1<<50 && limit >= used {
			return limit - used, true
		}
	}
	return 0, false
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

func checkDisk(dir string, need uint64) Check {
	c := Check{Name: "disk", Level: OK}
	at := dir
	for at != "/" && at != "." && exists(at) != nil {
		at = filepath.Dir(at)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return Check{Name: c.Name, Level: Fail, Detail: fmt.Sprintf("%s: %v", at, err), Remedy: "Make " + dir + " accessible."}
	}
	free := st.Bavail * uint64(st.Bsize)
	c.Detail = fmt.Sprintf("%s free in %s", gib(free), dir)
	if free < need {
		c.Level, c.Remedy = Fail, "Free some space, for example with lvslab image rm."
		c.Detail += fmt.Sprintf(", %s wanted", gib(need))
	}
	return c
}

func gib(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

func checkAccelerator(ctx context.Context, o DoctorOptions) Check {
	accel, reason, err := ProbeAccelerator(ctx, o.CacheDir, o.KernelPath)
	switch {
	case err != nil:
		return Check{Name: "accelerator", Level: Fail, Detail: err.Error(), Remedy: "Install QEMU: " + installCommand("qemu-system-x86")}
	case accel == KVM:
		return Check{Name: "accelerator", Level: OK, Detail: "kvm: " + reason}
	}
	return Check{Name: "accelerator", Level: Warn, Detail: "tcg (emulation): " + reason,
		Remedy: "Nothing must be done: labs run, but boots and loads take several times longer than with a working KVM."}
}

// checkLeftovers lists the holders of this machine that are not as they should be.
func checkLeftovers(ctx context.Context) []Check {
	entries, err := List(ctx)
	if err != nil {
		return []Check{{Name: "registry", Level: Warn, Detail: err.Error(), Remedy: "Look at " + RegistryDir() + "."}}
	}
	c := Check{Name: "labs", Level: OK}
	var list []Check
	running := 0
	for _, e := range entries {
		name := fmt.Sprintf("lab %s (%s)", e.Lab, e.Lineage)
		if e.Bound() {
			if lives, err := e.StarterAlive(); err != nil || lives {
				continue // a template that is being made: nobody's lab
			}
			list = append(list, Check{Name: "template (" + e.Lineage + ")", Level: Warn,
				Detail: fmt.Sprintf("process %d has died while it made a template", e.StarterPID), Remedy: "Run lvslab sweep; the next apply that makes a template does the same."})
			continue
		}
		if e.Status == Gone {
			list = append(list, Check{Name: name, Level: Warn, Detail: "its hypervisor has ended without being asked to; log: " + e.LogPath(),
				Remedy: "Run lvslab destroy in its directory, or lvslab sweep."})
			continue
		}
		running++
		if st, err := e.Holder.Check(ctx); err != nil {
			list = append(list, Check{Name: name, Level: Warn, Detail: fmt.Sprintf("%s: %v", st, err),
				Remedy: fmt.Sprintf("Run lvslab destroy for it; its directory is %s.", e.LabDir)})
		}
	}
	c.Detail = fmt.Sprintf("%d running", running)
	return append([]Check{c}, list...)
}
