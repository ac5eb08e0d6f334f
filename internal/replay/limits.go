package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

var (
	// loaded are the schedulers that compare entries, of every kind.
	loaded = []string{"lc", "wlc", "lblc", "lblcr", "twos"}
	// busy are those that count active connections, which TCP alone has.
	busy = []string{"sed", "nq", "ovf"}
	// hashing are those that look at the packet alone.
	hashing = []string{"dh", "sh", "mh"}
	// defences are the sysctls by which IPVS drops what it would send on.
	defences = []string{"drop_entry", "drop_packet", "secure_tcp"}
)

// judge says what can be compared before anything is replayed.
func (t *track) judge() {
	none := func(text string) { t.out = unknown(text) }
	switch {
	case len(t.in.Before) == 0:
		none("no service was read back")
		return
	case len(t.in.Packets) == 0:
		none("no packet was captured")
		return
	}
	for _, name := range defences {
		if v := t.in.Sysctl[sysctlPrefix+name]; v != "" && v != "0" {
			none(name + " is on, which the model does not hold")
			return
		}
	}
	for _, s := range t.in.Before {
		switch {
		case s.Scheduler == "twos":
			none("twos draws at random")
		case slices.ContainsFunc(s.Destinations, func(d proto.IPVSDestination) bool { return d.Forward == "masquerade" }) && t.in.tcp():
			none("masquerade: the director sees the answers, which move TCP's states and are not in the packets")
		case t.in.Clients > 1:
			t.between(s)
		}
		if t.out.Scope == None {
			return
		}
	}
}

// between says what is left when several clients send: their clocks differ, so
// that the order between them is not known. Without persistence each decision
// of a scheduler that does not look at the packet depends on those before only,
// whoever they were for: then the counts are the same in any order.
func (t *track) between(s proto.IPVSService) {
	const why = "the order between clients is not known"
	limited := slices.ContainsFunc(s.Destinations, func(d proto.IPVSDestination) bool { return d.Upper > 0 })
	hash := slices.Contains(hashing, s.Scheduler)
	// One by mark shares one choice for all its addresses; who is there first
	// decides what the others find.
	shared := s.FWMark != 0 && (s.Scheduler == "lblc" || s.Scheduler == "lblcr")
	moving := shared || t.in.tcp() && (slices.Contains(loaded, s.Scheduler) || slices.Contains(busy, s.Scheduler))
	switch {
	case hash && !limited && s.Persistence == 0:
	case s.Persistence > 0, hash, moving, limited && t.in.tcp():
		t.out = unknown(why + ", and the counts depend on it")
	case t.out.Scope == Packets:
		t.out.Scope, t.out.Limits = Counts, []string{why}
	}
}

// clockSlack is how far the director's clock, which ends entries, may be from
// the client's over the length of a rest, and the path's delay with it.
const clockSlack = 100 * time.Millisecond

// doubts are the reasons, found while replaying, why the model's word is worth
// nothing: the director saw other packets, or an entry may or may not have ended.
func (t *track) doubts() []string {
	var out []string
	_, packets := t.counted()
	if n := len(t.in.Packets); packets != n && packets != t.served {
		out = append(out, fmt.Sprintf("IPVS counted %d packets, the captures have %d", packets, n))
	}
	if t.onePacket() {
		return out
	}
	if t.expired && slices.ContainsFunc(t.in.Before, func(s proto.IPVSService) bool {
		return slices.Contains(loaded, s.Scheduler) || t.in.tcp() && slices.Contains(busy, s.Scheduler)
	}) {
		out = append(out, "entries ended during the load, each up to a slot of the timer wheel late")
	}
	if p := t.uncertainRest(); p != nil {
		out = append(out, fmt.Sprintf("port %d rested about as long as an entry lives", p.Client.Port()))
	}
	return out
}

// uncertainRest finds a packet of UDP before which its flow rested about as
// long as its entry lives.
func (t *track) uncertainRest() *Packet {
	timeout := seconds(t.in.Before[0].Timeouts.UDP)
	if t.in.tcp() || timeout == 0 {
		return nil
	}
	last := map[[2]netip.AddrPort]time.Time{}
	for i := range t.in.Packets {
		p := &t.in.Packets[i]
		k := [2]netip.AddrPort{p.Client, p.VIP}
		if before, ok := last[k]; ok {
			if rest := p.Time.Sub(before); rest > timeout-clockSlack && rest < timeout+ipvsmodel.Late(timeout)+clockSlack {
				return p
			}
		}
		last[k] = p.Time
	}
	return nil
}

// counted is what IPVS counted: connections by the destination's address, and
// packets in all.
func (t *track) counted() (conns map[netip.Addr]int, packets int) {
	conns = map[netip.Addr]int{}
	add := func(list []proto.IPVSService, sign int) {
		for _, s := range list {
			for _, d := range s.Destinations {
				conns[d.Address] += sign * int(d.Stats.Conns)
				packets += sign * int(d.Stats.InPackets)
			}
		}
	}
	add(t.in.After, 1)
	add(t.in.Before, -1)
	return conns, packets
}
