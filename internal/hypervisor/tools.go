package hypervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// driverDirs are the places where distributions put libvirt's drivers.
var driverDirs = []string{"/usr/lib/*-linux-gnu/libvirt/connection-driver", "/usr/lib64/libvirt/connection-driver", "/usr/lib/libvirt/connection-driver"}

// drivers are all that a lab needs. The others (storage, nodedev, nwfilter,
// interface, secret) look at the machine when they start, which takes time and
// has no use in here.
var drivers = []string{"libvirt_driver_network.so", "libvirt_driver_qemu.so"}

// errNoDriver says that libvirt's QEMU driver is not installed.
var errNoDriver = errors.New("libvirt's driver is missing")

func findDriver(name string) (string, error) {
	for _, dir := range driverDirs {
		found, err := filepath.Glob(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%w: %s", errNoDriver, name)
}

// linkTools fills the directories that the private libvirtd takes its drivers
// and its programs from.
func linkTools() error {
	for _, name := range drivers {
		path, err := findDriver(name)
		if err != nil {
			return err
		}
		if err := os.Symlink(path, filepath.Join(insideDrivers, name)); err != nil {
			return err
		}
	}
	return nil
}

// libvirtdEnv is the whole environment of the private libvirtd. Its PATH leads
// to nothing: libvirt would probe every QEMU that it finds (i386 beside x86_64,
// a second each), and run dmidecode, iptables and modprobe. The emulator is
// named by its path in each domain.
func libvirtdEnv() []string {
	return []string{"PATH=" + insideBin, "HOME=" + insideTmp, "TMPDIR=" + insideTmp, "LANG=C.UTF-8",
		"LIBVIRT_DRIVER_DIR=" + insideDrivers}
}
