package lang

import (
	"fmt"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/lvslab/lvslab/internal/addr"
)

// Schedulers are those of IPVS (net/netfilter/ipvs/Kconfig of Linux 6.12). The
// built-in image's kernel has all but laterScheduler; what the kernel of another
// image has is known when it is built or boots.
var Schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh", laterScheduler}

// laterScheduler is built by Debian from 6.11 on.
const laterScheduler = "twos"

// ServiceFlags are the scheduler flags of a service.
var ServiceFlags = []string{"sh-port", "sh-fallback", "mh-port", "mh-fallback"}

// maxWeight is what libraries read back as 16 bits; the kernel takes more.
const maxWeight = 65535

// maxTimeout is the longest IPVS timeout: the kernel counts it in ticks of an
// int, 2^31 at 1,000 a second.
const maxTimeout = 2147483 * time.Second

func (e *evaluator) service(t *Topology, b *block, inst *instance) Service {
	r := e.reader(b, inst)
	s := Service{
		Noun: r.noun, Range: b.rng, Director: r.handle("director", addr.Director), VIPs: e.vips(b, inst),
		Port:      uint16(r.whole("port", defaultPort, 1, 65535)),
		Protocol:  r.oneOf("protocol", defaultProtocol, "udp", "tcp"),
		Scheduler: r.scheduler("scheduler"), OnePacket: r.flag("one_packet", false), Flags: r.someOf("flags", ServiceFlags),
		Timeouts: r.timeouts(), Forward: r.oneOf("forward", defaultForward, "tunnel", "direct", "masquerade"),
		FWMark: uint32(r.whole("fwmark", 0, 1, 1<<32-1)),
	}
	if len(s.VIPs) == 0 && b.args["vip"] == nil && b.args["vips"] == nil {
		r.complain("", "Argument missing", "Add vip = … to the block.", `%s needs the argument "vip".`, r.noun)
	} else if len(s.VIPs) == 0 && b.args["vips"] != nil && !e.defects.arg(r.noun, "vips") {
		r.complain("vips", "No address", "Give at least one.", "vips of %s is empty.", r.noun)
	}
	for i, pb := range b.sub("persistence") {
		pr, longest := r.sub(pb, i), int64(32)
		if s.v6() {
			longest = 128
		}
		s.Persistence = &Persistence{Timeout: pr.seconds("timeout", 300*time.Second), Netmask: int(pr.whole("netmask", longest, 1, longest))}
	}
	for i, rb := range b.sub("real_server") {
		s.RealServers = append(s.RealServers, e.realServers(t, r.sub(rb, i), s)...)
	}
	return s
}

// v6 reports whether a service is one of IPv6; all its VIPs are, or none.
func (s Service) v6() bool { return len(s.VIPs) > 0 && s.VIPs[0].Is6() }

// realServers reads one real_server block: one entry for each of its machines.
func (e *evaluator) realServers(t *Topology, r *reader, s Service) []RealServer {
	machines := r.handles("backends", addr.Backend)
	tunnels := r.handles("tunnel", addr.Tunnel)
	like := RealServer{
		Port:   uint16(r.whole("port", int64(s.Port), 1, 65535)),
		Weight: int(r.whole("weight", 1, 0, maxWeight)),
		Upper:  int(r.whole("upper", 0, 0, 65535)), Lower: int(r.whole("lower", 0, 0, 65535)), Range: r.b.rng,
	}
	if like.Upper > 0 && like.Lower > like.Upper {
		r.complain("lower", "Thresholds crossed", "Make lower smaller than upper.", "%s has lower %d and upper %d.", r.owner("lower"), like.Lower, like.Upper)
	}
	director, _ := t.Machine(s.Director)
	leading := map[addr.Noun]Tunnel{} // from the director, by where they lead
	named := map[addr.Noun]bool{}
	for _, tn := range tunnels {
		named[tn] = true
	}
	for _, tun := range t.Tunnels {
		if named[tun.Noun] && tun.From == s.Director {
			leading[tun.To] = tun
		}
	}
	var out []RealServer
	for _, n := range machines {
		rs := like
		rs.Backend = n
		if m, ok := t.Machine(n); ok {
			_, rs.Address = t.facing(director, m, s.v6())
		}
		if tun, ok := leading[n]; ok {
			rs.Tunnel, rs.Address = tun.Noun, tun.Local
		}
		out = append(out, rs)
	}
	return out
}

func (r *reader) scheduler(arg string) string {
	s := r.text(arg, defaultScheduler)
	if summary, remedy, detail := badScheduler(s); summary != "" {
		r.complain(arg, summary, remedy, "%s of %s: %s.", arg, r.owner(arg), detail)
		return defaultScheduler
	}
	return s
}

func badScheduler(s string) (summary, remedy, detail string) {
	if slices.Contains(Schedulers, s) {
		return "", "", ""
	}
	return "Unknown scheduler", suggest(s, Schedulers, "IPVS has"), fmt.Sprintf("there is no %q", s)
}

// someOf reads a list of texts out of a closed list.
func (r *reader) someOf(arg string, allowed []string) []string {
	list := r.texts(arg)
	seen := map[string]bool{}
	for _, s := range list {
		switch {
		case !slices.Contains(allowed, s):
			r.complain(arg, "Unknown value", suggest(s, allowed, "Write"), "%s of %s cannot be %q.", arg, r.owner(arg), s)
		case seen[s]:
			r.complain(arg, "Value twice", "Remove one of the two.", "%s of %s has %q twice.", arg, r.owner(arg), s)
		}
		seen[s] = true
	}
	return list
}

// seconds reads a duration that the kernel keeps in whole seconds, 1 at least.
func (r *reader) seconds(arg string, def time.Duration) time.Duration {
	d := r.duration(arg, def, 0, maxTimeout)
	if why := badSeconds(d); why != "" {
		r.complain(arg, "Not whole seconds", `Write "1s" or more, without fractions.`, "%s of %s is %s: %s.", arg, r.owner(arg), d, why)
		return def
	}
	return d
}

func badSeconds(d time.Duration) string {
	if d < time.Second || d%time.Second != 0 {
		return "the kernel keeps it in whole seconds, 1 at least"
	}
	return ""
}

// timeouts reads timeout = { udp = "300s" }.
func (r *reader) timeouts() Timeouts {
	var out Timeouts
	if r.b.args["timeout"] == nil {
		return out
	}
	res := r.raw("timeout")
	if !res.ok || !r.e.known(res, "timeout of "+r.owner("timeout")) {
		r.fail("timeout")
		return out
	}
	v, _ := res.val.UnmarkDeep()
	if v.IsNull() {
		return out
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		r.complain("timeout", "Wrong type", `Write timeout = { udp = "300s" }.`, "timeout of %s is %s.", r.owner("timeout"), render(v))
		return out
	}
	fields := v.AsValueMap()
	for _, k := range sortedKeys(fields) {
		slot := map[string]*time.Duration{"tcp": &out.TCP, "tcp_fin": &out.TCPFin, "udp": &out.UDP}[k]
		if slot == nil {
			r.complain("timeout", "Unknown attribute", suggest(k, []string{"tcp", "tcp_fin", "udp"}, "It has"), "timeout of %s has %q.", r.owner("timeout"), k)
			continue
		}
		*slot = r.timeoutField(k, fields[k])
	}
	return out
}

func (r *reader) timeoutField(name string, v cty.Value) time.Duration {
	if v.IsNull() {
		return 0
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		r.complain("timeout", "Wrong type", `Write a duration: "300s".`, "%s in timeout of %s is %s.", name, r.owner("timeout"), render(v))
		return 0
	}
	d, why := parseDuration(s.AsString(), 0, maxTimeout)
	if why == "" {
		why = badSeconds(d)
	}
	if why != "" {
		r.complain("timeout", "Not a timeout", `Write whole seconds with their unit: "300s".`, "%s in timeout of %s is %q: %s.", name, r.owner("timeout"), s.AsString(), why)
		return 0
	}
	return d
}
