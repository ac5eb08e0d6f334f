package hypervisor

import (
	"errors"
	"fmt"
	"io/fs"
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

// tools are the programs that libvirt finds, when the machine has them: tc sets
// the taps' queueing discipline, without which a tap would queue packets and
// delay them when it is not read fast enough.
var tools = []string{"/usr/sbin/tc", "/sbin/tc"}

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
	for _, path := range tools {
		if exists(path) != nil {
			continue
		}
		err := os.Symlink(path, filepath.Join(insideBin, filepath.Base(path)))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// libvirtdEnv is the whole environment of the private libvirtd. Its PATH leads
// to [tools] only: libvirt would probe every QEMU that it finds (i386 beside x86_64,
// a second each), and run dmidecode, iptables and modprobe. The emulator is
// named by its path in each domain.
func libvirtdEnv() []string {
	return []string{"PATH=" + insideBin, "HOME=" + insideTmp, "TMPDIR=" + insideTmp, "LANG=C.UTF-8",
		"LIBVIRT_DRIVER_DIR=" + insideDrivers}
}
