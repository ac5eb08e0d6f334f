package load

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/miekg/dns"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

var (
	client = netip.MustParseAddr("198.18.0.128")
	vip    = netip.MustParseAddr("198.18.0.101")
	start  = time.Date(2026, 12, 1, 10, 0, 0, 123456789, time.UTC)
)

const (
	clientMAC   = "52:54:00:00:00:80"
	directorMAC = "52:54:00:00:00:14"
)

func backendMAC(i int) string { return "52:54:00:00:00:" + []string{"1e", "1f", "20"}[i] }

var zones = []lang.Zone{{Noun: addr.N(addr.Zone, "lab"), Name: "lab.test", Records: []lang.Record{
	{Name: "host0", Type: "A", TTL: 60, Values: []string{"192.0.2.0"}},
	{Name: "host1", Type: "A", TTL: 60, Values: []string{"192.0.2.1", "192.0.2.2"}},
	{Name: "@", Type: "TXT", TTL: 60, Values: []string{`"Some Text"`}},
	{Name: "www", Type: "CNAME", TTL: 60, Values: []string{"host0"}},
}}}

func spec(t testing.TB) MatchSpec {
	t.Helper()
	e, err := ExpectedAnswers(zones)
	if err != nil {
		t.Fatal(err)
	}
	return MatchSpec{Clients: []netip.Addr{client}, VIPs: []netip.Addr{vip}, Port: 53, Expected: e, Timeout: 5 * time.Second,
		Nodes: map[string]string{directorMAC: "director.lb", backendMAC(0): "backend.ns[0]", backendMAC(1): "backend.ns[1]"}}
}

// tape writes a capture, as it would be seen at the client's NIC.
type tape struct {
	t   testing.TB
	buf bytes.Buffer
	w   *pcapgo.Writer
	now time.Duration
}

func newTape(t testing.TB) *tape {
	tp := &tape{t: t}
	tp.w = pcapgo.NewWriterNanos(&tp.buf)
	if err := tp.w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	return tp
}

// at sets the time of what follows, after the start.
func (tp *tape) at(d time.Duration) *tape { tp.now = d; return tp }

func (tp *tape) frame(srcMAC, dstMAC string, src, dst netip.Addr, rest ...gopacket.SerializableLayer) {
	tp.t.Helper()
	hw := func(s string) net.HardwareAddr { m, _ := net.ParseMAC(s); return m }
	kind, proto := layers.EthernetTypeIPv4, layers.IPProtocolUDP
	var ip gopacket.SerializableLayer
	switch rest[0].(type) {
	case *layers.TCP:
		proto = layers.IPProtocolTCP
	case *layers.ICMPv4:
		proto = layers.IPProtocolICMPv4
	case *layers.ICMPv6:
		proto = layers.IPProtocolICMPv6
	}
	var network gopacket.NetworkLayer
	if src.Is4() {
		l := &layers.IPv4{Version: 4, TTL: 64, Protocol: proto, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
		ip, network = l, l
	} else {
		kind = layers.EthernetTypeIPv6
		l := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: proto, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
		ip, network = l, l
	}
	if l, ok := rest[0].(interface {
		SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
	}); ok {
		if err := l.SetNetworkLayerForChecksum(network); err != nil {
			tp.t.Fatal(err)
		}
	}
	all := append([]gopacket.SerializableLayer{&layers.Ethernet{SrcMAC: hw(srcMAC), DstMAC: hw(dstMAC), EthernetType: kind}, ip}, rest...)
	buf := gopacket.NewSerializeBuffer()
	// Checksums stay wrong, as with virtio's offload.
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, all...); err != nil {
		tp.t.Fatal(err)
	}
	ci := gopacket.CaptureInfo{Timestamp: start.Add(tp.now), CaptureLength: len(buf.Bytes()), Length: len(buf.Bytes())}
	if err := tp.w.WritePacket(ci, buf.Bytes()); err != nil {
		tp.t.Fatal(err)
	}
}

func pack(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func query(id uint16, name, kind string) *dns.Msg {
	q := new(dns.Msg)
	q.SetQuestion(name, dns.StringToType[kind])
	q.Id = id
	q.RecursionDesired = false
	return q
}

// reply answers with records in master file form.
func reply(t testing.TB, q *dns.Msg, records ...string) *dns.Msg {
	t.Helper()
	a := new(dns.Msg)
	a.SetReply(q)
	for _, r := range records {
		rr, err := dns.NewRR(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Answer = append(a.Answer, rr)
	}
	return a
}

func udp(src, dst int) *layers.UDP {
	return &layers.UDP{SrcPort: layers.UDPPort(src), DstPort: layers.UDPPort(dst)}
}

// ask sends a query from a port and returns it.
func (tp *tape) ask(port int, id uint16, name string) *dns.Msg {
	tp.t.Helper()
	q := query(id, name, "A")
	tp.frame(clientMAC, directorMAC, client, vip, udp(port, 53), gopacket.Payload(pack(tp.t, q)))
	return q
}

// answer answers from the VIP through a backend's NIC.
func (tp *tape) answer(backend, port int, a *dns.Msg) {
	tp.t.Helper()
	tp.answerFrom(vip, backend, port, a)
}

func (tp *tape) answerFrom(src netip.Addr, backend, port int, a *dns.Msg) {
	tp.t.Helper()
	tp.frame(backendMAC(backend), clientMAC, src, client, udp(53, port), gopacket.Payload(pack(tp.t, a)))
}

const host0, host0Record = "host0.lab.test.", "host0.lab.test. 60 IN A 192.0.2.0"

func (tp *tape) match(s MatchSpec) Matched {
	tp.t.Helper()
	m, err := Match(bytes.NewReader(tp.buf.Bytes()), s)
	if err != nil {
		tp.t.Fatal(err)
	}
	return m
}

// conn is one TCP connection of the client.
type conn struct {
	tp       *tape
	port     int
	up, down uint32 // next sequence numbers
	backend  int
}

func (tp *tape) dial(port, backend int, isn uint32) *conn {
	c := &conn{tp: tp, port: port, up: isn + 1, down: isn*7 + 1, backend: backend}
	tp.frame(clientMAC, directorMAC, client, vip, &layers.TCP{SrcPort: layers.TCPPort(port), DstPort: 53, SYN: true, Seq: isn})
	tp.frame(backendMAC(backend), clientMAC, vip, client, &layers.TCP{SrcPort: 53, DstPort: layers.TCPPort(port), SYN: true, ACK: true, Seq: isn * 7, Ack: isn + 1})
	return c
}

func framed(b []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) }

// send sends bytes of the client's stream at a sequence number.
func (c *conn) send(seq uint32, b []byte) {
	c.tp.frame(clientMAC, directorMAC, client, vip, &layers.TCP{SrcPort: layers.TCPPort(c.port), DstPort: 53, ACK: true, PSH: true, Seq: seq}, gopacket.Payload(b))
}

func (c *conn) recv(seq uint32, b []byte) {
	c.tp.frame(backendMAC(c.backend), clientMAC, vip, client, &layers.TCP{SrcPort: 53, DstPort: layers.TCPPort(c.port), ACK: true, PSH: true, Seq: seq}, gopacket.Payload(b))
}
