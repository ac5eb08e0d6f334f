package experiment

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
)

// sysctlPrefix begins the names of IPVS's sysctls.
const sysctlPrefix = "net.ipv4.vs."

// pinnedSysctls are the values that every run starts with unless the director
// says otherwise: the kernel's defaults (ipvs-sysctl.rst, ip_vs_ctl.c) of what
// changes results. Step 2 of the contract needs expire_nodest_conn=1 for a
// moment; step 3 takes it back by setting these.
var pinnedSysctls = map[string]string{
	"expire_nodest_conn":        "0",
	"expire_quiescent_template": "0",
	"conn_reuse_mode":           "1",
	"run_estimation":            "1",
	"drop_entry":                "0",
	"drop_packet":               "0",
	"secure_tcp":                "0",
	"pmtu_disc":                 "1",
	"sloppy_tcp":                "0",
}

// directorSysctls are the IPVS sysctls of a director, full names.
func directorSysctls(t *lang.Topology, director addr.Noun) map[string]string {
	out := map[string]string{}
	for name, value := range pinnedSysctls {
		out[sysctlPrefix+name] = value
	}
	m, _ := t.Machine(director)
	maps.Copy(out, filterKeys(m.Sysctl, func(k string) bool { return strings.HasPrefix(k, sysctlPrefix) }))
	return out
}

func filterKeys(m map[string]string, keep func(string) bool) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		if keep(k) {
			out[k] = v
		}
	}
	return out
}

// Services are the IPVS services that a treatment's setting asks for, one for
// each VIP or one by firewall mark, destinations in the order of the kernel's list.
func Services(t *lang.Topology, svc lang.Service, s Setting) []proto.IPVSService {
	return services(t, svc, s)
}

// Sysctls are the IPVS sysctls that each run on a director starts with, by their
// full names.
func Sysctls(t *lang.Topology, director addr.Noun) map[string]string {
	return directorSysctls(t, director)
}

func services(t *lang.Topology, svc lang.Service, s Setting) []proto.IPVSService {
	base := proto.IPVSService{
		Scheduler: s.Scheduler, OnePacket: s.OnePacket, Flags: s.Flags,
		Timeouts: proto.IPVSTimeouts{
			TCP:    int(s.Timeouts.TCP / time.Second),
			TCPFin: int(s.Timeouts.TCPFin / time.Second),
			UDP:    int(s.Timeouts.UDP / time.Second),
		},
	}
	if p := svc.Persistence; p != nil {
		base.Persistence, base.Netmask = int(p.Timeout/time.Second), p.Netmask
	}
	for _, i := range s.Order {
		r := svc.RealServers[i]
		d := proto.IPVSDestination{
			Address: r.Address, Port: r.Port, Forward: svc.Forward,
			Weight: s.Weights[i], Upper: r.Upper, Lower: r.Lower,
		}
		if tun, ok := tunnelOf(t, r.Tunnel); ok {
			d.TunnelType, d.TunnelPort = tun.Type, tun.Port
			if tun.Checksum != "none" {
				d.TunnelChecksum = tun.Checksum
			}
		}
		base.Destinations = append(base.Destinations, d)
	}
	if svc.FWMark != 0 { // one for all that the director marks
		base.IPVSKey = proto.IPVSKey{FWMark: svc.FWMark, IPv6: len(svc.VIPs) > 0 && svc.VIPs[0].Is6()}
		return []proto.IPVSService{base}
	}
	var out []proto.IPVSService
	for _, vip := range svc.VIPs[:min(s.VIPs, len(svc.VIPs))] {
		one := base
		one.IPVSKey = proto.IPVSKey{Protocol: s.Protocol, VIP: vip, Port: svc.Port}
		one.Destinations = slices.Clone(base.Destinations)
		out = append(out, one)
	}
	return out
}

func tunnelOf(t *lang.Topology, n addr.Noun) (lang.Tunnel, bool) {
	for _, tun := range t.Tunnels {
		if tun.Noun == n {
			return tun, true
		}
	}
	return lang.Tunnel{}, false
}

// declaredServices are all services of a director as the topology wants them.
func declaredServices(t *lang.Topology, director addr.Noun) []proto.IPVSService {
	var out []proto.IPVSService
	for _, svc := range t.Services {
		if svc.Director == director {
			s := declaredSetting(t, svc, lang.Experiment{})
			out = append(out, services(t, svc, s)...)
		}
	}
	return out
}

// withNeighbours adds the director's other services to those of a run: the
// clean slate of step 2 takes them away too, and whoever uses them meanwhile
// should find them. A service of the run wins over one with the same key.
func withNeighbours(t *lang.Topology, svc lang.Service, run []proto.IPVSService) []proto.IPVSService {
	out := slices.Clone(run)
	for _, other := range t.Services {
		if other.Director != svc.Director || other.Noun == svc.Noun {
			continue
		}
		s := declaredSetting(t, other, lang.Experiment{})
		s.Timeouts = lang.Timeouts{} // of the whole namespace: the run decides
		for _, o := range services(t, other, s) {
			if !slices.ContainsFunc(run, func(r proto.IPVSService) bool { return r.IPVSKey == o.IPVSKey }) {
				out = append(out, o)
			}
		}
	}
	return out
}

// differences says in words what of want did not come true in got. Services
// that nobody asked for are named as well.
func differences(want, got []proto.IPVSService) []string {
	var out []string
	found := map[proto.IPVSKey]proto.IPVSService{}
	for _, g := range got {
		found[g.IPVSKey] = g
	}
	for _, w := range want {
		g, ok := found[w.IPVSKey]
		if !ok {
			out = append(out, keyText(w.IPVSKey)+" does not exist")
			continue
		}
		delete(found, w.IPVSKey)
		for _, d := range differencesOf(w, g) {
			out = append(out, keyText(w.IPVSKey)+" "+d)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(found), func(a, b proto.IPVSKey) int { return strings.Compare(keyText(a), keyText(b)) }) {
		out = append(out, keyText(key)+" exists, and nobody asked for it")
	}
	return out
}

func differencesOf(w, g proto.IPVSService) []string {
	var out []string
	add := func(what string, want, got any) {
		out = append(out, fmt.Sprintf("has %s %v, not %v", what, got, want))
	}
	if w.Scheduler != g.Scheduler {
		add("scheduler", w.Scheduler, g.Scheduler)
	}
	if w.OnePacket != g.OnePacket {
		add("one_packet", w.OnePacket, g.OnePacket)
	}
	if !slices.Equal(sorted(w.Flags), sorted(g.Flags)) {
		add("flags", w.Flags, g.Flags)
	}
	if w.Persistence != g.Persistence {
		add("persistence", w.Persistence, g.Persistence)
	}
	if w.Timeouts != (proto.IPVSTimeouts{}) && w.Timeouts != g.Timeouts {
		add("timeouts", w.Timeouts, g.Timeouts)
	}
	if want, got := destinationsText(w), destinationsText(g); want != got {
		add("destinations", want, got)
	}
	for _, d := range g.Destinations {
		if d.Active != 0 || d.Inactive != 0 || d.Persistent != 0 {
			out = append(out, fmt.Sprintf("has entries before the load: %s holds %d active, %d inactive, %d persistent",
				d.Address, d.Active, d.Inactive, d.Persistent))
		}
	}
	return out
}

// destinationsText writes a destination list with its weights, head first.
func destinationsText(s proto.IPVSService) string {
	var parts []string
	for _, d := range s.Destinations {
		parts = append(parts, fmt.Sprintf("%s weight %d %s", netip.AddrPortFrom(d.Address, d.Port), d.Weight, d.Forward))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func keyText(k proto.IPVSKey) string {
	if k.FWMark != 0 {
		return fmt.Sprintf("service fwmark %d", k.FWMark)
	}
	return fmt.Sprintf("service %s %s", k.Protocol, netip.AddrPortFrom(k.VIP, k.Port))
}
