package replay

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// Scope is how much of a run is compared.
type Scope string

// The scopes.
const (
	// None: the model has no word on the run; the limits say why.
	None Scope = "none"
	// Counts: the connections of each backend. The order between several
	// clients is not known, and so it is not known whose they are.
	Counts Scope = "counts"
	// Packets: everything, each packet by itself.
	Packets Scope = "packets"
)

// Input is the raw data of a run. Lists of services hold those of the run only.
type Input struct {
	Kernel  string // of the director, uname -r; for the words alone
	Before  []proto.IPVSService
	After   []proto.IPVSService
	Sysctl  map[string]string // by full name
	Packets []Packet          // of all clients, by time
	Clients int               // machines, each with a clock of its own
	Conns   []proto.IPVSConn  // those of the run's services
	Names   map[netip.Addr]string
	// Seen are the clients' addresses in whose place the director sees others; the
	// packets have those that the clients gave them.
	Seen map[netip.Addr]netip.Addr

	rewritten string // why the ports of some packets are not those that the director saw
}

// Packet is one packet that a client sent to a VIP.
type Packet struct {
	N           int // of the query in queries.csv, of the row in packets.csv
	Time        time.Time
	Client, VIP netip.AddrPort
	Protocol    string // udp or tcp
	Flags       ipvsmodel.Flags
	// Backend is the machine whose answer came, "" when that is not known.
	Backend string

	// Own is the client's address where NAT shows the director another one.
	Own netip.Addr
}

// Result is what the model says, and whether the kernel did the same.
type Result struct {
	Scope  Scope
	Limits []string // why not everything is compared, in words
	// Backends are the model's counts by the destination's address, summed over
	// the VIPs; nil with [None].
	Backends map[netip.Addr]Count
	// Rows is how many rows of the table were compared, nil when none could be;
	// RowsDiffer how many of them the kernel or the model has otherwise.
	Rows, RowsDiffer *int
	// Differs is the first thing that the kernel did otherwise, "" without one.
	Differs string
	// Script lets the events up to there happen again, for the model or a
	// kernel; nil when nothing differs.
	Script []byte
}

// Count is what one backend gets.
type Count struct {
	Conns int
	// Packets is nil where the order between clients decides.
	Packets *int
}

// Run replays a run. Over TCP the schedulers that compare loads have two
// formulas, by the kernel's age, which its name does not tell: a kernel that
// did as one of them says differs from nothing.
//
// IPv6 is replayed by what the schedulers see of an address, see [ipvsmodel.Fold].
func Run(in Input) Result {
	in, rewritten := translate(in)
	if rewritten != "" && hashesPorts(in) {
		return unknown(rewritten)
	}
	folded, real, err := fold(in)
	if err != nil {
		return unknown(err.Error())
	}
	folded.rewritten = rewritten
	return real.unfold(replay(folded))
}

func replay(in Input) Result {
	out := run(in, ipvsmodel.Kernel{})
	if out.Differs != "" && in.tcp() && slices.ContainsFunc(in.Before, func(s proto.IPVSService) bool { return slices.Contains(loaded, s.Scheduler) }) {
		if old := run(in, ipvsmodel.Kernel{Before2026: true}); old.Differs == "" {
			return old
		}
	}
	return out
}

// tcp: the load of a run is of one protocol, whatever its service would take.
func (in *Input) tcp() bool { return len(in.Packets) > 0 && in.Packets[0].Protocol == "tcp" }

// mark is what the director puts on the packets, 0 without a service by mark.
func (in *Input) mark() uint32 {
	if len(in.Before) > 0 {
		return in.Before[0].FWMark
	}
	return 0
}

// track is one replay.
type track struct {
	in        *Input
	kernel    ipvsmodel.Kernel
	model     *ipvsmodel.Model
	out       Result
	decisions []ipvsmodel.Decision // by packet
	served    int
	expired   bool // an entry ended before the last packet
	rowText   string
}

func run(in Input, k ipvsmodel.Kernel) Result {
	t := &track{in: &in, kernel: k, out: Result{Scope: Packets}}
	t.judge()
	if t.out.Scope == None {
		return t.out
	}
	var err error
	if t.model, err = Model(in.Before, in.Sysctl, k, 1); err != nil {
		return unknown(err.Error())
	}
	t.feed()
	if limits := t.doubts(); len(limits) > 0 {
		return unknown(limits...)
	}
	t.count()
	first := t.firstPacket()
	switch {
	case in.rewritten != "":
		t.out.Limits = append(t.out.Limits, in.rewritten)
	case t.out.Scope == Packets && first == nil:
		t.rows()
	}
	t.conclude(first)
	return t.out
}

func unknown(limits ...string) Result { return Result{Scope: None, Limits: limits} }

// feed lets the packets arrive.
func (t *track) feed() {
	for i := range t.in.Packets {
		p := &t.in.Packets[i]
		proto := ipvsmodel.UDP
		if p.Protocol == "tcp" {
			proto = ipvsmodel.TCP
		}
		at := p.Time.Sub(t.in.Packets[0].Time)
		live := t.model.Live()
		t.model.Advance(at)
		t.expired = t.expired || t.model.Live() < live
		d := t.model.Packet(at, &ipvsmodel.Packet{Client: p.Client, VIP: p.VIP, Protocol: proto, Mark: t.in.mark(), Flags: p.Flags})
		if d.Backend.IsValid() {
			t.served++
		}
		t.decisions = append(t.decisions, d)
	}
}

// count adds up what the model has given to each backend.
func (t *track) count() {
	t.out.Backends = map[netip.Addr]Count{}
	packets := t.out.Scope == Packets || t.onePacket()
	for _, s := range t.in.Before {
		list, err := t.model.Counts(keyOf(s))
		if err != nil {
			continue // the model was made from this list
		}
		for _, c := range list {
			b := t.out.Backends[c.Address.Addr()]
			b.Conns += int(c.Connections)
			if packets {
				n := int(c.Packets)
				if b.Packets != nil {
					n += *b.Packets
				}
				b.Packets = &n
			}
			t.out.Backends[c.Address.Addr()] = b
		}
	}
}

func (t *track) onePacket() bool {
	return !t.in.tcp() && !slices.ContainsFunc(t.in.Before, func(s proto.IPVSService) bool { return !s.OnePacket })
}
