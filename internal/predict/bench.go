package predict

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/replay"
)

// bench is a run on the model: services, and load generators that ask.
type bench struct {
	services  []proto.IPVSService
	sysctls   map[string]string // full names
	setting   experiment.Setting
	processes []process
	backends  []netip.Addr // declared order
	impaired  bool         // the way to the director loses, copies or reorders
	kernel    ipvsmodel.Kernel
	forgetful bool // a router may give a flow another source port while it goes on
}

// process is one load generator: it walks its sockets in turn, a query each.
type process struct {
	client  netip.Addr // as the director sees it
	vip     netip.AddrPort
	queries int
	sockets int
	gap     time.Duration // between its queries
	ports   []uint16      // of its sockets; nil = the client's kernel draws them
}

// opened is the number of sockets that carry something. All TCP connections are
// made before the first query.
func (p process) opened(protocol string) int {
	if protocol == "tcp" {
		return p.sockets
	}
	return min(p.sockets, p.queries)
}

// closedLoop is the time that a query is taken to last when nothing paces the
// load. Only that it is short beside the timeouts matters.
const closedLoop = 100 * time.Microsecond

// processes are those that internal/load starts: for each client one for each
// pair of its addresses and the VIPs.
func processes(t *lang.Topology, e lang.Experiment, svc lang.Service, s experiment.Setting) ([]process, error) {
	var out []process
	for _, n := range e.Clients[:s.Clients] {
		m, ok := t.Machine(n)
		if !ok || len(m.NICs) == 0 {
			continue
		}
		from := m.NICs[0].Addresses
		pairs := s.VIPs * len(from)
		gap := closedLoop
		if s.Rate > 0 {
			gap = time.Duration(float64(pairs) / s.Rate * float64(time.Second))
		}
		for i := range pairs {
			queries := (s.Queries - i + pairs - 1) / pairs
			if queries < 1 {
				break
			}
			p := process{
				client: from[i/s.VIPs], vip: netip.AddrPortFrom(svc.VIPs[i%s.VIPs], svc.Port),
				queries: queries, sockets: s.Sockets, gap: gap,
			}
			if s.Fresh {
				p.sockets = queries
			}
			var err error
			if p.ports, err = experiment.SourcePorts(e, s, p.client, i%s.VIPs, queries); err != nil {
				return nil, err
			}
			if seen, ok := s.Seen[p.client]; ok {
				p.client = seen
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// rotates are the schedulers whose choice depends on the ones before.
var rotates = []string{"rr", "wrr", "lc", "wlc"}

// kind says how sure the outcome of the bench is.
func (b *bench) kind() Kind {
	s := b.setting
	switch {
	case s.Scheduler == "twos":
		return Chance
	case s.Load == "" && portHashed(s):
		return Ports
	}
	switch {
	case b.impaired:
		return Path
	case b.forgetful, !s.OnePacket && s.Protocol == "udp" && b.expiring(), b.overlapping(), b.firstComers():
		return Time
	}
	depends := slices.Contains(rotates, s.Scheduler) || s.Protocol == "tcp" && slices.Contains([]string{"sed", "nq", "ovf", "lblc", "lblcr"}, s.Scheduler)
	for _, svc := range b.services {
		for _, d := range svc.Destinations {
			depends = depends || d.Upper > 0
		}
	}
	if depends && len(b.processes) > len(b.services) {
		return Order
	}
	return Exact
}

// portHashed: the source port decides.
func portHashed(s experiment.Setting) bool {
	return s.Scheduler == "sh" && slices.Contains(s.Flags, "sh-port") || s.Scheduler == "mh" && slices.Contains(s.Flags, "mh-port")
}

// overlapping: connections of one query each are open side by side for times that
// nobody knows, and the scheduler counts them.
func (b *bench) overlapping() bool {
	s := b.setting
	if !b.shortLived() || s.Mode == lang.ModeClosed && s.Window == 1 && len(b.processes) == 1 {
		return false
	}
	counts := slices.Contains([]string{"lc", "wlc", "sed", "nq", "ovf", "lblc", "lblcr"}, s.Scheduler)
	for _, svc := range b.services {
		for _, d := range svc.Destinations {
			counts = counts || d.Upper > 0
		}
	}
	return counts
}

// firstComers: a service by mark takes the least loaded for an address that it
// has not seen, so that it matters which address comes first.
func (b *bench) firstComers() bool {
	s := b.setting
	return s.Mark != 0 && s.VIPs > 1 && (s.Scheduler == "lblc" || s.Scheduler == "lblcr")
}

// shortLived: each query has a connection of its own.
func (b *bench) shortLived() bool { return b.setting.Fresh && b.setting.Protocol == "tcp" }

// expiring: an entry may or may not end while its socket rests. A load may
// stand still for as long as an answer may take, and an entry may outlive its
// timeout by a slot of the kernel's timer wheel.
func (b *bench) expiring() bool {
	timeout := b.setting.Timeouts.UDP
	for _, p := range b.processes {
		rest := time.Duration(p.sockets) * p.gap
		lives, ends := rest+b.setting.Within < timeout, rest > timeout+ipvsmodel.Late(timeout)
		if p.queries > p.sockets && !lives && !ends {
			return true
		}
	}
	return false
}

// impaired says whether what a client sends may not be what the director gets.
func impaired(t *lang.Topology, svc lang.Service, e lang.Experiment) bool {
	on := append(slices.Clone(e.Clients), svc.Director)
	for _, m := range t.Machines {
		if m.Noun.Kind == addr.Router {
			on = append(on, m.Noun)
		}
	}
	for _, n := range on {
		m, ok := t.Machine(n)
		for i := range m.NICs {
			if im := m.NICs[i].Impair; ok && im != nil && (im.Loss > 0 || im.Duplicate > 0 || im.Reorder > 0 || im.Jitter > 0 || im.RateBits > 0) {
				return true
			}
		}
	}
	return false
}

// forgetful says whether a router that makes several client addresses one keeps its
// flows by other rules than lvslab's, so that one of them may begin anew with another
// source port. The ports of lvslab's own generator are no two clients' at a time, so
// that the router has no reason to change them.
func forgetful(t *lang.Topology, s experiment.Setting) bool {
	if s.Load != "" || !shared(s) {
		return false
	}
	return slices.ContainsFunc(t.Machines, func(m lang.Machine) bool {
		if m.Masquerade.IsZero() {
			return false
		}
		for name := range m.Sysctl {
			if strings.HasPrefix(name, lang.FlowParameters) {
				return true
			}
		}
		return false
	})
}

// shared: several addresses of clients are one for the director.
func shared(s experiment.Setting) bool {
	who := map[netip.Addr]bool{}
	for _, seen := range s.Seen {
		if who[seen] {
			return true
		}
		who[seen] = true
	}
	return false
}

// model makes the services.
func (b *bench) model(seed uint64) (*ipvsmodel.Model, error) {
	return replay.Model(b.services, b.sysctls, b.kernel, seed)
}

func protocol(name string) ipvsmodel.Protocol {
	if name == "tcp" {
		return ipvsmodel.TCP
	}
	return ipvsmodel.UDP
}

// tally is what came of one run on the model.
type tally struct {
	queries, decisions []int // by backend, declared order
	unserved, sent     int
	rows               int
	hash               uint64 // of who got which query
}

// run lets the processes ask, at most limit queries. ports draws the source
// ports; nil takes them in order, for treatments that don't look at them.
func (b *bench) run(seed uint64, ports *rand.Rand, limit int) (tally, error) {
	m, err := b.model(seed)
	if err != nil {
		return tally{}, err
	}
	t := tally{queries: make([]int, len(b.backends)), decisions: make([]int, len(b.backends)), hash: 14695981039346656037}
	index := map[netip.Addr]int{}
	for i, a := range b.backends {
		index[a] = i
	}
	flows := b.flows(ports)
	note := func(d ipvsmodel.Decision) int {
		if !d.Backend.IsValid() {
			return -1
		}
		i := index[d.Backend.Addr()]
		if d.Why == ipvsmodel.ByScheduler {
			t.decisions[i]++
		}
		return i
	}
	if b.setting.Protocol == "tcp" && !b.shortLived() {
		b.connect(m, flows, note)
	}
	for k := 0; ; k++ {
		busy := false
		for p := range b.processes {
			if k >= b.processes[p].queries {
				continue
			}
			if t.sent >= limit {
				return b.end(m, t), nil
			}
			busy = true
			f := &flows[p][k%len(flows[p])]
			at := time.Duration(k) * b.processes[p].gap
			i := -1
			if b.shortLived() {
				i = b.converse(m, at, *f, note)
			} else {
				i = note(m.Packet(at, f))
			}
			t.sent++
			if i < 0 {
				t.unserved++
			} else {
				t.queries[i]++
			}
			t.hash = (t.hash ^ uint64(i+1)) * 1099511628211
		}
		if !busy {
			return b.end(m, t), nil
		}
	}
}

func (b *bench) end(m *ipvsmodel.Model, t tally) tally {
	t.rows = len(m.Entries())
	return t
}

// connect opens all TCP connections before the first query, as both generators do.
func (b *bench) connect(m *ipvsmodel.Model, flows [][]ipvsmodel.Packet, note func(ipvsmodel.Decision) int) {
	for p := range flows {
		for i := range flows[p] {
			f := flows[p][i]
			f.Flags = ipvsmodel.SYN
			note(m.Packet(0, &f))
		}
	}
}

// converse is a connection of one query: what the director sees of it is the
// client's half.
func (b *bench) converse(m *ipvsmodel.Model, at time.Duration, f ipvsmodel.Packet, note func(ipvsmodel.Decision) int) int {
	first := -1
	for k, flags := range []ipvsmodel.Flags{ipvsmodel.SYN, ipvsmodel.ACK, ipvsmodel.ACK, ipvsmodel.FIN | ipvsmodel.ACK, ipvsmodel.ACK} {
		f.Flags = flags
		i := note(m.Packet(at, &f))
		if k == 0 {
			first = i
		}
		if first < 0 {
			break // nobody takes it
		}
	}
	return first
}

// flows are the packets of each process by socket. A client never uses a port
// twice at a time.
func (b *bench) flows(ports *rand.Rand) [][]ipvsmodel.Packet {
	var out [][]ipvsmodel.Packet
	used := map[netip.AddrPort]bool{}
	next := map[netip.Addr]uint16{}
	for _, p := range b.processes {
		var mine []ipvsmodel.Packet
		for i := range p.opened(b.setting.Protocol) {
			from := netip.AddrPortFrom(p.client, firstEphemeral+next[p.client])
			next[p.client]++
			if p.ports != nil {
				from = netip.AddrPortFrom(p.client, p.ports[i])
			}
			for ports != nil && p.ports == nil {
				from = netip.AddrPortFrom(p.client, firstEphemeral+uint16(ports.IntN(ephemeral)))
				if !used[from] {
					break
				}
			}
			used[from] = true
			mine = append(mine, ipvsmodel.Packet{Client: from, VIP: p.vip, Protocol: protocol(b.setting.Protocol), Mark: b.setting.Mark, Flags: ipvsmodel.ACK})
		}
		out = append(out, mine)
	}
	return out
}
