package lower

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// dns makes a backend's name server. It comes after the devices that carry the
// VIPs, so that the name server finds them when it starts.
func (b *builder) dns(m lang.Machine) {
	if len(m.Serves) == 0 {
		return
	}
	d := schema.DNS{Node: m.Noun.String(), Server: m.Server, ServerID: m.Noun.String(), Zones: map[string]string{}}
	for _, n := range m.Serves {
		z, _ := b.t.Zone(n)
		d.Zones[z.Name] = ZoneText(z)
	}
	deps := b.linksOf(m.Noun)
	for _, nic := range m.NICs {
		for _, ip := range nic.Addresses {
			d.Listen = append(d.Listen, ip.String())
		}
	}
	// Masquerading rewrites the address, so the VIP is not here then.
	for _, vip := range b.vips(func(s lang.Service) bool { return s.Forward != masquerade && b.serves(s, m.Noun) }) {
		d.Listen = append(d.Listen, vip.String())
	}
	for _, t := range b.leading[m.Noun] {
		deps = append(deps, tunnelOf(t.Noun))
	}
	if b.loopbacks[m.Noun] {
		deps = append(deps, loopbackOf(m.Noun))
	}
	b.add(provider.Resource{
		Addr: dnsOf(m.Noun), Type: schema.TypeDNS, Range: &m.Range, Within: domainOf(m.Noun),
		DependsOn: deps, Attrs: d.Value(),
	})
}

// The ways of forwarding that make a difference here.
const (
	direct     = "direct"
	masquerade = "masquerade"
)

// pinned are IPVS's parameters that change results, at the kernel's defaults
// (Documentation/networking/ipvs-sysctl.rst), so that a study does not depend
// on what somebody set before.
var pinned = map[string]string{
	ipvsPrefix + "expire_nodest_conn": "0", ipvsPrefix + "expire_quiescent_template": "0",
	ipvsPrefix + "conn_reuse_mode": "1", ipvsPrefix + "run_estimation": "1",
	ipvsPrefix + "drop_entry": "0", ipvsPrefix + "drop_packet": "0", ipvsPrefix + "secure_tcp": "0",
	ipvsPrefix + "pmtu_disc": "1", ipvsPrefix + "sloppy_tcp": "0",
}

// service makes the virtual services, one for each VIP. It does not wait for
// what it will send queries to: loading IPVS takes an emulated director 0.5 s,
// in which the backends get theirs. But it goes before they go.
func (b *builder) service(s lang.Service) {
	v := schema.IPVS{Node: s.Director.String(), Sysctl: maps.Clone(pinned)}
	if m, ok := b.t.Machine(s.Director); ok {
		for name, value := range m.Sysctl {
			if strings.HasPrefix(name, ipvsPrefix) {
				v.Sysctl[name] = value
			}
		}
	}
	v.Services = b.virtuals(s)
	deps := append(append(b.linksOf(s.Director), sysctlOf(s.Director)), b.routesOf(s.Director)...)
	var later []addr.Resource
	for _, r := range s.RealServers {
		later = append(append(later, b.linksOf(r.Backend)...), b.routesOf(r.Backend)...)
		if !r.Tunnel.IsZero() {
			later = append(later, tunnelOf(r.Tunnel))
		}
		if m, ok := b.t.Machine(r.Backend); ok && len(m.Serves) > 0 {
			later = append(later, dnsOf(r.Backend))
		}
	}
	later = slices.DeleteFunc(later, func(a addr.Resource) bool { return slices.Contains(deps, a) }) // the director may serve itself
	b.add(provider.Resource{
		Addr: part(s.Noun, schema.TypeIPVS), Type: schema.TypeIPVS, Range: &s.Range, Within: domainOf(s.Director),
		DependsOn: append(deps, later...), NotAwaited: later, Attrs: v.Value(),
	})
	b.mark(s)
}

// mark makes the rules that let a service by firewall mark know its packets.
func (b *builder) mark(s lang.Service) {
	if s.FWMark == 0 {
		return
	}
	m := schema.Mark{Node: s.Director.String(), Mark: s.FWMark, IPv6: len(s.VIPs) > 0 && s.VIPs[0].Is6()}
	for _, vip := range s.VIPs {
		m.Targets = append(m.Targets, s.Protocol+" "+netip.AddrPortFrom(vip, s.Port).String())
	}
	b.add(provider.Resource{
		Addr: part(s.Noun, schema.TypeMark), Type: schema.TypeMark, Range: &s.Range, Within: domainOf(s.Director),
		DependsOn: b.linksOf(s.Director), Attrs: m.Value(),
	})
}

// The kernel's default timeouts (ip_vs_proto_tcp.c, ip_vs_proto_udp.c). They
// are written out: 0 would leave in force what was there before.
const (
	defaultTCP    = 900 * time.Second
	defaultTCPFin = 120 * time.Second
	defaultUDP    = 300 * time.Second
)

// virtuals repeats the service for each VIP. One by firewall mark stands for
// all that the mark is put on, and has no address of its own.
func (b *builder) virtuals(s lang.Service) []schema.IPVSService {
	one := b.virtual(s)
	if s.FWMark != 0 {
		one.Protocol, one.Port, one.IPv6 = "", 0, len(s.VIPs) > 0 && s.VIPs[0].Is6()
		return []schema.IPVSService{one}
	}
	var out []schema.IPVSService
	for _, vip := range s.VIPs {
		one.VIP = vip.String()
		out = append(out, one)
	}
	return out
}

func (b *builder) virtual(s lang.Service) schema.IPVSService {
	one := schema.IPVSService{
		Protocol: s.Protocol, Port: s.Port, FWMark: s.FWMark, Scheduler: s.Scheduler, OnePacket: s.OnePacket,
		Flags: slices.Sorted(slices.Values(s.Flags)), Timeouts: b.timeouts(s.Director),
	}
	if p := s.Persistence; p != nil {
		one.PersistenceS, one.Netmask = int(p.Timeout/time.Second), p.Netmask
	}
	for _, r := range s.RealServers {
		d := schema.IPVSDestination{
			Address: r.Address.String(), Port: r.Port, Forward: s.Forward, Weight: r.Weight, Upper: r.Upper, Lower: r.Lower,
		}
		if t, ok := b.tunnels[r.Tunnel]; ok {
			d.TunnelType, d.TunnelPort, d.TunnelChecksum = t.Type, t.Port, checksum(t)
		}
		one.Destinations = append(one.Destinations, d)
	}
	return one
}

// timeouts are those of the director's network namespace: what one of its
// services says holds for all (they may not contradict each other).
func (b *builder) timeouts(director addr.Noun) schema.IPVSTimeouts {
	out := lang.Timeouts{TCP: defaultTCP, TCPFin: defaultTCPFin, UDP: defaultUDP}
	for _, s := range b.t.Services {
		if s.Director != director {
			continue
		}
		for _, p := range []struct {
			have *time.Duration
			said time.Duration
		}{{&out.TCP, s.Timeouts.TCP}, {&out.TCPFin, s.Timeouts.TCPFin}, {&out.UDP, s.Timeouts.UDP}} {
			if p.said > 0 {
				*p.have = p.said
			}
		}
	}
	return schema.IPVSTimeouts{TCP: int(out.TCP / time.Second), TCPFin: int(out.TCPFin / time.Second), UDP: int(out.UDP / time.Second)}
}
