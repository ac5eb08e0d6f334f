package hypervisor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The clocks that a guest must beat. A KVM that works boots the firmware in
// 0.1 s and a kernel in about 1 s. On a machine whose /dev/kvm opens, creates
// VMs and VCPUs and still hangs every guest, the firmware was 30 times slower
// than under emulation and Linux never printed a line.
const (
	firmwareClock = 3 * time.Second
	kernelClock   = 6 * time.Second
)

const kvmDevice = "/dev/kvm"

// verdict is the cached answer.
type verdict struct {
	Key         string      `json:"key"`
	Accelerator Accelerator `json:"accelerator"`
	Reason      string      `json:"reason"`
}

// ProbeAccelerator says what VMs should run on, and why in one phrase for
// people. It does not believe /dev/kvm: it boots the firmware with a boot
// sector of a few bytes and then, when kernelPath is not "", that kernel under
// KVM against a clock. The answer is cached in cacheDir for this kernel, QEMU,
// processor and device. Without /dev/kvm it is TCG at once. The error is only
// about things that keep QEMU from being run at all, or the context's end.
func ProbeAccelerator(ctx context.Context, cacheDir, kernelPath string) (Accelerator, string, error) {
	if reason := kvmUnusable(); reason != "" {
		return TCG, reason, nil
	}
	key, err := probeKey(kernelPath)
	if err != nil {
		return "", "", err
	}
	file := filepath.Join(cacheDir, "accelerator.json")
	var v verdict
	if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &v) == nil && v.Key == key && v.Accelerator != "" {
		return v.Accelerator, v.Reason, nil
	}
	p := probe{emulator: Emulator, accel: string(KVM), firmware: firmwareClock, kernel: kernelClock}
	reason, err := p.run(ctx, kernelPath)
	if err != nil {
		return "", "", err
	}
	v = verdict{Key: key, Accelerator: KVM, Reason: "KVM booted a guest in time"}
	if reason != "" {
		v.Accelerator, v.Reason = TCG, "KVM does not work here: "+reason
	}
	return v.Accelerator, v.Reason, saveVerdict(file, v)
}

func saveVerdict(file string, v verdict) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return replaceFile(file, append(text, '\n'), -1, -1)
}

// kvmUnusable returns why KVM need not be tried, or "".
func kvmUnusable() string {
	f, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return kvmDevice + " does not exist"
	case err != nil:
		return err.Error()
	}
	f.Close()
	return ""
}

// probeKey changes with everything that can change the answer.
func probeKey(kernelPath string) (string, error) {
	sum := sha256.New()
	for _, path := range []string{Emulator, kvmDevice, kernelPath} {
		if path == "" {
			continue
		}
		id, err := fileIdentity(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, path, id)
	}
	release, err := kernelRelease()
	if err != nil {
		return "", err
	}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	fmt.Fprintln(sum, release, cpuIdentity(string(cpu)))
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// fileIdentity is what changes when a file is replaced: size, change time and,
// for a device, its number and mode instead, because a device's times change
// when it is used.
func fileIdentity(path string) (string, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&syscall.S_IFMT == syscall.S_IFCHR {
		return fmt.Sprintf("%d %o", st.Rdev, st.Mode), nil
	}
	return fmt.Sprintf("%d %d", st.Size, st.Ctim.Nano()), nil
}

func kernelRelease() (string, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(uts.Release[:]) + " " + unix.ByteSliceToString(uts.Version[:]), nil
}

// cpuIdentity returns the lines of the first processor that do not change
// from one reading to the next.
func cpuIdentity(cpuinfo string) string {
	first, _, _ := strings.Cut(cpuinfo, "\n\n")
	var keep []string
	for _, line := range strings.Split(first, "\n") {
		name, _, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags":
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "\n")
}

// probe boots guests against a clock.
type probe struct {
	emulator         string
	accel            string
	firmware, kernel time.Duration
}

// bootSector writes 0x10 to port 0xf4, where QEMU's isa-debug-exit turns it
// into the exit status 0x10<<1|1: mov dx,0xf4; mov al,0x10; out dx,al; hlt.
var bootSector = []byte{0xba, 0xf4, 0x00, 0xb0, 0x10, 0xee, 0xf4}

const bootSectorExit = 0x10<<1 | 1

// kernelReached is what a kernel without a root file system ends with.
const kernelReached = "Kernel panic - not syncing: VFS"

// run returns why guests do not run, or "" when they do.
func (p probe) run(ctx context.Context, kernelPath string) (string, error) {
	disk, err := bootDisk()
	if err != nil {
		return "", err
	}
	defer disk.Close()
	out, code, err := p.boot(ctx, p.firmware, disk, "-m", "16", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04",
		"-drive", "file=/proc/self/fd/3,format=raw,if=ide,readonly=off,snapshot=off")
	switch {
	case err != nil:
		return "", err
	case code == timedOut:
		return fmt.Sprintf("the firmware did not boot within %s", p.firmware), nil
	case code != bootSectorExit:
		return "QEMU ended early: " + lastLine(out, "without a message"), nil
	case kernelPath == "":
		return "", nil
	}
	out, code, err = p.boot(ctx, p.kernel, nil, "-m", "192", "-kernel", kernelPath, "-serial", "stdio", "-no-reboot",
		"-append", "console=ttyS0 panic=-1")
	switch {
	case err != nil:
		return "", err
	case strings.Contains(out, kernelReached):
		return "", nil
	case code == timedOut:
		return fmt.Sprintf("Linux did not boot within %s; its last line: %s", p.kernel, lastLine(out, "none")), nil
	}
	return "QEMU ended early: " + lastLine(out, "without a message"), nil
}

// bootDisk is a disk with the boot sector on it. It has no name in any file system,
// so that a process that is killed meanwhile leaves nothing behind.
func bootDisk() (*os.File, error) {
	fd, err := unix.MemfdCreate("lvslab-boot", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	disk := os.NewFile(uintptr(fd), "boot sector")
	sector := make([]byte, 512)
	copy(sector, bootSector)
	sector[510], sector[511] = 0x55, 0xaa
	if _, err := disk.Write(sector); err != nil {
		disk.Close()
		return nil, err
	}
	return disk, nil
}

// timedOut stands for the exit status of a guest that did not end by itself.
const timedOut = -1

// boot runs QEMU for so long at most; disk, unless nil, is its file descriptor 3.
func (p probe) boot(ctx context.Context, limit time.Duration, disk *os.File, args ...string) (string, int, error) {
	clock, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all := append([]string{"-nodefaults", "-no-user-config", "-display", "none", "-net", "none",
		"-machine", "pc,accel=" + p.accel}, args...)
	cmd := exec.CommandContext(clock, p.emulator, all...)
	// QEMU may be stuck in the kernel: do not wait for its pipes.
	cmd.WaitDelay = time.Second
	// A guest that hangs must not outlive this process. The signal is bound to
	// the thread that starts the child, so that must not go away.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// And the terminal's Ctrl-C must not end it, as that would look like a guest
	// that failed, and be remembered: this process cancels what it has begun.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if disk != nil {
		cmd.ExtraFiles = []*os.File{disk}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", 0, ctx.Err()
	}
	if clock.Err() != nil {
		return out.String(), timedOut, nil
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", 0, missingProgram(p.emulator, err)
	}
	return out.String(), cmd.ProcessState.ExitCode(), nil
}

func lastLine(text, none string) string {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r", "")), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return none
}
