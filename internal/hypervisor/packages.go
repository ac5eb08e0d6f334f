package hypervisor

import (
	"fmt"
	"path/filepath"

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
