package load

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// The source ports that the generator takes: those that Linux draws from by
// default (ip_local_port_range, Documentation/networking/ip-sysctl.rst).
const (
	FirstPort = 32768
	PortCount = 28232
)

// SourcePorts returns the first n source ports of an address, in the order in
// which the generator uses them: a permutation of 32768 to 60999 drawn from the
// seed and the address (Fisher and Yates, by the PCG-DXSM of math/rand/v2). A
// port comes once, so no query meets the entry of another one's; every run of an
// experiment begins with an empty connection table and the same ports, so
// treatments are compared on equal ports.
//
// The draw is part of the artifact's contract and must never change.
func SourcePorts(seed int64, from netip.Addr, n int) ([]uint16, error) {
	if n < 0 || n > PortCount {
		return nil, fmt.Errorf("load: %d source ports of one address, there are %d", n, PortCount)
	}
	b := from.Unmap().As16()
	draw := rand.New(rand.NewPCG(uint64(seed), binary.BigEndian.Uint64(b[8:])))
	all := make([]uint16, PortCount)
	for i := range all {
		all[i] = uint16(FirstPort + i)
	}
	for i := range n {
		j := i + int(draw.Uint64N(uint64(PortCount-i)))
		all[i], all[j] = all[j], all[i]
	}
	return all[:n], nil
}

// PortShare is a client's part of the source ports: those of an address of its own,
// or, where NAT gives several clients one address, every Of-th of that address's. No
// two of them then take the same port, and NAT keeps a port that nobody else has
// (nf_nat_core.c, get_unique_tuple).
type PortShare struct {
	Address  netip.Addr // whose ports are drawn
	Part, Of int        // the ports number Part, Part+Of, Part+2·Of, …; Of is 1 or more
}

// ShareOf is the part of a client's address; seen has the addresses behind NAT and
// what others see in their place.
func ShareOf(from netip.Addr, seen map[netip.Addr]netip.Addr) PortShare {
	as, hidden := seen[from]
	var group []netip.Addr
	for _, a := range slices.SortedFunc(maps.Keys(seen), netip.Addr.Compare) {
		if hidden && seen[a] == as {
			group = append(group, a)
		}
	}
	if len(group) < 2 {
		return PortShare{Address: from, Of: 1}
	}
	return PortShare{Address: as, Part: slices.Index(group, from), Of: len(group)}
}

// Most is how many ports there are in the share.
func (s PortShare) Most() int { return (PortCount - s.Part + s.Of - 1) / s.Of }

// Ports are the first n ports of the share, in the order in which they are used.
func (s PortShare) Ports(seed int64, n int) ([]uint16, error) {
	if n > s.Most() {
		return nil, fmt.Errorf("load: %d source ports for one of %d clients that share an address, there are %d", n, s.Of, s.Most())
	}
	all, err := SourcePorts(seed, s.Address, max(0, (n-1)*s.Of+s.Part+1))
	if err != nil || s.Of == 1 {
		return all, err
	}
	var out []uint16
	for k := s.Part; k < len(all); k += s.Of {
		out = append(out, all[k])
	}
	return out, nil
}
