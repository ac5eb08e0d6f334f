package guest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider/schema"
)

// forwardTunnel is the forwarding method that has a tunnel type.
const forwardTunnel = "tunnel"

// defaultTunnel is the tunnel type that an empty one means on the wire.
const defaultTunnel = "ipip"

func serviceSpecs(s schema.IPVS) ([]proto.IPVSService, error) {
	specs := make([]proto.IPVSService, len(s.Services))
	for i, svc := range s.Services {
		spec, err := serviceSpec(svc)
		if err != nil {
			return nil, err
		}
		specs[i] = spec
	}
	return specs, nil
}

func serviceSpec(s schema.IPVSService) (proto.IPVSService, error) {
	vip, err := parseAddr(s.VIP)
	if err != nil {
		return proto.IPVSService{}, fmt.Errorf("virtual address: %w", err)
	}
	spec := proto.IPVSService{
		IPVSKey:   proto.IPVSKey{Protocol: s.Protocol, VIP: vip, Port: s.Port, FWMark: s.FWMark, IPv6: s.IPv6},
		Scheduler: s.Scheduler, OnePacket: s.OnePacket, Flags: s.Flags, Persistence: s.PersistenceS, Netmask: s.Netmask,
		Timeouts:     proto.IPVSTimeouts{TCP: s.Timeouts.TCP, TCPFin: s.Timeouts.TCPFin, UDP: s.Timeouts.UDP},
		Destinations: []proto.IPVSDestination{},
	}
	for _, d := range s.Destinations {
		at, err := netip.ParseAddr(d.Address)
		if err != nil {
			return proto.IPVSService{}, fmt.Errorf("real server: %w", err)
		}
		spec.Destinations = append(spec.Destinations, proto.IPVSDestination{
			Address: at, Port: d.Port, Forward: d.Forward, Weight: d.Weight, Upper: d.Upper, Lower: d.Lower,
			TunnelType: d.TunnelType, TunnelPort: d.TunnelPort, TunnelChecksum: d.TunnelChecksum,
		})
	}
	return spec, nil
}

// serviceValue is a service as read. What the resource does not set is left as
// it asked: timeouts of 0 are not ours, and a netmask means something with
// persistence only.
func serviceValue(asked schema.IPVSService, have proto.IPVSService) schema.IPVSService {
	s := schema.IPVSService{
		Protocol: have.Protocol, VIP: addrText(have.VIP), Port: have.Port, FWMark: have.FWMark, IPv6: have.IPv6,
		Scheduler: have.Scheduler, OnePacket: have.OnePacket, Flags: slices.Sorted(slices.Values(have.Flags)),
		PersistenceS: have.Persistence, Netmask: have.Netmask,
		Timeouts: schema.IPVSTimeouts{
			TCP:    ours(asked.Timeouts.TCP, have.Timeouts.TCP),
			TCPFin: ours(asked.Timeouts.TCPFin, have.Timeouts.TCPFin),
			UDP:    ours(asked.Timeouts.UDP, have.Timeouts.UDP),
		},
	}
	if s.PersistenceS == 0 {
		s.Netmask = asked.Netmask
	}
	for _, d := range have.Destinations {
		s.Destinations = append(s.Destinations, destinationValue(d))
	}
	return s
}

func ours(asked, have int) int {
	if asked == 0 {
		return 0
	}
	return have
}

func destinationValue(d proto.IPVSDestination) schema.IPVSDestination {
	out := schema.IPVSDestination{
		Address: d.Address.String(), Port: d.Port, Forward: d.Forward, Weight: d.Weight, Upper: d.Upper, Lower: d.Lower,
	}
	if d.Forward == forwardTunnel {
		out.TunnelType, out.TunnelPort, out.TunnelChecksum = d.TunnelType, d.TunnelPort, d.TunnelChecksum
		if out.TunnelType == "" {
			out.TunnelType = defaultTunnel
		}
	}
	return out
}
