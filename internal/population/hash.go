package population

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/replay"
)

// byAddress: the client's address alone decides. byVIP: the VIP alone does.
func (b *bench) byAddress() bool {
	s := b.services[0]
	return (s.Scheduler == "sh" && !slices.Contains(s.Flags, "sh-port") || s.Scheduler == "mh" && !slices.Contains(s.Flags, "mh-port")) && !b.limited()
}

func (b *bench) byVIP() bool { return b.services[0].Scheduler == "dh" && !b.limited() }

// limited: a threshold makes choices depend on each other.
func (b *bench) limited() bool {
	return slices.ContainsFunc(b.services[0].Destinations, func(d proto.IPVSDestination) bool { return d.Upper > 0 })
}

// hashed asks the kernel's hash for every address, or every VIP: the backend of
// each, -1 for nobody. without is a backend that is left out, -1 for none.
func (b *bench) hashed(without int) ([]int16, error) {
	services := slices.Clone(b.services)
	for i := range services {
		services[i].OnePacket, services[i].Persistence = true, 0 // nobody's entry decides
	}
	m, err := replay.Model(services, b.sysctls, ipvsmodel.Kernel{}, 1)
	if err != nil {
		return nil, fmt.Errorf("set up the hash: %w", err)
	}
	if without >= 0 {
		for _, s := range services {
			for _, d := range s.Destinations {
				if d.Address != b.backends[without] {
					continue
				}
				if err := m.DeleteDestination(ipvsmodel.Key{Protocol: ipvsmodel.UDP, VIP: netip.AddrPortFrom(s.VIP, s.Port)}, netip.AddrPortFrom(d.Address, d.Port)); err != nil {
					return nil, fmt.Errorf("leave out %v: %w", d.Address, err)
				}
			}
		}
	}
	n := b.crowd.addresses
	if b.byVIP() {
		n = len(services)
	}
	out := make([]int16, n)
	p := ipvsmodel.Packet{Protocol: ipvsmodel.UDP, VIP: netip.AddrPortFrom(services[0].VIP, services[0].Port)}
	for i := range out {
		p.Client = netip.AddrPortFrom(address(i, b.seed), firstEphemeral)
		if b.byVIP() {
			p.VIP = netip.AddrPortFrom(services[i].VIP, services[i].Port)
		}
		out[i] = int16(slices.Index(b.backends, m.Packet(0, &p).Backend.Addr()))
	}
	return out, nil
}

// parts are the queries of each address or VIP, of all queries.
func (b *bench) parts() []float64 {
	if b.byVIP() {
		out := make([]float64, len(b.services))
		for i := range out {
			out[i] = 1 / float64(len(out))
		}
		return out
	}
	out := make([]float64, b.crowd.addresses)
	for a := range out {
		out[a] = b.crowd.addressRate(a) / b.crowd.rate
	}
	return out
}
