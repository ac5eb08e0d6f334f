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
func Lay(t *lang.Topology, lineage string) (*Layout, error) {
	if lineage == "" {
		return nil, errors.New("lay out the lab: it has no lineage")
	}
	l := &Layout{Lineage: lineage, Machines: map[addr.Noun]Machine{}, Networks: map[addr.Noun]Network{}, Tunnels: map[addr.Noun]Tunnel{}, Order: map[addr.Noun][]addr.Noun{}}
	for _, n := range t.Networks {
		l.Networks[n.Noun] = Network{UUID: id(lineage, n.Noun.String()), Name: libvirtName(lineage, n.Noun), Bridge: bridge(lineage, n.Noun)}
	}
	hosts, macs := map[string]bool{}, map[string]bool{}
	devices := map[addr.Noun]map[string]bool{}
	for _, m := range t.Machines {
		used := map[string]bool{}
		devices[m.Noun] = used
		lm := Machine{UUID: id(lineage, m.Noun.String()), Domain: libvirtName(lineage, m.Noun), Hostname: host(m.Noun, hosts)}
		for i, nic := range m.NICs {
			ln, err := layNIC(t, m, i, nic, lineage, used, macs)
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
		l.Tunnels[tun.Noun] = Tunnel{Machine: tun.To, Device: device(tunnelLabel(tun.Noun), used)}
	}
	for _, s := range t.Services {
		for _, rs := range s.RealServers {
			l.Order[s.Noun] = append(l.Order[s.Noun], rs.Backend)
		}
	}
	return l, nil
}

func layNIC(t *lang.Topology, m lang.Machine, i int, nic lang.NIC, lineage string, used, macs map[string]bool) (NIC, error) {
	network, ok := t.Network(nic.Network)
	if !ok {
		return NIC{}, fmt.Errorf("lay out %s: there is no %s", m.Noun, nic.Network)
	}
	n := NIC{Network: nic.Network, Device: device(slug(nic.Network), used)}
	what := fmt.Sprintf("%s/nic.%d", m.Noun, i)
	for try := 0; n.MAC == "" || macs[n.MAC]; try++ {
		n.MAC = mac(lineage, what, try)
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
