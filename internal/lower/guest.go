package lower

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// ipvsPrefix begins the names of parameters that exist only once ip_vs is
// loaded; they belong to the service.
const ipvsPrefix = "net.ipv4.vs."

// roleSysctls are what each role needs for LVS with shared addresses. For
// arp_ignore, arp_announce and rp_filter the kernel takes the larger of all's
// and the device's value, and devices start with 0, so all is enough
// (Documentation/networking/ip-sysctl.rst).
//
// A backend holds the VIP too: arp_ignore=1 keeps it from answering ARP for it,
// arp_announce=2 from announcing it. rp_filter=1 would drop what comes out of
// the tunnel (measured: TcpExt IPReversePathFilter rises).
var roleSysctls = map[addr.Kind]map[string]string{
	addr.Backend: {
		"net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2",
		"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0",
	},
	addr.Director: {
		"net.ipv4.ip_forward": "0", "net.ipv4.conf.all.send_redirects": "0", "net.ipv4.conf.default.send_redirects": "0",
		"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0",
	},
	addr.Client: {"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0"},
	addr.Router: {
		"net.ipv4.ip_forward": "1", "net.ipv4.conf.all.send_redirects": "0", "net.ipv4.conf.default.send_redirects": "0",
		"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0",
	},
}

// sysctl makes a machine's kernel parameters, the user's own last. It comes
// after the links, since a device's parameters are found by its name.
func (b *builder) sysctl(m lang.Machine) {
	values := map[string]string{}
	maps.Copy(values, roleSysctls[m.Noun.Kind])
	if k := m.Noun.Kind; k == addr.Director || k == addr.Router {
		// Redirects go out when all or the device says so, and devices start with 1:
		// they would tell clients on the backends' network to bypass the director.
		for _, nic := range b.l.Machines[m.Noun].NICs {
			values["net.ipv4.conf."+nic.Device+".send_redirects"] = "0"
		}
	}
	if b.t.Forwards(m.Noun) {
		values["net.ipv4.ip_forward"] = "1"
		if speaks6(m) {
			values["net.ipv6.conf.all.forwarding"] = "1"
		}
	}
	translates := b.masquerade(m)
	if len(translates) > 0 {
		maps.Copy(values, rememberFlows)
	}
	for name, v := range m.Sysctl {
		// Those of IPVS are set with the services, except where there are none.
		if !strings.HasPrefix(name, ipvsPrefix) || !b.directs(m.Noun) {
			values[name] = v
		}
	}
	b.add(provider.Resource{
		Addr: sysctlOf(m.Noun), Type: schema.TypeSysctl, Range: &m.Range, Within: domainOf(m.Noun),
		DependsOn: append(b.linksOf(m.Noun), translates...), Attrs: schema.Sysctl{Node: m.Noun.String(), Values: values}.Value(),
	})
}

// speaks6 reports whether a machine has an IPv6 address of its own.
func speaks6(m lang.Machine) bool {
	return slices.ContainsFunc(m.NICs, func(n lang.NIC) bool { return len(n.Addresses) > 0 && n.Addresses[0].Is6() })
}

// rememberFlows are the parameters of a router that masquerades; they exist once
// something translates. The kernel's own choice for 256 MiB, 2,048 flows
// (nf_conntrack_core.c, nf_conntrack_init_start), is less than one run from fresh
// ports needs, and what is beyond it is dropped. A flow of UDP that were forgotten
// (after 30 s, nf_conntrack_proto_udp.c) could come back with another port while its
// entry in IPVS lives.
var rememberFlows = map[string]string{
	lang.FlowParameters + "max":                "131072",
	lang.FlowParameters + "udp_timeout":        "86400",
	lang.FlowParameters + "udp_timeout_stream": "86400",
}

// directs reports whether the machine is the director of a service.
func (b *builder) directs(n addr.Noun) bool {
	return slices.ContainsFunc(b.t.Services, func(s lang.Service) bool { return s.Director == n })
}

// links makes the cards' settings. The VIPs of a director's services stand on
// its cards, where they answer ARP and are local, without which IPVS's hook is
// never reached (measured, EXP-B15). A backend that is reached by direct routing
// holds the VIPs on the loopback device.
func (b *builder) links(m lang.Machine) {
	for i, nic := range m.NICs {
		id := b.l.Machines[m.Noun].NICs[i]
		link := schema.Link{Node: m.Noun.String(), MAC: id.MAC, Name: id.Device, Impair: impair(nic.Impair)}
		if n, ok := b.t.Network(nic.Network); ok {
			link.MTU = n.MTU
		}
		for _, p := range id.Addresses {
			link.Addresses = append(link.Addresses, p.String())
		}
		for _, vip := range b.vips(func(s lang.Service) bool { return s.Director == m.Noun }) {
			if b.cardFor(m, vip) == i {
				link.Addresses = append(link.Addresses, single(vip))
			}
		}
		b.add(provider.Resource{
			Addr: b.linkOf(m.Noun, i), Type: schema.TypeLink, Range: &nic.Range, Within: domainOf(m.Noun),
			Attrs: link.Value(),
		})
	}
	direct := b.vips(func(s lang.Service) bool { return s.Forward == "direct" && b.serves(s, m.Noun) })
	if len(direct) == 0 {
		return
	}
	lo := schema.Link{Node: m.Noun.String(), Name: "lo", Addresses: []string{}}
	b.loopbacks[m.Noun] = true
	for _, vip := range direct {
		lo.Addresses = append(lo.Addresses, single(vip))
	}
	b.add(provider.Resource{
		Addr: loopbackOf(m.Noun), Type: schema.TypeLink, Range: &m.Range, Within: domainOf(m.Noun),
		DependsOn: []addr.Resource{sysctlOf(m.Noun)}, Attrs: lo.Value(),
	})
}

// cardFor returns the index of the director's card in whose network a VIP is,
// the first one for a VIP that is in none.
func (b *builder) cardFor(m lang.Machine, vip netip.Addr) int {
	for i, nic := range m.NICs {
		if n, ok := b.t.Network(nic.Network); ok && n.CIDR.Contains(vip) {
			return i
		}
	}
	return 0
}

func loopbackOf(n addr.Noun) addr.Resource { return part(n, schema.TypeLink+".lo") }

// vips collects the VIPs of the services that match, in declared order, each once.
func (b *builder) vips(match func(lang.Service) bool) []netip.Addr {
	var out []netip.Addr
	for _, s := range b.t.Services {
		if !match(s) {
			continue
		}
		for _, vip := range s.VIPs {
			if !slices.Contains(out, vip) {
				out = append(out, vip)
			}
		}
	}
	return out
}

// single writes an address as a prefix of its full length.
func single(ip netip.Addr) string { return netip.PrefixFrom(ip, ip.BitLen()).String() }

func impair(i *lang.Impair) *schema.Impair {
	if i == nil {
		return nil
	}
	ppm := func(fraction float64) int64 { return int64(math.Round(fraction * 1e6)) }
	return &schema.Impair{
		DelayUS: i.Delay.Microseconds(), JitterUS: i.Jitter.Microseconds(),
		LossPPM: ppm(i.Loss), DuplicatePPM: ppm(i.Duplicate), ReorderPPM: ppm(i.Reorder),
		RateBits: i.RateBits, Limit: i.Limit,
	}
}

// checksum is a tunnel's in the resources, where nothing means none.
func checksum(t lang.Tunnel) string {
	if t.Checksum == "none" {
		return ""
	}
	return t.Checksum
}

// tunnel makes the receiving device on the backend, with both ends named and
// the VIPs on it.
func (b *builder) tunnel(t lang.Tunnel) {
	vips := b.vips(func(s lang.Service) bool { return b.serves(s, t.Noun) })
	tun := schema.Tunnel{
		Node: t.To.String(), Name: b.l.Tunnels[t.Noun].Device, Type: t.Type,
		Local: t.Local.String(), Remote: t.Remote.String(), Port: int(t.Port), Checksum: checksum(t),
	}
	for _, vip := range vips {
		tun.Addresses = append(tun.Addresses, single(vip))
	}
	b.add(provider.Resource{
		Addr: tunnelOf(t.Noun), Type: schema.TypeTunnel, Range: &t.Range, Within: domainOf(t.To),
		DependsOn: append(b.linksOf(t.To), sysctlOf(t.To)), Attrs: tun.Value(),
	})
}
