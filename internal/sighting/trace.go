package sighting

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
)

// Card is a network card of the lab.
type Card struct {
	Node    addr.Noun
	Device  string
	Network string
	MAC     string // lower case with colons
}

// Asked is one query that was answered, and the way that it was meant to go.
type Asked struct {
	Service, Client, Director, Backend addr.Noun
	// ClientPort is the query's source port; ClientAddresses are the client's own
	// address, and then those in whose place others see it.
	ClientPort      uint16
	ClientAddresses []netip.Addr
	VIP             netip.Addr
	Port            uint16         // of the service
	Real            netip.AddrPort // of the real server
	TCP             bool

	Forward string // tunnel, direct or masquerade
	// Tunnel is the encapsulation that was asked for, with its outer addresses from
	// the director to the backend; "" without one.
	Tunnel                        string
	OuterSource, OuterDestination netip.Addr

	// ends are the addresses and ports that the client was seen with, once they are
	// known; nil = its port under each of its addresses.
	ends []netip.AddrPort
}

// Seen is everything that the machines saw of some queries.
type Seen struct {
	cards   []Card
	sights  map[addr.Noun][]*sight // in the order of the machine's clock
	claims  []*sight
	dropped map[addr.Noun]uint64
}

// sight is a decoded frame.
type sight struct {
	frame  Frame
	packet *Packet
}

// Read decodes the frames. guePorts are the UDP ports of the lab's GUE tunnels;
// dropped are frames that a machine saw and could not keep.
func Read(cards []Card, frames []Frame, guePorts []uint16, dropped map[addr.Noun]uint64) *Seen {
	s := &Seen{cards: cards, sights: map[addr.Noun][]*sight{}, dropped: dropped}
	for _, f := range frames {
		p, ok := Decode(f.Bytes, guePorts)
		if !ok {
			continue
		}
		one := &sight{f, p}
		if p.Claims.IsValid() {
			s.claims = append(s.claims, one)
			continue
		}
		s.sights[f.Node] = append(s.sights[f.Node], one)
	}
	for _, list := range s.sights {
		slices.SortStableFunc(list, func(a, b *sight) int { return a.frame.Time.Compare(b.frame.Time) })
	}
	return s
}

// owner is the machine with a MAC, the zero noun for none.
func (s *Seen) owner(mac string) addr.Noun {
	for _, c := range s.cards {
		if c.MAC == mac {
			return c.Node
		}
	}
	return addr.Noun{}
}

func (s *Seen) network(n addr.Noun, device string) string {
	for _, c := range s.cards {
		if c.Node == n && c.Device == device {
			return c.Network
		}
	}
	return ""
}

// leg is what a packet is for the query: the query, its answer, or "" for neither.
func (a Asked) leg(p *Packet) string {
	transport := "udp"
	if a.TCP {
		transport = "tcp"
	}
	if p.Transport != transport {
		return ""
	}
	from, to := p.Source(), p.Destination()
	switch {
	case a.isClient(from) && (to == netip.AddrPortFrom(a.VIP, a.Port) || to == a.Real):
		return Query
	case a.isClient(to) && (from.Port() == a.Port || from.Port() == a.Real.Port()):
		return Answer
	}
	return ""
}

func (a Asked) isClient(e netip.AddrPort) bool {
	if a.ends == nil {
		return e.Port() == a.ClientPort && slices.Contains(a.ClientAddresses, e.Addr())
	}
	return slices.Contains(a.ends, e)
}

// endsOf follows a query through machines that write another source over its own, and
// returns it with the client's: what came in is the next one that goes out to the same
// destination with the same token. A port may stay or not, and one that stays may have
// been another client's before. nil when no machine was seen doing so.
func (s *Seen) endsOf(a Asked) []netip.AddrPort {
	if len(a.ClientAddresses) < 2 {
		return nil
	}
	ends := []netip.AddrPort{netip.AddrPortFrom(a.ClientAddresses[0], a.ClientPort)}
	for i := 0; i < len(ends); i++ {
		for _, n := range nodes(s.sights) {
			var in *Packet
			for _, one := range s.sights[n] {
				p, from := one.packet, one.packet.Source()
				switch {
				case !one.frame.Out && from == ends[i] && p.Token != "":
					in = p
				case in != nil && one.frame.Out && p.Token == in.Token && p.Destination() == in.Destination() && slices.Contains(a.ClientAddresses, from.Addr()):
					in = nil
					if from.Addr() != ends[i].Addr() && !slices.Contains(ends, from) {
						ends = append(ends, from)
					}
				}
			}
		}
	}
	if len(ends) == 1 {
		return nil
	}
	return ends
}

// token is that of the query as the client sent it, "" when it is not known: the last
// one of its port, for a walk that was begun again may have drawn a port twice.
func (s *Seen) token(a Asked) string {
	token := ""
	for _, one := range s.sights[a.Client] {
		if one.frame.Out && one.packet.Token != "" && a.leg(one.packet) == Query {
			token = one.packet.Token
		}
	}
	return token
}

// own reports whether a packet belongs to the query, and not to another that had the
// same port: to another VIP a client may use one again. A segment of TCP that has no
// token is known by its addresses, since it belongs to a connection that stands.
func (a Asked) own(p *Packet, token string) bool {
	leg := a.leg(p)
	switch {
	case leg == "" || token == "":
		return leg != ""
	case p.Token != "":
		return p.Token == token
	case a.TCP && leg == Answer:
		return p.Source().Addr() == a.VIP || p.Source() == a.Real
	}
	return true
}

// flow are the frames of one query and its answer, by machine.
type flow struct {
	seen  *Seen
	asked Asked
	at    map[addr.Noun][]*sight
}

func (s *Seen) flow(a Asked) *flow {
	a.ends = s.endsOf(a)
	f := &flow{s, a, map[addr.Noun][]*sight{}}
	token := s.token(a)
	for n, list := range s.sights {
		for _, one := range list {
			if a.own(one.packet, token) {
				f.at[n] = append(f.at[n], one)
			}
		}
	}
	return f
}

// each calls f for all frames of a leg.
func (f *flow) each(leg string, do func(*sight)) {
	for _, n := range nodes(f.at) {
		for _, one := range f.at[n] {
			if f.asked.leg(one.packet) == leg {
				do(one)
			}
		}
	}
}

// nodes lists machines in an order that is always the same.
func nodes(of map[addr.Noun][]*sight) []addr.Noun {
	return slices.SortedFunc(maps.Keys(of), addr.Noun.Compare)
}

// trace follows the query from the client's card: what leaves a machine is looked
// for where it arrives, what arrives is looked for where it leaves next. The whole
// way ends with the answer at the client.
func (f *flow) trace() (way []*sight, whole bool) {
	used := map[*sight]bool{}
	take := func(one *sight) {
		used[one] = true
		way = append(way, one)
	}
	cur := f.start()
	for cur != nil {
		take(cur)
		next := f.arrival(cur, used)
		if next == nil {
			return way, false
		}
		take(next)
		leg := f.asked.leg(next.packet)
		if leg == Answer && next.frame.Node == f.asked.Client {
			return way, true
		}
		if next.frame.Node.Kind == addr.Backend { // also one that has stolen the query
			leg = Answer
		}
		cur = f.departure(next, leg, used)
	}
	return way, false
}

// start is the query as the client sent it: the last one of a port over UDP, for a
// walk that was begun again may have drawn a port twice; over TCP the first segment.
func (f *flow) start() *sight {
	var out *sight
	for _, one := range f.at[f.asked.Client] {
		if one.frame.Out && f.asked.leg(one.packet) == Query && !(f.asked.TCP && out != nil) {
			out = one
		}
	}
	return out
}

// LastPort is the source port of the last query that the client was seen to send to the
// VIP, from any port; 0 when none was seen.
func (s *Seen) LastPort(a Asked) uint16 {
	port := uint16(0)
	for _, one := range s.sights[a.Client] {
		from := one.packet.Source()
		a.ends = []netip.AddrPort{from}
		if one.frame.Out && from.Addr() == a.ClientAddresses[0] && a.leg(one.packet) == Query {
			port = from.Port()
		}
	}
	return port
}

// arrival is the frame that left, at the machine that received it. Of several that
// look the same it is the last over UDP and the first over TCP, as in start.
func (f *flow) arrival(left *sight, used map[*sight]bool) *sight {
	n := f.seen.owner(left.packet.DestinationMAC)
	var out *sight
	for _, one := range f.at[n] {
		if one.frame.Out || used[one] || !same(left.packet, one.packet) || f.asked.TCP && out != nil {
			continue
		}
		out = one
	}
	return out
}

// same reports whether two machines saw the same frame. Lengths are left out: a card
// may cut segments after the frame was seen.
func same(a, b *Packet) bool {
	return a.SourceMAC == b.SourceMAC && a.DestinationMAC == b.DestinationMAC && a.SourcePort == b.SourcePort && a.DestPort == b.DestPort &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y Header) bool {
			return x.Source == y.Source && x.Destination == y.Destination && x.Carries == y.Carries && x.TTL == y.TTL
		})
}

// departure is the first frame of a leg that a machine sent after one that came in.
func (f *flow) departure(in *sight, leg string, used map[*sight]bool) *sight {
	after := false
	for _, one := range f.at[in.frame.Node] {
		if one == in {
			after = true
			continue
		}
		if after && one.frame.Out && !used[one] && f.asked.leg(one.packet) == leg {
			return one
		}
	}
	return nil
}
