// Package lower turns the nouns of a topology into resources: what providers
// create, with the values that they get and the order that they need. It is
// pure: the same topology, layout and options give the same resources.
//
// A backend holds a virtual address only once its ARP settings forbid it to
// announce it, and named opens a socket for one only once it is there:
//
//	network → domain → links → sysctl → tunnels (VIP) → named → service
//
// A machine becomes <machine>/domain with <machine>/sysctl, <machine>/link.<device>
// and, for each network that is not its own, <machine>/route.<network> inside; a tunnel becomes the device at its far end
// (LVS-TUN's director needs none: IPVS writes the outer header itself,
// net/netfilter/ipvs/ip_vs_xmit.c); a backend's zones become <backend>/dns; a
// service becomes <service>/ipvs on its director.
package lower

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// Options are the facts about this machine and this lvslab that resources hold.
type Options struct {
	// Guests are the files of what machines boot.
	Guests map[lang.Guest]Guest
	// KernelArgs go with the image: what makes its kernel start soon.
	KernelArgs string
	// Accelerator is kvm or tcg.
	Accelerator string
	// LabDir is the lab's directory, where consoles are logged.
	LabDir string
}

// Guest is the files of an image: Initrd is the one with the agent. One that is
// a disk has no kernel, initramfs and root.
type Guest struct {
	Kernel, Initrd, Root string
	// Disk is a disk's path, DiskFormat its format and DiskSum the SHA-256 over its
	// contents, hex; Seed is what cloud-init reads beside it.
	Disk, DiskFormat, DiskSum, Seed string
}

// ConsolePath is where a machine's console is logged.
func ConsolePath(labDir string, machine addr.Noun) string {
	return filepath.Join(labDir, "console", url.PathEscape(machine.String())+".log")
}

// Resources returns everything that the topology wants to exist, sorted by
// address. An error says that the layout belongs to another topology or that
// the topology refers to something that it does not have.
func Resources(t *lang.Topology, l *topo.Layout, o Options) ([]provider.Resource, error) {
	b := &builder{t: t, l: l, o: o, index: newIndex(t), ways: lang.Routes(t)}
	if err := b.complete(); err != nil {
		return nil, err
	}
	for _, n := range t.Networks {
		b.network(n)
	}
	for _, m := range t.Machines {
		b.machine(m)
	}
	for _, tun := range t.Tunnels {
		b.tunnel(tun)
	}
	for _, m := range t.Machines {
		b.dns(m)
	}
	for _, s := range t.Services {
		b.service(s)
	}
	if len(b.t.DependsOn) > 0 {
		b.order()
	}
	slices.SortFunc(b.out, func(x, y provider.Resource) int { return x.Addr.Compare(y.Addr) })
	return b.out, nil
}

// complete checks every reference once, so that nothing later meets a missing one.
func (b *builder) complete() error {
	var missing []string
	need := func(who, what addr.Noun, ok bool) {
		if !ok {
			missing = append(missing, fmt.Sprintf("%s has no %s", who, what))
		}
	}
	for _, n := range b.t.Networks {
		_, ok := b.l.Networks[n.Noun]
		need(n.Noun, n.Noun, ok)
	}
	for _, m := range b.t.Machines {
		need(m.Noun, m.Noun, len(m.NICs) > 0 && len(b.l.Machines[m.Noun].NICs) == len(m.NICs))
		for _, nic := range m.NICs {
			_, ok := b.t.Network(nic.Network)
			need(m.Noun, nic.Network, ok)
		}
		for _, z := range m.Serves {
			_, ok := b.t.Zone(z)
			need(m.Noun, z, ok)
		}
	}
	for _, tun := range b.t.Tunnels {
		_, ok := b.t.Machine(tun.To)
		need(tun.Noun, tun.To, ok && b.l.Tunnels[tun.Noun].Machine == tun.To)
	}
	for _, s := range b.t.Services {
		_, ok := b.t.Machine(s.Director)
		need(s.Noun, s.Director, ok)
		for _, r := range s.RealServers {
			_, ok := b.t.Machine(r.Backend)
			need(s.Noun, r.Backend, ok)
			_, ok = b.tunnels[r.Tunnel]
			need(s.Noun, r.Tunnel, ok || r.Tunnel.IsZero())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("topology and layout do not belong together: %s", strings.Join(missing, ", "))
}

type builder struct {
	index
	t *lang.Topology
	l *topo.Layout
	o Options
	// ways are the routes of each machine.
	ways lang.Ways
	out  []provider.Resource
}

func (b *builder) add(r provider.Resource) {
	slices.SortFunc(r.DependsOn, addr.Resource.Compare)
	r.DependsOn = slices.Compact(r.DependsOn)
	slices.SortFunc(r.NotAwaited, addr.Resource.Compare)
	r.NotAwaited = slices.Compact(r.NotAwaited)
	b.out = append(b.out, r)
}

// The parts of nouns.
func part(n addr.Noun, name string) addr.Resource { return addr.Resource{Noun: n, Part: name} }

func networkOf(n addr.Noun) addr.Resource { return part(n, schema.TypeNetwork) }
func domainOf(n addr.Noun) addr.Resource  { return part(n, schema.TypeDomain) }
func sysctlOf(n addr.Noun) addr.Resource  { return part(n, schema.TypeSysctl) }
func tunnelOf(n addr.Noun) addr.Resource  { return part(n, schema.TypeTunnel) }
func dnsOf(n addr.Noun) addr.Resource     { return part(n, schema.TypeDNS) }

func (b *builder) linkOf(n addr.Noun, i int) addr.Resource {
	return part(n, schema.TypeLink+"."+b.l.Machines[n].NICs[i].Device)
}

func (b *builder) linksOf(n addr.Noun) []addr.Resource {
	var out []addr.Resource
	for i := range b.l.Machines[n].NICs {
		out = append(out, b.linkOf(n, i))
	}
	return out
}
