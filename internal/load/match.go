package load

import (
	"encoding/hex"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Outcome says what became of a query. Each query has exactly one.
type Outcome string

// The outcomes. An answer in time from the VIP is accepted by the client,
// whatever it says: that makes the first four; the others are queries without an
// accepted answer.
const (
	OK          Outcome = "ok"           // NOERROR, expected data, not truncated
	BadRcode    Outcome = "bad_rcode"    // another rcode
	Truncated   Outcome = "truncated"    // TC is set
	WrongData   Outcome = "wrong_data"   // NOERROR with other data than the zone's
	WrongSource Outcome = "wrong_source" // answered by another address only
	Late        Outcome = "late"         // answered after the time-out
	Unanswered  Outcome = "unanswered"   // no answer in the capture
)

// Accepted says whether the client took an answer.
func (o Outcome) Accepted() bool {
	return o == OK || o == BadRcode || o == Truncated || o == WrongData
}

// Query is one query and what became of it. Times are those of the capture,
// on the client's clock.
type Query struct {
	N        int // from 1, in order of sending
	Time     time.Time
	Client   netip.Addr
	Port     uint16
	VIP      netip.Addr
	Protocol string // udp or tcp
	ID       uint16
	Name     string // with final dot, lower case
	Type     string
	// NextHop is the node that the frame was sent to by its MAC, or the MAC
	// itself when no node is known by it: another one than the director means
	// that somebody else answers ARP for the VIP.
	NextHop string
	Outcome Outcome
	// What follows is of the answer that decided the outcome, and zero when
	// there was none.
	Latency     time.Duration
	Rcode       string // NOERROR
	Source      netip.Addr
	Backend     string // the node by the answer's NSID or MAC, or the MAC itself
	Duplicates  int    // further answers
	QueryBytes  int    // IP packet
	AnswerBytes int    // IP packet
}

// MatchSpec says what belongs to the run.
type MatchSpec struct {
	Clients  []netip.Addr
	VIPs     []netip.Addr
	Port     uint16
	Expected Expected      // nil = any data is right
	Timeout  time.Duration // an answer after it is late
	// Nodes are the machines by MAC, lower case with colons: backend.ns[0],
	// director.lb.
	Nodes map[string]string
	// Identities are the backends by the identity that they give of themselves
	// (NSID), for networks where the MAC of an answer is a router's. nil = the MAC
	// says who answered; else an answer without one of these is nobody's but the
	// machine's that it came from.
	Identities map[string]string
}

// Matched is what a capture at a client's NIC shows.
type Matched struct {
	Queries []Query // in order of sending
	Traffic Traffic
	// Segments are those of TCP that a client sent, in order of sending.
	Segments []Segment
	ICMP     []ICMPCount // errors about the queries that reached a client, sorted
	// Unmatched are answers to queries that are not in the capture, RepeatedQueries
	// frames that repeat a query still waiting (dnsperf never does that: the network
	// did), Undecodable messages that are not DNS.
	Unmatched, RepeatedQueries, Undecodable int
	Fragmented                              Fragmented
}

// Fragmented counts datagrams of UDP that did not fit into one packet on their way.
type Fragmented struct {
	Queries, Answers int // that were put together from
	Fragments        int // so many
	Incomplete       int // datagrams from or to the clients of which fragments are missing
}

// Traffic counts all frames between the clients and the service, TCP's own
// included. FrameBytes has the Ethernet header in and the FCS out.
type Traffic struct {
	TxPackets, RxPackets int
	TxIPBytes, RxIPBytes int64
	TxFrameBytes         int64
	RxFrameBytes         int64
}

// ICMPCount counts ICMP errors of one kind from one sender.
type ICMPCount struct {
	V6         bool
	Type, Code int
	From       netip.Addr
	Count      int
}

// TooBig reports whether it says that a packet does not fit and may not be
// fragmented: type 3 code 4 (RFC 1191), in IPv6 type 2 (RFC 4443, 3.2).
func (c ICMPCount) TooBig() bool {
	if c.V6 {
		return c.Type == 2
	}
	return c.Type == 3 && c.Code == 4
}

// Match finds the outcome of every query in a capture (pcap or pcapng,
// Ethernet) taken at the NIC of a client. A query and an answer belong together
// by protocol, client address, port, DNS id, name and type.
//
// What netem drops or delays on the client's own egress happens before the
// capture sees it, so queries lost there are not in the capture at all.
func Match(capture io.Reader, spec MatchSpec) (Matched, error) {
	m := newMatcher(spec)
	missing, err := readFrames(capture, m.frame)
	if err != nil {
		return Matched{}, err
	}
	for _, k := range missing {
		if m.clients[k.src] || m.clients[k.dst] {
			m.out.Fragmented.Incomplete++
		}
	}
	for k, n := range m.icmp {
		k.Count = n
		m.out.ICMP = append(m.out.ICMP, k)
	}
	slices.SortFunc(m.out.ICMP, compareICMP)
	return m.out, nil
}

func compareICMP(a, b ICMPCount) int {
	if c := a.From.Compare(b.From); c != 0 {
		return c
	}
	return (a.Type-b.Type)*256 + a.Code - b.Code
}

func set(list []netip.Addr) map[netip.Addr]bool {
	m := map[netip.Addr]bool{}
	for _, a := range list {
		m[a.Unmap()] = true
	}
	return m
}

type queryKey struct {
	tcp    bool
	client netip.AddrPort
	id     uint16
	q      Question
}

type matcher struct {
	spec          MatchSpec
	clients, vips map[netip.Addr]bool
	out           Matched
	open          map[queryKey][]int // indexes into out.Queries, in order of sending
	tcp           streams
	icmp          map[ICMPCount]int
}

func newMatcher(spec MatchSpec) *matcher {
	return &matcher{spec: spec, open: map[queryKey][]int{}, tcp: streams{}, icmp: map[ICMPCount]int{},
		clients: set(spec.Clients), vips: set(spec.VIPs)}
}

func (m *matcher) frame(f *frame) {
	if f.icmp != nil {
		e := f.icmp
		if m.clients[f.dst.Addr()] && m.clients[e.src.Addr()] && m.vips[e.dst.Addr()] && e.dst.Port() == m.spec.Port {
			m.icmp[ICMPCount{V6: e.v6, Type: int(e.kind), Code: int(e.code), From: f.src.Addr()}]++
		}
		return
	}
	t := &m.out.Traffic
	packets := max(1, f.fragments)
	switch {
	case m.clients[f.src.Addr()] && m.vips[f.dst.Addr()] && f.dst.Port() == m.spec.Port:
		t.TxPackets += packets
		if f.fragments > 0 {
			m.out.Fragmented.Queries++
			m.out.Fragmented.Fragments += f.fragments
		}
		t.TxIPBytes += int64(f.ipBytes)
		t.TxFrameBytes += int64(f.wireBytes)
		if f.tcp {
			m.out.Segments = append(m.out.Segments, Segment{N: len(m.out.Segments) + 1, Time: f.time, Client: f.src, VIP: f.dst, Flags: f.flags})
		}
		m.messages(f, f.src, m.query)
	case m.clients[f.dst.Addr()] && f.src.Port() == m.spec.Port:
		t.RxPackets += packets
		if f.fragments > 0 {
			m.out.Fragmented.Answers++
			m.out.Fragmented.Fragments += f.fragments
		}
		t.RxIPBytes += int64(f.ipBytes)
		t.RxFrameBytes += int64(f.wireBytes)
		m.messages(f, f.dst, m.answer)
	}
}

// messages hands the DNS messages of a frame over. What is no DNS message is
// counted; a query among the answers, or the other way round, is none either.
func (m *matcher) messages(f *frame, client netip.AddrPort, do func(*frame, *dns.Msg, queryKey)) {
	payloads := [][]byte{f.payload}
	if f.tcp {
		payloads = m.tcp.add(f)
	}
	for _, b := range payloads {
		msg := new(dns.Msg)
		if err := msg.Unpack(b); err != nil || len(msg.Question) != 1 || msg.Response != (client == f.dst) {
			m.out.Undecodable++
			continue
		}
		q := Question{Name: strings.ToLower(msg.Question[0].Name), Type: dns.Type(msg.Question[0].Qtype).String()}
		do(f, msg, queryKey{tcp: f.tcp, client: client, id: msg.Id, q: q})
	}
}

func (m *matcher) query(f *frame, _ *dns.Msg, k queryKey) {
	for _, i := range m.open[k] {
		if q := m.out.Queries[i]; q.Outcome == Unanswered && f.time.Sub(q.Time) < m.spec.Timeout && !f.tcp {
			m.out.RepeatedQueries++
			return
		}
	}
	protocol := "udp"
	if f.tcp {
		protocol = "tcp"
	}
	m.open[k] = append(m.open[k], len(m.out.Queries))
	m.out.Queries = append(m.out.Queries, Query{
		N: len(m.out.Queries) + 1, Time: f.time, Client: f.src.Addr(), Port: f.src.Port(), VIP: f.dst.Addr(), Protocol: protocol,
		ID: k.id, Name: k.q.Name, Type: k.q.Type, NextHop: m.node(f.dstMAC), Outcome: Unanswered, QueryBytes: f.ipBytes,
	})
}

func (m *matcher) node(mac string) string {
	if n := m.spec.Nodes[mac]; n != "" {
		return n
	}
	return mac
}

// sender is who gave an answer.
func (m *matcher) sender(f *frame, msg *dns.Msg) string {
	if n := m.spec.Identities[NSID(msg)]; n != "" {
		return n
	}
	return m.node(f.srcMAC)
}

// NSID is the name server identifier of an answer (RFC 5001), "" when it has none.
func NSID(msg *dns.Msg) string {
	opt := msg.IsEdns0()
	if opt == nil {
		return ""
	}
	for _, o := range opt.Option {
		if id, ok := o.(*dns.EDNS0_NSID); ok {
			if b, err := hex.DecodeString(id.Nsid); err == nil {
				return string(b)
			}
		}
	}
	return ""
}

func (m *matcher) answer(f *frame, msg *dns.Msg, k queryKey) {
	q := m.waiting(m.open[k], f)
	if q == nil {
		m.out.Unmatched++
		return
	}
	outcome := m.judge(q, f, msg, k.q)
	if q.Outcome != Unanswered && !(q.Outcome == WrongSource && outcome != WrongSource) {
		q.Duplicates++
		return
	}
	if q.Outcome == WrongSource { // the answer from elsewhere was one too many
		q.Duplicates++
	}
	q.Outcome, q.Latency, q.Source, q.Backend = outcome, f.time.Sub(q.Time), f.src.Addr(), m.sender(f, msg)
	q.Rcode, q.AnswerBytes = RcodeName(msg.Rcode), f.ipBytes
}

// waiting picks the query that an answer belongs to. Ids are used again after a
// time-out, so there may be several: the oldest one that still waits in time,
// else the newest one that was given up, else the newest of all.
func (m *matcher) waiting(list []int, f *frame) *Query {
	var late *Query
	for _, i := range list {
		q := &m.out.Queries[i]
		if q.Outcome != Unanswered && q.Outcome != WrongSource {
			continue
		}
		if f.time.Sub(q.Time) <= m.spec.Timeout {
			return q
		}
		late = q
	}
	if late != nil || len(list) == 0 {
		return late
	}
	return &m.out.Queries[list[len(list)-1]]
}

func (m *matcher) judge(q *Query, f *frame, msg *dns.Msg, question Question) Outcome {
	switch {
	case f.src.Addr() != q.VIP:
		return WrongSource
	case f.time.Sub(q.Time) > m.spec.Timeout:
		return Late
	case msg.Rcode != dns.RcodeSuccess:
		return BadRcode
	case msg.Truncated:
		return Truncated
	case m.spec.Expected != nil && !m.spec.Expected.holds(question, msg):
		return WrongData
	}
	return OK
}

// RcodeName writes a response code as queries.csv has it: NOERROR, RCODE23.
func RcodeName(code int) string {
	if s, ok := dns.RcodeToString[code]; ok {
		return s
	}
	return "RCODE" + strconv.Itoa(code)
}
