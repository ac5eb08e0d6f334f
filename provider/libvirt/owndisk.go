package libvirt

import (
	"path"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/lvslab/lvslab/provider/schema"
)

// A disk of the user's is given to QEMU with snapshot=on: QEMU opens it for
// reading and puts what the guest writes into a file of its own, which has no
// name any more once it is open. So the disk stays as it is, machines share it,
// and nothing is left when QEMU is killed. libvirt's own disks know no such
// layer but one beside the image (<transient/>), where nobody may write.

// Names of the drives, and the option that each begins with.
const (
	diskDrive = "if=none,id=lvslab-disk,snapshot=on,"
	seedDrive = "if=none,id=lvslab-seed,readonly=on,format=raw,"
)

// Slots of the PCI bus, which libvirt fills from the other end. The order is that
// in which the guest names the disks.
const (
	diskDevice = "virtio-blk-pci,addr=0x1e,drive=lvslab-disk,bootindex=1,serial="
	seedDevice = "virtio-blk-pci,addr=0x1f,drive=lvslab-seed"
)

// diskArgs are QEMU's arguments for a domain with a disk of its own: the disk
// first, so that the guest calls it vda, then the seed. graphics=off has the
// firmware and the boot loader talk on the serial console: why nothing boots is
// said there.
func diskArgs(d schema.Domain) []libvirtxml.DomainQEMUCommandlineArg {
	var args []libvirtxml.DomainQEMUCommandlineArg
	for _, a := range []string{
		"-machine", "graphics=off",
		"-drive", diskDrive + "format=" + d.DiskFormat + ",file=" + commas(d.Disk),
		"-device", diskDevice + d.DiskSum,
		"-drive", seedDrive + "file=" + commas(d.Seed),
		"-device", seedDevice,
	} {
		args = append(args, libvirtxml.DomainQEMUCommandlineArg{Value: a})
	}
	return args
}

// diskEnv has QEMU's unnamed files lie beside the console: in the lab's own
// directory, and not in memory, where /var/tmp is.
func diskEnv(d schema.Domain) libvirtxml.DomainQEMUCommandlineEnv {
	return libvirtxml.DomainQEMUCommandlineEnv{Name: "TMPDIR", Value: path.Dir(d.Console)}
}

// readDisk is the reverse of diskArgs.
func readDisk(d *schema.Domain, line *libvirtxml.DomainQEMUCommandline) {
	if line == nil {
		return
	}
	for _, a := range line.Args {
		if rest, ok := strings.CutPrefix(a.Value, diskDrive+"format="); ok {
			format, file, _ := strings.Cut(rest, ",file=")
			d.DiskFormat, d.Disk = format, commaOnce(file)
		}
		if rest, ok := strings.CutPrefix(a.Value, seedDrive+"file="); ok {
			d.Seed = commaOnce(rest)
		}
		if serial, ok := strings.CutPrefix(a.Value, diskDevice); ok {
			d.DiskSum = serial
		}
	}
}

// QEMU's options end at a comma; a doubled one is a comma.
func commas(path string) string    { return strings.ReplaceAll(path, ",", ",,") }
func commaOnce(path string) string { return strings.ReplaceAll(path, ",,", ",") }
