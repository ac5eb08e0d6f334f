package hypervisor

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// packageOf names the Debian package that holds a program or driver.
var packageOf = map[string]string{
	"qemu-system-x86_64":        "qemu-system-x86",
	"qemu-img":                  "qemu-utils",
	"libvirtd":                  "libvirt-daemon",
	"libvirt_driver_qemu.so":    "libvirt-daemon-driver-qemu",
	"libvirt_driver_network.so": "libvirt-daemon",
	"mmdebstrap":                "mmdebstrap",
	"mksquashfs":                "squashfs-tools",
	"depmod":                    "kmod",
	"cpio":                      "cpio",
	"zstd":                      "zstd",
}

func installCommand(pkg string) string { return "apt-get install --no-install-recommends " + pkg }

// missingProgram is the failure for a program or driver that is not installed.
func missingProgram(path string, err error) error {
	pkg := packageOf[filepath.Base(path)]
	return diag.Fail(err, fmt.Sprintf("%s is not installed", filepath.Base(path)), "Install it: "+installCommand(pkg)+".",
		"The embedded hypervisor runs it; Debian's package is %s", pkg)
}

// QEMUVersion returns the version of the emulator, for example "7.2.22".
func QEMUVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, Emulator, "--version").Output()
	if err != nil {
		return "", missingProgram(Emulator, err)
	}
	return parseQEMUVersion(string(out))
}

// parseQEMUVersion takes "QEMU emulator version 7.2.22 (Debian …)".
func parseQEMUVersion(text string) (string, error) {
	_, rest, ok := strings.Cut(text, "version ")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return "", fmt.Errorf("QEMU's version is not in %q", text)
	}
	return fields[0], nil
}
