package sighting

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
)

// Ways of forwarding, as in the language.
const (
	forwardTunnel     = "tunnel"
	forwardMasquerade = "masquerade"
)

// Path joins what was seen of one query and names what it was not meant to be.
func (s *Seen) Path(a Asked) Path {
	f := s.flow(a)
	p := Path{Service: a.Service.String(), Client: a.Client.String(), VIP: a.VIP, Director: a.Director.String(), Backend: a.Backend.String(),
		Forward: a.Forward, Port: a.ClientPort, Defects: []Defect{}, Hops: []Hop{}}
	way, whole := f.trace()
	for _, one := range way {
		p.Hops = append(p.Hops, f.hop(one))
	}
	p.Whole = whole
	f.outer(&p)
	f.back(&p, whole)
	j := judge{f, &p}
	j.encapsulation()
	j.theft()
	j.sources()
	j.fragments()
	j.tooBig()
	return p
}

func (f *flow) hop(one *sight) Hop {
	h := Hop{Node: one.frame.Node.String(), Device: one.frame.Device, Network: f.seen.network(one.frame.Node, one.frame.Device),
		Direction: "in", Leg: f.asked.leg(one.packet), Time: one.frame.Time.UTC(), SourceMAC: one.packet.SourceMAC,
		DestinationMAC: one.packet.DestinationMAC, Length: one.frame.Length, Headers: one.packet.Headers,
		SourcePort: one.packet.SourcePort, DestPort: one.packet.DestPort}
	if one.frame.Out {
		h.Direction = "out"
	}
	return h
}

// forwarded is the query as the director sent it on, or as the backend received it
// where the director's own frame was not seen; nil without either.
func (f *flow) forwarded() *sight {
	var out *sight
	f.each(Query, func(one *sight) {
		switch {
		case one.frame.Node == f.asked.Director && one.frame.Out:
			out = one
		case one.frame.Node == f.asked.Backend && !one.frame.Out && out == nil:
			out = one
		}
	})
	return out
}

// outer fills in what was wrapped around the query behind the director.
func (f *flow) outer(p *Path) {
	one := f.forwarded()
	if one == nil {
		return
	}
	headers := one.packet.Headers
	p.Encapsulations = len(headers) - 1
	if p.Encapsulations > 0 {
		p.Tunnel, p.OuterSource, p.OuterDestination = headers[0].Carries, headers[0].Source, headers[0].Destination
	}
}

// back fills in how the answer came to the client.
func (f *flow) back(p *Path, whole bool) {
	p.StraightBack = whole
	f.each(Answer, func(one *sight) {
		if one.frame.Node == f.asked.Client && !one.frame.Out {
			p.Source = one.packet.Inner().Source
		}
		if one.frame.Node == f.asked.Director {
			p.StraightBack = false
		}
	})
}

type judge struct {
	*flow
	path *Path
}

// found adds a defect, the first of each name.
func (j judge) found(name string, node addr.Noun, format string, args ...any) {
	if !j.path.Has(name) {
		who := "no machine of the lab"
		if !node.IsZero() {
			who = node.String()
		}
		j.path.Defects = append(j.path.Defects, Defect{name, who, fmt.Sprintf(format, args...)})
	}
}

// encapsulation compares the headers behind the director with those asked for.
func (j judge) encapsulation() {
	a := j.asked
	j.each(Query, func(one *sight) {
		if n := len(one.packet.Headers) - 1; n > 1 {
			j.found(DoubleEncapsulation, one.frame.Node, "%d headers were wrapped around the query one in another: %s.", n, chain(one.packet.Headers))
		}
	})
	one := j.forwarded()
	if one == nil || j.path.Encapsulations > 1 {
		return
	}
	outer := one.packet.Headers[0]
	switch {
	case j.path.Tunnel != a.Tunnel:
		j.found(OtherTunnel, a.Director, "The query went to %s %s; asked for was one %s.", a.Backend, wrapped(j.path.Tunnel), wrapped(a.Tunnel))
	case a.Tunnel != "" && (outer.Source != a.OuterSource || outer.Destination != a.OuterDestination):
		j.found(OtherTunnel, a.Director, "The outer header of the query says %s → %s, and %s → %s was asked for.",
			outer.Source, outer.Destination, a.OuterSource, a.OuterDestination)
	}
}

func wrapped(tunnel string) string {
	if tunnel == "" {
		return "without an outer header"
	}
	return "in " + tunnel
}

// chain shows headers one in another.
func chain(headers []Header) string {
	text := ""
	for _, h := range headers {
		text += fmt.Sprintf("%s → %s", h.Source, h.Destination)
		if h.Carries != "" {
			text += " (" + h.Carries + "), "
		}
	}
	return text
}

// theft looks for somebody else than the director who takes, or says to have, the
// VIP: queries that do not come from the director may go to it and to routers only.
func (j judge) theft() {
	a := j.asked
	for _, one := range j.seen.claims {
		if by := j.seen.owner(one.packet.ClaimMAC); one.packet.Claims == a.VIP && by != a.Director {
			j.found(ARPTheft, by, "%s (%s) was heard to say that it has %s; the VIP is %s's.", name(by), one.packet.ClaimMAC, a.VIP, a.Director)
		}
	}
	j.each(Query, func(one *sight) {
		from, to := j.seen.owner(one.packet.SourceMAC), j.seen.owner(one.packet.DestinationMAC)
		if len(one.packet.Headers) == 1 && one.packet.Inner().Destination == a.VIP && from != a.Director && to != a.Director && to.Kind != addr.Router {
			j.found(ARPTheft, to, "The query to %s went to %s (%s) before the director had it.", a.VIP, name(to), one.packet.DestinationMAC)
		}
	})
}

func name(n addr.Noun) string {
	if n.IsZero() {
		return "a machine that is not the lab's"
	}
	return n.String()
}

// sources looks at where answers come from, and at the way that they take: behind a
// tunnel and direct routing the backend answers as the VIP and past the director.
func (j judge) sources() {
	a := j.asked
	want := netip.AddrPortFrom(a.VIP, a.Port)
	j.each(Answer, func(one *sight) {
		if one.frame.Node == a.Director && a.Forward != forwardMasquerade {
			j.found(ThroughDirector, a.Director, "The answer of %s came to the director on %s; behind %s it goes straight back to the client.",
				a.Backend, one.frame.Device, forwarding(a.Forward))
		}
		backend := one.frame.Node == a.Backend && a.Forward != forwardMasquerade
		client := one.frame.Node == a.Client && !one.frame.Out
		if got := one.packet.Source(); (backend || client) && got != want {
			j.found(WrongSource, a.Backend, "The answer came from %s, and %s was asked.", got, want)
		}
	})
}

func forwarding(how string) string {
	if how == forwardTunnel {
		return "a tunnel"
	}
	return "direct routing"
}

func (j judge) fragments() {
	for _, leg := range []string{Query, Answer} {
		j.each(leg, func(one *sight) {
			if slices.ContainsFunc(one.packet.Headers, func(h Header) bool { return h.Fragment }) {
				j.path.Fragmented = true
				j.found(Fragmented, one.frame.Node, "The %s was seen in fragments on %s.", leg, one.frame.Device)
			}
		})
	}
}

// tooBig looks for the message that a packet of this path did not fit: about the
// query or the answer, or about an outer header when nothing more is quoted.
func (j judge) tooBig() {
	for _, n := range nodes(j.seen.sights) {
		for _, one := range j.seen.sights[n] {
			about := one.packet.About
			if !one.packet.TooBig || about == nil || len(about.Headers) == 0 {
				continue
			}
			outer := about.Headers[0]
			if j.asked.leg(about) == "" && !(about.Transport == "" && j.asked.Tunnel != "" && outer.Source == j.asked.OuterSource && outer.Destination == j.asked.OuterDestination) {
				continue
			}
			j.found(TooBig, j.seen.owner(one.packet.SourceMAC), "%s says that a packet to %s did not fit (ICMP \"too big\").", one.packet.Inner().Source, about.Inner().Destination)
		}
	}
}
