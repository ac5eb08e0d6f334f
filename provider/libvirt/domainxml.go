package libvirt

import (
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider/schema"
)

const (
	emulator = "/usr/bin/qemu-system-x86_64"
	// tbCacheMiB bounds the cache of translated code under emulation. Without it
	// QEMU takes up to an eighth of the host's memory for each guest.
	tbCacheMiB = 64
	// diskTBCacheMiB is for a whole distribution, whose services and Python are far
	// more code: with less, what was translated is thrown away all the time.
	diskTBCacheMiB = 256
)

// MemoryOverhead is what a machine takes on the host beyond its own memory, in
// bytes: QEMU itself and, under emulation, the cache of translated code.
// Measured: 243 MiB resident for a booted guest of 192 MiB.
const MemoryOverhead = (tbCacheMiB + 32) << 20

// Overhead is MemoryOverhead for a domain, which may have a disk of its own.
func Overhead(d schema.Domain) int64 { return MemoryOverhead + int64(tbCache(d)-tbCacheMiB)<<20 }

func tbCache(d schema.Domain) uint {
	if d.Disk != "" {
		return diskTBCacheMiB
	}
	return tbCacheMiB
}

// ports are the virtio-serial ports of every domain.
func ports() []string { return append([]string{proto.EnginePort}, proto.UserPorts...) }

// domainXML defines a small machine: direct kernel boot, one processor, a
// read-only root that all machines share (or a disk of its own, see diskArgs), NICs without boot ROMs, and nothing
// else that would cost time: no USB controller, graphics, balloon or HPET.
func domainXML(d schema.Domain, m mark, channelPath func(domain, port string) string) (string, error) {
	def := libvirtxml.Domain{
		Type: "qemu", Name: d.Name, UUID: d.UUID, Title: d.Address,
		Metadata: &libvirtxml.DomainMetadata{XML: m.encode()},
		Memory:   &libvirtxml.DomainMemory{Value: uint(d.Memory >> 10), Unit: "KiB"},
		VCPU:     &libvirtxml.DomainVCPU{Placement: "static", Value: uint(d.VCPUs)},
		OS: &libvirtxml.DomainOS{
			Type:   &libvirtxml.DomainOSType{Arch: "x86_64", Machine: "pc", Type: "hvm"},
			Kernel: d.Kernel, Initrd: d.Initrd, Cmdline: d.Cmdline,
		},
		Features: &libvirtxml.DomainFeatureList{
			ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{},
		},
		Clock: &libvirtxml.DomainClock{Offset: "utc", Timer: []libvirtxml.DomainTimer{{Name: "hpet", Present: "no"}}},
		// A guest that panics or powers off ends, and is seen to be gone. One that
		// reboots lives on under another boot id.
		OnPoweroff: "destroy", OnReboot: "restart", OnCrash: "destroy",
		Devices: devices(d, channelPath),
		// QEMU's heap in large pages: without it the copies of kernel and initramfs
		// alone are 5,000 page faults of 13 µs (measured on a nested host).
		QEMUCommandline: &libvirtxml.DomainQEMUCommandline{Envs: []libvirtxml.DomainQEMUCommandlineEnv{
			{Name: "GLIBC_TUNABLES", Value: "glibc.malloc.hugetlb=1"}}},
	}
	if d.Disk != "" {
		def.QEMUCommandline.Args = diskArgs(d)
		def.QEMUCommandline.Envs = append(def.QEMUCommandline.Envs, diskEnv(d))
	}
	if d.Accelerator == "kvm" {
		def.Type = "kvm"
		def.CPU = &libvirtxml.DomainCPU{Mode: "host-passthrough", Migratable: "on"}
	} else {
		def.CPU = emulatedCPU()
		def.Features.TCG = &libvirtxml.DomainFeatureTCG{TBCache: &libvirtxml.DomainFeatureTCGTBCache{Unit: "MiB", Size: tbCache(d)}}
	}
	return def.Marshal()
}

// emulatedCPU is QEMU's plainest 64-bit processor with a random number
// generator, so that the guest kernel has entropy before its first driver.
func emulatedCPU() *libvirtxml.DomainCPU {
	return &libvirtxml.DomainCPU{Mode: "custom", Match: "exact", Check: "none",
		Model:    &libvirtxml.DomainCPUModel{Fallback: "allow", Value: "qemu64"},
		Features: []libvirtxml.DomainCPUFeature{{Policy: "require", Name: "rdrand"}},
	}
}

func devices(d schema.Domain, channelPath func(domain, port string) string) *libvirtxml.DomainDeviceList {
	zero, serialPorts := uint(0), uint(len(ports())+1) // port 0 is reserved for a console
	console := func() *libvirtxml.DomainChardevSource {
		return &libvirtxml.DomainChardevSource{File: &libvirtxml.DomainChardevSourceFile{Path: d.Console, Append: "on"}}
	}
	list := &libvirtxml.DomainDeviceList{
		Emulator: emulator,
		Controllers: []libvirtxml.DomainController{
			{Type: "usb", Index: &zero, Model: "none"},
			{Type: "virtio-serial", Index: &zero, VirtIOSerial: &libvirtxml.DomainControllerVirtIOSerial{Ports: &serialPorts}},
		},
		Serials: []libvirtxml.DomainSerial{{Source: console(), Target: &libvirtxml.DomainSerialTarget{Type: "isa-serial", Port: &zero}}},
		Consoles: []libvirtxml.DomainConsole{{Source: console(),
			Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: &zero}}},
		MemBalloon: &libvirtxml.DomainMemBalloon{Model: "none"},
		RNGs:       []libvirtxml.DomainRNG{{Model: "virtio", Backend: &libvirtxml.DomainRNGBackend{BuiltIn: &libvirtxml.DomainRNGBackendBuiltIn{}}}},
	}
	if d.Root != "" {
		list.Disks = []libvirtxml.DomainDisk{{
			Device: "disk",
			Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
			Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: d.Root}},
			Target: &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"},
			// Shareable too: without it libvirt would let no second domain open it.
			ReadOnly: &libvirtxml.DomainDiskReadOnly{}, Shareable: &libvirtxml.DomainDiskShareable{},
		}}
	}
	for _, n := range d.NICs {
		list.Interfaces = append(list.Interfaces, networkCard(n))
	}
	for i, port := range ports() {
		controller, bus, nr := uint(0), uint(0), uint(i+1)
		list.Channels = append(list.Channels, libvirtxml.DomainChannel{
			Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: channelPath(d.Name, port)}},
			Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: port}},
			Address: &libvirtxml.DomainAddress{VirtioSerial: &libvirtxml.DomainAddressVirtioSerial{
				Controller: &controller, Bus: &bus, Port: &nr}},
		})
	}
	return list
}

func networkCard(n schema.NIC) libvirtxml.DomainInterface {
	return libvirtxml.DomainInterface{
		MAC:    &libvirtxml.DomainInterfaceMAC{Address: n.MAC},
		Source: &libvirtxml.DomainInterfaceSource{Network: &libvirtxml.DomainInterfaceSourceNetwork{Network: n.Network}},
		Model:  &libvirtxml.DomainInterfaceModel{Type: "virtio"},
		ROM:    &libvirtxml.DomainROM{Enabled: "no"},
	}
}

// domainFromXML reads back what domainXML wrote, and whose mark it bears.
func domainFromXML(text string) (schema.Domain, mark, bool, error) {
	var def libvirtxml.Domain
	if err := def.Unmarshal(text); err != nil {
		return schema.Domain{}, mark{}, false, fmt.Errorf("libvirt's definition of a domain: %w", err)
	}
	d := schema.Domain{Name: def.Name, UUID: def.UUID, Accelerator: "tcg"}
	if def.Type == "kvm" {
		d.Accelerator = "kvm"
	}
	if def.Memory != nil {
		d.Memory = int64(def.Memory.Value) * unitBytes(def.Memory.Unit)
	}
	if def.VCPU != nil {
		d.VCPUs = int(def.VCPU.Value)
	}
	if def.OS != nil {
		d.Kernel, d.Initrd, d.Cmdline = def.OS.Kernel, def.OS.Initrd, def.OS.Cmdline
	}
	if dev := def.Devices; dev != nil {
		d.Root, d.Console, d.NICs = rootOf(dev), consoleOf(dev), nicsOf(dev)
	}
	readDisk(&d, def.QEMUCommandline)
	var m mark
	var marked bool
	if def.Metadata != nil {
		var err error
		if m, marked, err = findMark(def.Metadata.XML); err != nil {
			return d, m, false, fmt.Errorf("domain %s: %w", def.Name, err)
		}
	}
	d.Lineage, d.Address, d.Started, d.Template = m.Lineage, m.Address, m.Started, m.Template
	return d, m, marked, nil
}

func unitBytes(unit string) int64 {
	switch unit {
	case "b", "bytes":
		return 1
	case "M", "MiB":
		return 1 << 20
	case "G", "GiB":
		return 1 << 30
	}
	return 1 << 10 // libvirt's default, and the only one it prints
}

func rootOf(dev *libvirtxml.DomainDeviceList) string {
	i := slices.IndexFunc(dev.Disks, func(k libvirtxml.DomainDisk) bool { return k.Target != nil && k.Target.Dev == "vda" })
	if i < 0 || dev.Disks[i].Source == nil || dev.Disks[i].Source.File == nil {
		return ""
	}
	return dev.Disks[i].Source.File.File
}

func consoleOf(dev *libvirtxml.DomainDeviceList) string {
	for _, s := range dev.Serials {
		if s.Source != nil && s.Source.File != nil {
			return s.Source.File.Path
		}
	}
	return ""
}

func nicsOf(dev *libvirtxml.DomainDeviceList) []schema.NIC {
	var nics []schema.NIC
	for _, n := range dev.Interfaces {
		var nic schema.NIC
		if n.MAC != nil {
			nic.MAC = n.MAC.Address
		}
		if n.Source != nil && n.Source.Network != nil {
			nic.Network = n.Source.Network.Network
		}
		nics = append(nics, nic)
	}
	return nics
}
