package lang

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// rules checks values against each other. Whatever touches a broken noun is
// passed over: its mistake was told already.
type rules struct {
	t      *Topology
	d      defects
	values map[string][]diag.Value
	out    diag.Diagnostics
	ways   Ways            // nil before they are looked for
	told   map[string]bool // by place and summary, where instances would repeat a mistake
}

// Validate applies the rules over values: those that need more than one
// argument to be seen. [Config.Resolve] does so by itself.
func Validate(t *Topology) diag.Diagnostics {
	out := validate(t, defects{}, nil)
	out.Sort()
	return out
}

func validate(t *Topology, d defects, values map[string][]diag.Value) diag.Diagnostics {
	r := &rules{t: t, d: d.spread(t), values: values, told: map[string]bool{}}
	r.addresses()
	r.zones()
	r.tunnels()
	r.services()
	r.masquerades()
	r.routes()
	r.roomInTunnels()
	r.images()
	r.circles()
	for _, x := range t.Experiments {
		r.experiment(x)
	}
	for _, p := range r.t.Populations {
		r.population(p)
	}
	return r.out
}

// fail reports an error at an argument of a noun, or at its block.
func (r *rules) fail(n addr.Noun, arg string, block diag.Range, summary, remedy, format string, args ...any) {
	r.report(diag.Errorf(summary, remedy, format, args...), n, arg, block)
}

func (r *rules) warn(n addr.Noun, arg string, block diag.Range, summary, remedy, format string, args ...any) {
	r.report(diag.Warnf(summary, remedy, format, args...), n, arg, block)
}

func (r *rules) report(d diag.Diagnostic, n addr.Noun, arg string, block diag.Range) {
	d = d.At(r.t.Place(n, arg, block)).For(n.String())
	d.Values = r.values[n.String()+"/"+arg]
	if key := fmt.Sprint(d.Subject, d.Summary); !n.Key.IsNone() || strings.HasPrefix(arg, "real_server[") {
		if r.told[key] {
			return
		}
		r.told[key] = true
	}
	r.out = append(r.out, d)
}

// addresses: every one inside its network, none twice, VIPs apart from machines.
func (r *rules) addresses() {
	owner := map[netip.Addr]addr.Noun{}
	for _, m := range r.t.Machines {
		for _, nic := range m.NICs {
			network, ok := r.t.Network(nic.Network)
			for _, ip := range nic.Addresses {
				if ok && network.CIDR.IsValid() && !network.CIDR.Contains(ip) {
					r.fail(m.Noun, "", nic.Range, "Address outside its network", "Choose one from "+network.CIDR.String()+".", "%s has %s, but %s is %s.", m.Noun, ip, nic.Network, network.CIDR)
				}
				if by, taken := owner[ip]; taken {
					r.fail(m.Noun, "", nic.Range, "Address used twice", "Give one of them another address.", "%s has %s, which is %s's already.", m.Noun, ip, by)
				}
				owner[ip] = m.Noun
			}
		}
	}
	vips := map[netip.Addr]Service{}
	for _, s := range r.t.Services {
		for _, ip := range s.VIPs {
			if by, taken := owner[ip]; taken {
				r.fail(s.Noun, r.vipArg(s), s.Range, "Address used twice", "Give the service an address that no machine has.", "%s has the VIP %s, which is %s's address.", s.Noun, ip, by)
			}
			if o, taken := vips[ip]; taken && o.Director != s.Director && !o.Director.IsZero() && !s.Director.IsZero() {
				r.fail(s.Noun, r.vipArg(s), s.Range, "Address used twice", "Give each director its own VIP.", "%s on %s has the VIP %s, which %s has on %s.", s.Noun, s.Director, ip, o.Noun, o.Director)
			}
			vips[ip] = s
		}
	}
}

func (r *rules) vipArg(s Service) string {
	if _, ok := r.t.Places[s.Noun.String()+"/vips"]; ok {
		return "vips"
	}
	return "vip"
}

func (r *rules) zones() {
	first := map[string]addr.Noun{}
	for _, z := range r.t.Zones {
		if z.Name == "" || r.d.arg(z.Noun, "name") {
			continue
		}
		if by, taken := first[z.Name]; taken {
			r.fail(z.Noun, "name", z.Range, "Zone twice", "Put all records into one zone, or give one of them another name.", "%s is the zone %q, as %s is.", z.Noun, z.Name, by)
		}
		first[z.Name] = z.Noun
	}
	for _, m := range r.t.Machines {
		r.server(m)
		seen := map[addr.Noun]bool{}
		for _, z := range m.Serves {
			if seen[z] {
				r.fail(m.Noun, "serves", m.Range, "Zone twice", "Remove one of the two.", "%s serves %s twice.", m.Noun, z)
			}
			seen[z] = true
		}
	}
}

func (r *rules) tunnels() {
	type ends struct{ from, to addr.Noun }
	first := map[ends]addr.Noun{}
	for _, tun := range r.t.Tunnels {
		r.checksum(tun)
		r.outer(tun)
		from, okFrom := r.t.Machine(tun.From)
		to, okTo := r.t.Machine(tun.To)
		if !okFrom || !okTo {
			continue
		}
		if by, taken := first[ends{tun.From, tun.To}]; taken {
			r.fail(tun.Noun, "to", tun.Range, "Tunnel twice", "Remove one of them: a service needs one tunnel to each backend.",
				"%s leads from %s to %s, as %s does.", tun.Noun, tun.From, tun.To, by)
		}
		first[ends{tun.From, tun.To}] = tun.Noun
		if !r.d.noun(from.Noun) && !r.d.noun(to.Noun) && tun.Local.IsValid() && !r.finds(from, tun.Local) {
			r.fail(tun.Noun, "to", tun.Range, "No way for the tunnel", "Put both on one network, or a router between their networks.",
				"%s and %s share no network, and no router leads from one to the other.", tun.From, tun.To)
		}
	}
}

// checksum refuses what the outer header has no place for: IPIP has no checksum but
// IP's own, and only GUE can leave the inner one to the receiver.
func (r *rules) checksum(tun Tunnel) {
	switch {
	case tun.Checksum == "full" && tun.Type == "ipip":
		r.fail(tun.Noun, "checksum", tun.Range, "No such checksum", `Leave checksum out, or write type = "gre" or "gue".`,
			"%s is of type ipip, whose header has none.", tun.Noun)
	case tun.Checksum == "remote" && tun.Type != "gue":
		r.fail(tun.Noun, "checksum", tun.Range, "No such checksum", `Write checksum = "none" or "full", or type = "gue".`,
			"%s is of type %s; only gue offloads the inner checksum to the receiver.", tun.Noun, tun.Type)
	}
}

// outer refuses an outer header of a family in which the ends have no way to each
// other, and one of IPv6 that no device made here would take off: the receivers of GRE
// and GUE are those of IPv4.
func (r *rules) outer(tun Tunnel) {
	if tun.Local.IsValid() && tun.Family != "" && tun.Local.Is6() != (tun.Family == "ipv6") {
		name := map[string]string{"ipv4": "IPv4", "ipv6": "IPv6"}[tun.Family]
		r.fail(tun.Noun, "family", tun.Range, "No way for this tunnel over "+name, fmt.Sprintf("Leave family out, or give both ends a network of %s.", name),
			"%s and %s reach each other by %s and %s alone.", tun.From, tun.To, tun.Remote, tun.Local)
		return
	}
	if tun.Local.Is6() && tun.Type != defaultTunnel && !r.d.arg(tun.Noun, "type") {
		r.fail(tun.Noun, "type", tun.Range, "No receiver for this tunnel over IPv6", `Use type = "ipip", or give both ends a network of IPv4.`,
			"%s is of type %s between %s and %s; the devices that receive %s here are those of IPv4.", tun.Noun, tun.Type, tun.Remote, tun.Local, tun.Type)
	}
}

func share(a, b Machine) bool {
	for _, na := range a.NICs {
		for _, nb := range b.NICs {
			if na.Network == nb.Network {
				return true
			}
		}
	}
	return false
}

// on returns the machine's network that contains the address.
func (r *rules) on(m Machine, ip netip.Addr) (Network, bool) {
	for _, nic := range m.NICs {
		if n, ok := r.t.Network(nic.Network); ok && n.CIDR.IsValid() && n.CIDR.Contains(ip) {
			return n, true
		}
	}
	return Network{}, false
}
