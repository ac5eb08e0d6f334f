package load

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
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
