package lower

import (
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// cmdline begins the kernel's command line. The agent of the appended cpio is
// the first program (rdinit); what makes the kernel start soon goes with the
// image. net.ifnames is moot without udev: the agent names cards itself.
const cmdline = "console=ttyS0 rdinit=/lvslab-agent"

func (b *builder) network(n lang.Network) {
	id := b.l.Networks[n.Noun]
	b.add(provider.Resource{
		Addr: networkOf(n.Noun), Type: schema.TypeNetwork, Range: &n.Range,
		Attrs: schema.Network{
			Name: id.Name, UUID: id.UUID, Bridge: id.Bridge, Address: b.l.Identity(n.Noun).String(), Lineage: b.l.Lineage, MTU: n.MTU,
		}.Value(),
	})
}

// machine makes the domain and what every guest has: kernel parameters and
// links.
func (b *builder) machine(m lang.Machine) {
	id := b.l.Machines[m.Noun]
	guest := b.o.Guests[m.Guest()]
	d := schema.Domain{
		Name: id.Domain, UUID: id.UUID, Address: b.l.Identity(m.Noun).String(), Lineage: b.l.Lineage, Memory: m.Memory, VCPUs: 1,
		Kernel: guest.Kernel, Initrd: guest.Initrd, Cmdline: strings.TrimSpace(cmdline + " " + b.o.KernelArgs), Root: guest.Root, Accelerator: b.o.Accelerator,
		Console: ConsolePath(b.o.LabDir, b.l.Identity(m.Noun)),
	}
	if guest.Disk != "" { // what the kernel is told stands on the disk
		d.Cmdline = ""
		d.Disk, d.DiskFormat, d.DiskSum, d.Seed = guest.Disk, guest.DiskFormat, guest.DiskSum[:schema.SerialBytes], guest.Seed
	}
	var networks []addr.Resource
	for _, nic := range id.NICs {
		d.NICs = append(d.NICs, schema.NIC{Network: b.l.Networks[nic.Network].Name, MAC: nic.MAC})
		networks = append(networks, networkOf(nic.Network))
	}
	b.add(provider.Resource{
		Addr: domainOf(m.Noun), Type: schema.TypeDomain, Range: &m.Range,
		Attrs: d.Value(), DependsOn: networks, ReplacedBy: networks,
	})
	b.links(m)
	b.routes(m)
	b.sysctl(m)
}
