package hypervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeQEMU is a shell script in QEMU's place.
func fakeQEMU(t *testing.T, script string) probe {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qemu")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return probe{emulator: path, accel: "kvm", firmware: time.Minute, kernel: time.Minute}
}

const passesFirmware = `case "$*" in *-kernel*) ;; *) exit 33;; esac
`

func TestProbe(t *testing.T) {
	const short = 3 * time.Second // for what hangs; everything else has a minute
	for name, c := range map[string]struct {
		script, kernel, want string
	}{
		"works":               {passesFirmware + `echo "Kernel panic - not syncing: VFS: Unable to mount root fs"`, "/k", ""},
		"firmware only":       {passesFirmware, "", ""},
		"firmware hangs":      {"exec sleep 60", "/k", "the firmware did not boot within 3s"},
		"refused":             {"echo 'qemu: failed to initialize kvm: Permission denied' >&2; exit 1", "/k", "QEMU ended early: qemu: failed to initialize kvm: Permission denied"},
		"kernel hangs":        {passesFirmware + "exec sleep 60", "/k", "Linux did not boot within 3s; its last line: none"},
		"kernel stops midway": {passesFirmware + "echo '[ 0.1] x2apic: enabled'; exec sleep 60", "/k", "Linux did not boot within 3s; its last line: [ 0.1] x2apic: enabled"},
		"triple fault":        {passesFirmware + "exit 0", "/k", "QEMU ended early: without a message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fakeQEMU(t, c.script)
			if strings.HasPrefix(c.want, "the firmware") {
				p.firmware = short
			} else if strings.HasPrefix(c.want, "Linux") {
				p.kernel = short
			}
			got, err := p.run(context.Background(), c.kernel)
			if err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestProbeEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	p := fakeQEMU(t, "exec sleep 60")
	if _, err := p.run(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	p.emulator = "/nonexistent/qemu-system-x86_64"
	if _, err := p.run(context.Background(), ""); err == nil || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("missing QEMU: %v", err)
	}
}

func TestCPUIdentityKeepsWhatStays(t *testing.T) {
	const one = "processor\t: 0\nmodel name\t: X\ncpu MHz\t\t: 2100.1\nflags\t\t: fpu vme\nbogomips : 1\n\nprocessor\t: 1\nmodel name\t: X\n"
	two := strings.ReplaceAll(strings.ReplaceAll(one, "2100.1", "800.0"), "bogomips : 1", "bogomips : 2")
	if cpuIdentity(one) != cpuIdentity(two) {
		t.Error("the clock's frequency changes it")
	}
	if cpuIdentity(one) == cpuIdentity(strings.ReplaceAll(one, "fpu vme", "fpu vme svm")) {
		t.Error("a flag does not change it")
	}
}

func TestAccAcceleratorUnderEmulation(t *testing.T) {
	acceptance(t)
	// No file is written: one that is killed while it probes would leave it.
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	// What KVM must do, emulation can do, only slower.
	p := probe{emulator: Emulator, accel: "tcg", firmware: 30 * time.Second, kernel: time.Minute}
	if reason, err := p.run(context.Background(), ""); err != nil || reason != "" {
		t.Errorf("firmware: %q, %v", reason, err)
	}
	accel, why, err := ProbeAccelerator(context.Background(), t.TempDir(), "")
	if err != nil || why == "" || accel != TCG && accel != KVM {
		t.Errorf("%s, %q, %v", accel, why, err)
	}
	if _, err := os.Stat(kvmDevice); os.IsNotExist(err) && accel != TCG {
		t.Errorf("%s without %s", accel, kvmDevice)
	}
}
