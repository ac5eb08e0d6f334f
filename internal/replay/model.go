package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// sysctlPrefix begins the names of IPVS's sysctls.
const sysctlPrefix = "net.ipv4.vs."

// Model makes the services on a model, destinations in reverse so that the list
// comes out in order. Sysctls have their full names; those that the model does
// not know change nothing there. seed is of what the kernel draws.
func Model(services []proto.IPVSService, sysctl map[string]string, k ipvsmodel.Kernel, seed uint64) (*ipvsmodel.Model, error) {
	m := ipvsmodel.New(k, seed)
	for name, value := range sysctl {
		short, ours := strings.CutPrefix(name, sysctlPrefix)
		n, err := strconv.Atoi(value)
		if ours && err == nil {
			_ = m.SetSysctl(short, n)
		}
	}
	for _, s := range services {
		spec, err := serviceOf(s)
		if err != nil {
			return nil, err
		}
		if err := m.AddService(keyOf(s), spec); err != nil {
			return nil, err
		}
		m.SetTimeouts(ipvsmodel.Timeouts{TCP: seconds(s.Timeouts.TCP), TCPFin: seconds(s.Timeouts.TCPFin), UDP: seconds(s.Timeouts.UDP)})
		for _, d := range slices.Backward(s.Destinations) {
			spec := ipvsmodel.Destination{Address: netip.AddrPortFrom(d.Address, d.Port), Weight: d.Weight, Upper: d.Upper, Lower: d.Lower, Forward: forward(d.Forward)}
			if err := m.AddDestination(keyOf(s), spec); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

func keyOf(s proto.IPVSService) ipvsmodel.Key {
	p := ipvsmodel.UDP
	if s.Protocol == "tcp" {
		p = ipvsmodel.TCP
	}
	return ipvsmodel.Key{Protocol: p, VIP: netip.AddrPortFrom(s.VIP, s.Port), Mark: s.FWMark}
}

func serviceOf(s proto.IPVSService) (ipvsmodel.Service, error) {
	spec := ipvsmodel.Service{Scheduler: s.Scheduler, OnePacket: s.OnePacket, Persistence: seconds(s.Persistence)}
	for _, f := range s.Flags {
		if !spec.Flag(f) {
			return spec, fmt.Errorf("flag %q %w", f, ipvsmodel.ErrUnknown)
		}
	}
	if s.Persistence > 0 && s.Netmask > 0 && s.Netmask < 32 {
		mask, err := netip.AddrFrom4([4]byte{255, 255, 255, 255}).Prefix(s.Netmask)
		if err != nil {
			return spec, err
		}
		spec.Netmask = mask.Addr()
	}
	return spec, nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func forward(name string) ipvsmodel.Forward {
	switch name {
	case "masquerade":
		return ipvsmodel.Masquerade
	case "direct":
		return ipvsmodel.Direct
	}
	return ipvsmodel.Tunnel
}
