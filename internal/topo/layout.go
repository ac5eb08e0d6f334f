package topo

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// Layout holds everything of the plan that is not an IP address: identities
// by lineage, names of interfaces, list orders.
type Layout struct {
	Lineage  string
	Machines map[addr.Noun]Machine
	Networks map[addr.Noun]Network
	Tunnels  map[addr.Noun]Tunnel
	// Order is the kernel's list order of each service's destinations, first =
	// head. The kernel puts a new one at the head: add them from the end.
	Order map[addr.Noun][]addr.Noun
	// Identities are the nouns that derive theirs from another address: the one
	// that they had before they were moved, or a free one where their own is
	// taken by something that has moved away.
	Identities map[addr.Noun]addr.Noun
}

// Identity is the address that a noun's identities derive from.
func (l *Layout) Identity(n addr.Noun) addr.Noun {
	if id, other := l.Identities[n]; other {
		return id
	}
	return n
}

// Machine is the identity of a VM.
type Machine struct {
	UUID     string
	Domain   string // libvirt's name
	Hostname string // in the guest: ns-0
	NICs     []NIC  // declared order
}

// NIC is one card of a VM.
type NIC struct {
	Network addr.Noun
	MAC     string // lower case with colons
	Device  string // in the guest, at most 15 characters
	// Addresses carry the network's prefix length; the first is the primary one.
	Addresses []netip.Prefix
}

// Network is the identity of a network.
type Network struct {
	UUID   string
	Name   string // libvirt's name
	Bridge string // on the host (in the holder's namespace), at most 15 characters
}

// Tunnel is a tunnel's device on the machine at its far end.
type Tunnel struct {
	Machine addr.Noun
	Device  string // at most 15 characters, unique on that machine
}

// Lay makes the layout. Only the lineage decides identities: renaming the lab
// changes nothing.
func Lay(t *lang.Topology, lineage string) (*Layout, error) { return LayAs(t, lineage, nil) }

// LayAs is [Lay] for a lab in which something has been moved: identities are
// the [Layout.Identities] of before.
func LayAs(t *lang.Topology, lineage string, identities map[addr.Noun]addr.Noun) (*Layout, error) {
	if lineage == "" {
		return nil, errors.New("lay out the lab: it has no lineage")
	}
	l := &Layout{Identities: identify(t, identities), Lineage: lineage, Machines: map[addr.Noun]Machine{}, Networks: map[addr.Noun]Network{}, Tunnels: map[addr.Noun]Tunnel{}, Order: map[addr.Noun][]addr.Noun{}}
	for _, n := range t.Networks {
		as := l.Identity(n.Noun)
		l.Networks[n.Noun] = Network{UUID: id(lineage, as.String()), Name: libvirtName(lineage, as), Bridge: bridge(lineage, as)}
	}
	hosts, macs := map[string]bool{}, map[string]bool{}
	devices := map[addr.Noun]map[string]bool{}
	for _, m := range t.Machines {
		used := map[string]bool{}
		devices[m.Noun] = used
		as := l.Identity(m.Noun)
		lm := Machine{UUID: id(lineage, as.String()), Domain: libvirtName(lineage, as), Hostname: host(as, hosts)}
		for i, nic := range m.NICs {
			ln, err := l.layNIC(t, m, i, nic, used, macs)
			if err != nil {
				return nil, err
			}
			lm.NICs = append(lm.NICs, ln)
		}
		l.Machines[m.Noun] = lm
	}
	for _, tun := range t.Tunnels {
		used, ok := devices[tun.To]
		if !ok {
			return nil, fmt.Errorf("lay out %s: there is no %s", tun.Noun, tun.To)
		}
		l.Tunnels[tun.Noun] = Tunnel{Machine: tun.To, Device: device(tunnelLabel(l.Identity(tun.Noun)), used)}
	}
	for _, s := range t.Services {
		for _, rs := range s.RealServers {
			l.Order[s.Noun] = append(l.Order[s.Noun], rs.Backend)
		}
	}
	return l, nil
}

func (l *Layout) layNIC(t *lang.Topology, m lang.Machine, i int, nic lang.NIC, used, macs map[string]bool) (NIC, error) {
	network, ok := t.Network(nic.Network)
	if !ok {
		return NIC{}, fmt.Errorf("lay out %s: there is no %s", m.Noun, nic.Network)
	}
	n := NIC{Network: nic.Network, Device: device(slug(l.Identity(nic.Network)), used)}
	what := fmt.Sprintf("%s/nic.%d", l.Identity(m.Noun), i)
	for try := 0; n.MAC == "" || macs[n.MAC]; try++ {
		n.MAC = mac(l.Lineage, what, try)
	}
	macs[n.MAC] = true
	for _, ip := range nic.Addresses {
		n.Addresses = append(n.Addresses, netip.PrefixFrom(ip, network.CIDR.Bits()))
	}
	return n, nil
}

// tunnelLabel is the block's label; a key of the user's own belongs to it,
// the address of the machine that the device is on does not.
func tunnelLabel(n addr.Noun) string {
	if k, ok := n.Key.AsName(); ok {
		if to, err := addr.ParseNoun(k); err == nil && to.Kind == addr.Backend {
			return plain(n.Label)
		}
	}
	return slug(n)
}
