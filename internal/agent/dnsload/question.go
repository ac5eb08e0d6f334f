package dnsload

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/miekg/dns"

	"github.com/lvslab/lvslab/internal/load"
)

// questions reads the lines and makes a message of each different one.
func (g *generator) questions(lines []byte) error {
	text := strings.Split(strings.TrimSpace(string(lines)), "\n")
	if len(text) < g.spec.Queries {
		return fmt.Errorf("%w: %d lines for %d queries", ErrSpec, len(text), g.spec.Queries)
	}
	made := map[string][]byte{}
	g.asked, g.packets = make([]load.Asked, g.spec.Queries), make([][]byte, g.spec.Queries)
	g.socket = make([]*socket, g.spec.Queries)
	for n := range g.asked {
		name, kind, _ := strings.Cut(text[n], " ")
		name, kind = dns.CanonicalName(name), strings.ToUpper(strings.TrimSpace(kind))
		packet := made[text[n]]
		if packet == nil {
			var err error
			if packet, err = message(name, kind, g.spec.Identify); err != nil {
				return fmt.Errorf("%w: line %d: %w", ErrSpec, n+1, err)
			}
			made[text[n]] = packet
		}
		port := g.spec.Ports[n%len(g.spec.Ports)]
		g.packets[n] = packet
		g.asked[n] = load.Asked{N: n + 1, Client: g.spec.From, Port: port, VIP: g.spec.Server.Addr(), Protocol: g.spec.Protocol, ID: uint16(n + 1), Name: name, Type: kind}
	}
	return nil
}

// message is a query as dnsperf sends it: recursion desired, id 0, without EDNS
// unless the server is to identify itself.
func message(name, kind string, identify bool) ([]byte, error) {
	t, ok := dns.StringToType[kind]
	if !ok {
		return nil, fmt.Errorf("unknown record type %q", kind)
	}
	m := new(dns.Msg)
	m.SetQuestion(name, t)
	m.Id = 0
	if identify {
		m.SetEdns0(dns.DefaultMsgSize, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID}}
	}
	return m.Pack()
}

// withID is a message of its own with an id; over TCP with its length before it
// (RFC 1035, 4.2.2).
func withID(packet []byte, id uint16, tcp bool) []byte {
	var out []byte
	if tcp {
		out = binary.BigEndian.AppendUint16(out, uint16(len(packet)))
	}
	at := len(out)
	out = append(out, packet...)
	binary.BigEndian.PutUint16(out[at:], id)
	return out
}

// identity is who an answer says that it is from, "" when it does not say.
func identity(b []byte) string {
	m := new(dns.Msg)
	if m.Unpack(b) != nil {
		return ""
	}
	return load.NSID(m)
}

// take reads a message that came to a source port. What answers no query is
// counted as strange.
func (g *generator) take(port uint16, b []byte, at time.Time) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || !h.Response {
		g.strange++
		return
	}
	q, err := p.Question()
	n, known := g.waiting[key{port, h.ID}]
	if err != nil || !known || !strings.EqualFold(q.Name.String(), g.asked[n].Name) || dns.Type(q.Type).String() != g.asked[n].Type {
		g.strange++
		return
	}
	a := &g.asked[n]
	switch {
	case a.Source.IsValid():
		a.Duplicates++
		return
	case a.Result != "" && a.Result != load.TimedOut:
		g.strange++
		return
	}
	a.Source, a.Latency, a.Rcode, a.Truncated = g.spec.Server.Addr(), at.Sub(a.Sent), load.RcodeName(int(h.RCode)), h.Truncated
	if a.Backend = g.watch.sender(port, h.ID, g.spec.Protocol == "tcp"); g.spec.Identify {
		a.Backend = identity(b)
	}
	if a.Result == load.TimedOut || a.Latency > g.within {
		if a.Result == "" {
			g.decide(n, load.TimedOut)
		}
		a.Result = load.TooLate
		return
	}
	g.decide(n, load.Answered)
}
