package lang

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
)

// namedPort is where name servers answer on the backends.
const namedPort = 53

func (r *rules) services() {
	type key struct {
		director addr.Noun
		protocol string
		vip      netip.Addr
		port     uint16
	}
	first := map[key]addr.Noun{}
	type mark struct {
		director addr.Noun
		mark     uint32
	}
	marked := map[mark]addr.Noun{}
	for _, s := range r.t.Services {
		r.service(s)
		if r.d.arg(s.Noun, "director", "port", "protocol") {
			continue
		}
		for _, ip := range s.VIPs {
			k := key{s.Director, s.Protocol, ip, s.Port}
			if by, taken := first[k]; taken && by != s.Noun {
				r.fail(s.Noun, r.vipArg(s), s.Range, "Service twice", "Change protocol, address or port of one of them.",
					"%s is %s %s:%d on %s, as %s is.", s.Noun, s.Protocol, ip, s.Port, s.Director, by)
			}
			first[k] = s.Noun
		}
		if k := (mark{s.Director, s.FWMark}); k.mark != 0 && !r.d.arg(s.Noun, "fwmark") {
			if by, taken := marked[k]; taken {
				r.fail(s.Noun, "fwmark", s.Range, "Mark twice", "Give one of them another number.",
					"%s has the mark %d on %s, as %s has.", s.Noun, s.FWMark, s.Director, by)
			}
			marked[k] = s.Noun
		}
	}
	r.timeouts()
}

func (r *rules) service(s Service) {
	r.vips(s)
	r.families(s)
	if s.OnePacket && !r.d.arg(s.Noun, "forward", "protocol") {
		r.onePacket(s.Noun, "one_packet", s)
	}
	for _, flag := range s.Flags {
		if scheduler, _, _ := strings.Cut(flag, "-"); slices.Contains(ServiceFlags, flag) && !r.d.arg(s.Noun, "scheduler") && !r.usesScheduler(s, scheduler) {
			r.warn(s.Noun, "flags", s.Range, "Flag without effect", fmt.Sprintf("Use the scheduler %q, or leave the flag out.", scheduler),
				"%s has the flag %q, but the scheduler %q does not read it.", s.Noun, flag, s.Scheduler)
		}
	}
	seen := map[addr.Noun]bool{}
	for i, rs := range s.RealServers {
		if seen[rs.Backend] {
			r.fail(s.Noun, "", rs.Range, "Real server twice", "Name each backend once; weight gives it more.", "%s has %s twice.", s.Noun, rs.Backend)
			continue
		}
		seen[rs.Backend] = true
		r.realServer(s, i)
	}
}

func (r *rules) vips(s Service) {
	director, ok := r.t.Machine(s.Director)
	if !ok || r.d.noun(s.Director) {
		return
	}
	for i, ip := range s.VIPs {
		for _, o := range s.VIPs[:i] {
			if o == ip {
				r.fail(s.Noun, "vips", s.Range, "Address used twice", "Remove one of the two.", "%s has the VIP %s twice.", s.Noun, ip)
			}
		}
		n, on := r.on(director, ip)
		if !on {
			r.fail(s.Noun, r.vipArg(s), s.Range, "Address outside its network", "Choose a VIP from "+r.cidrs(director)+": clients find it by ARP.",
				"%s has the VIP %s, but %s is on %s.", s.Noun, ip, s.Director, r.cidrs(director))
			continue
		}
		if first, last := Ends(n.CIDR); ip == first || ip == last {
			r.fail(s.Noun, r.vipArg(s), s.Range, "Not a machine's address", "Choose another VIP.", "%s has the VIP %s, the first or last address of %s.", s.Noun, ip, n.Noun)
		}
	}
}

// families: a service has one, and only a tunnel can carry it in the other one
// (ip_vs_ctl.c refuses a real server of another family for all other ways).
func (r *rules) families(s Service) {
	if len(s.VIPs) == 0 || r.d.noun(s.Noun) {
		return
	}
	for _, ip := range s.VIPs {
		if ip.Is6() != s.v6() {
			r.fail(s.Noun, "vips", s.Range, "IPv4 and IPv6 in one service", "Make a service for each.", "%s has the VIPs %s and %s.", s.Noun, s.VIPs[0], ip)
			return
		}
	}
	for i, rs := range s.RealServers {
		if !rs.Address.IsValid() || rs.Address.Is6() == s.v6() {
			continue
		}
		arg := r.realServerArg(s, i, "backends")
		if s.Forward != "tunnel" {
			r.fail(s.Noun, arg, rs.Range, "Another address family", `Put both on a network of the VIP's family, or use forward = "tunnel".`,
				"%s has the VIP %s, but %s is reached by %s; only a tunnel carries one family in the other.", s.Noun, s.VIPs[0], rs.Backend, rs.Address)
			continue
		}
		if tun, ok := r.t.tunnel(rs.Tunnel); ok && tun.Type == "gue" {
			r.fail(s.Noun, arg, rs.Range, "Another family inside GUE", `Use type = "ipip" or "gre" for the tunnel.`,
				"%s has the VIP %s and sends it through %s, whose receiver hands on packets of IPv4 only.", s.Noun, s.VIPs[0], tun.Noun)
		}
	}
}

func (r *rules) cidrs(m Machine) string {
	var out []string
	for _, nic := range m.NICs {
		if n, ok := r.t.Network(nic.Network); ok {
			out = append(out, n.CIDR.String())
		}
	}
	return enumerate(out, "and")
}

// onePacket: without an entry nothing translates the replies back (measured:
// the client times out), and the kernel reads the flag for UDP only.
func (r *rules) onePacket(n addr.Noun, arg string, s Service) {
	switch {
	case s.Forward == "masquerade":
		r.fail(n, arg, s.Range, "one_packet with masquerade", `Use forward = "tunnel" or "direct", or leave one_packet out.`,
			"%s forwards by masquerade; with one_packet no entry is left to translate the replies back, and every client times out.", s.Noun)
	case s.Protocol == "tcp":
		r.fail(n, arg, s.Range, "one_packet with TCP", `Use protocol = "udp", or leave one_packet out.`, "%s is a TCP service; the kernel schedules single packets for UDP only.", s.Noun)
	}
}

// usesScheduler also looks at what experiments make of the service.
func (r *rules) usesScheduler(s Service, name string) bool {
	if s.Scheduler == name {
		return true
	}
	for _, x := range r.t.Experiments {
		for _, f := range x.Factors {
			if x.Service != s.Noun || f.Name != "scheduler" {
				continue
			}
			for _, v := range f.Values {
				if v.AsString() == name {
					return true
				}
			}
		}
	}
	return false
}

func (r *rules) realServer(s Service, i int) {
	rs := s.RealServers[i]
	at := func(arg string) string { return r.realServerArg(s, i, arg) }
	if r.d.arg(s.Noun, "forward") || r.d.inside(s.Noun, "real_server") {
		return
	}
	r.ports(s, rs, at("port"))
	backend, ok := r.t.Machine(rs.Backend)
	director, okD := r.t.Machine(s.Director)
	if ok && len(backend.Serves) == 0 && !r.d.arg(rs.Backend, "serves") {
		r.fail(s.Noun, at("backends"), rs.Range, "Backend without a zone", fmt.Sprintf("Add serves = [zone.NAME] to %s.", rs.Backend.Block()),
			"%s is a real server of %s but serves no zone: it would refuse every query.", rs.Backend, s.Noun)
	}
	switch {
	case s.Forward == "tunnel" && rs.Tunnel.IsZero() && okD:
		r.missingTunnel(s, rs, at("tunnel"))
	case s.Forward != "tunnel" && !rs.Tunnel.IsZero():
		r.fail(s.Noun, at("tunnel"), rs.Range, "Tunnel not used", `Leave tunnel out, or write forward = "tunnel".`, "%s forwards by %s.", s.Noun, s.Forward)
	case s.Forward == "direct" && ok && okD && !share(director, backend) && !r.d.noun(director.Noun) && !r.d.noun(backend.Noun):
		r.fail(s.Noun, at("backends"), rs.Range, "No common network", `Put both on one network, or use forward = "tunnel".`,
			"Direct forwarding rewrites the MAC address only; %s and %s share no network.", s.Director, rs.Backend)
	}
}

// ports: tunnel and direct forwarding deliver to the port that the client
// asked for, whatever the real server's entry says (measured, EXP-B15).
func (r *rules) ports(s Service, rs RealServer, arg string) {
	switch {
	case r.d.arg(s.Noun, "port"):
	case s.Forward != "masquerade" && rs.Port != s.Port:
		r.fail(s.Noun, arg, rs.Range, "Ports differ", fmt.Sprintf("Use port %d on both sides.", namedPort),
			"%s listens on port %d and sends %s to port %d, but forwarding by %s cannot change the port: packets arrive at %d.", s.Noun, s.Port, rs.Backend, rs.Port, s.Forward, s.Port)
	case rs.Port != namedPort:
		r.fail(s.Noun, arg, rs.Range, "Nobody listens there", fmt.Sprintf("Use port %d.", namedPort), "%s sends packets to port %d of %s, where its name server answers on %d.", s.Noun, rs.Port, rs.Backend, namedPort)
	}
}

// realServerArg finds the block that made the i-th real server: its arguments
// stand behind its header and before the next one.
func (r *rules) realServerArg(s Service, i int, arg string) string {
	for block := 0; ; block++ {
		at, ok := r.t.Places[fmt.Sprintf("%s/real_server[%d].backends", s.Noun, block)]
		if !ok {
			return ""
		}
		if at.Start.Byte >= s.RealServers[i].Range.Start.Byte {
			return fmt.Sprintf("real_server[%d].%s", block, arg)
		}
	}
}

func (r *rules) missingTunnel(s Service, rs RealServer, arg string) {
	for _, tun := range r.t.Tunnels {
		if r.d.noun(tun.Noun) {
			return // it may be the one
		}
	}
	for _, tun := range r.t.Tunnels {
		if tun.From == s.Director && tun.To == rs.Backend {
			r.fail(s.Noun, arg, rs.Range, "Tunnel missing", fmt.Sprintf("Add tunnel = %s to the real_server.", tun.Noun.Block()),
				"%s forwards by tunnel, but its real_server with %s names none that leads there.", s.Noun, rs.Backend)
			return
		}
	}
	r.fail(s.Noun, arg, rs.Range, "Tunnel missing", fmt.Sprintf("Declare one: tunnel \"NAME\" { from = %s, to = %s }, and name it in the real_server.", s.Director, rs.Backend.Block()),
		"%s forwards by tunnel, but no tunnel leads from %s to %s.", s.Noun, s.Director, rs.Backend)
}

// timeouts: the kernel keeps one set for each network namespace.
func (r *rules) timeouts() {
	type slot struct {
		director addr.Noun
		name     string
	}
	first := map[slot]Service{}
	get := func(s Service, name string) time.Duration {
		switch name {
		case "tcp":
			return s.Timeouts.TCP
		case "tcp_fin":
			return s.Timeouts.TCPFin
		}
		return s.Timeouts.UDP
	}
	for _, s := range r.t.Services {
		if r.d.arg(s.Noun, "director", "timeout") {
			continue
		}
		for _, name := range []string{"tcp", "tcp_fin", "udp"} {
			d := get(s, name)
			if d == 0 {
				continue
			}
			o, taken := first[slot{s.Director, name}]
			if taken && get(o, name) != d {
				r.fail(s.Noun, "timeout", s.Range, "Timeouts disagree", "Give both the same, or use another director.",
					"%s sets %s to %s and %s to %s; both are on %s, whose kernel keeps one for all services.", s.Noun, name, d, o.Noun, get(o, name), s.Director)
			}
			if !taken {
				first[slot{s.Director, name}] = s
			}
		}
	}
}
