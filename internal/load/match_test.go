package load

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/miekg/dns"
)

var byValue = cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})

const ms = time.Millisecond

func TestMatchTellsWhatBecameOfAQuery(t *testing.T) {
	for name, c := range map[string]struct {
		tape func(tp *tape)
		want Query // Outcome, Latency, Rcode, Source, Backend, Duplicates are compared
	}{
		"ok": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			tp.at(2*ms).answer(1, 40000, reply(tp.t, q, host0Record))
		}, Query{Outcome: OK, Latency: 2 * ms, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[1]"}},
		"order and case of the data do not matter": {func(tp *tape) {
			q := tp.ask(40000, 7, "HOST1.lab.test.")
			tp.at(ms).answer(0, 40000, reply(tp.t, q, "HOST1.lab.test. 9 IN A 192.0.2.2", "HOST1.lab.test. 9 IN A 192.0.2.1"))
		}, Query{Outcome: OK, Latency: ms, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[0]"}},
		"unknown MAC": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			tp.at(ms).answer(2, 40000, reply(tp.t, q, host0Record))
		}, Query{Outcome: OK, Latency: ms, Rcode: "NOERROR", Source: vip, Backend: backendMAC(2)}},
		"bad rcode": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			a := reply(tp.t, q)
			a.Rcode = dns.RcodeServerFailure
			tp.at(ms).answer(0, 40000, a)
		}, Query{Outcome: BadRcode, Latency: ms, Rcode: "SERVFAIL", Source: vip, Backend: "backend.ns[0]"}},
		"truncated": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			a := reply(tp.t, q)
			a.Truncated = true
			tp.at(ms).answer(0, 40000, a)
		}, Query{Outcome: Truncated, Latency: ms, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[0]"}},
		"other data": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			tp.at(ms).answer(0, 40000, reply(tp.t, q, "host0.lab.test. 60 IN A 192.0.2.99"))
		}, Query{Outcome: WrongData, Latency: ms, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[0]"}},
		"half of the data": {func(tp *tape) {
			q := tp.ask(40000, 7, "host1.lab.test.")
			tp.at(ms).answer(0, 40000, reply(tp.t, q, "host1.lab.test. 60 IN A 192.0.2.1"))
		}, Query{Outcome: WrongData, Latency: ms, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[0]"}},
		"from the backend's own address": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			tp.at(ms).answerFrom(netip.MustParseAddr("198.18.0.30"), 0, 40000, reply(tp.t, q, host0Record))
		}, Query{Outcome: WrongSource, Latency: ms, Rcode: "NOERROR", Source: netip.MustParseAddr("198.18.0.30"), Backend: "backend.ns[0]"}},
		"from elsewhere, then right": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			tp.at(ms).answerFrom(netip.MustParseAddr("198.18.0.30"), 0, 40000, reply(tp.t, q, host0Record))
			tp.at(2*ms).answer(1, 40000, reply(tp.t, q, host0Record))
		}, Query{Outcome: OK, Latency: 2 * ms, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[1]", Duplicates: 1}},
		"late": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			tp.at(5*time.Second+1).answer(0, 40000, reply(tp.t, q, host0Record))
		}, Query{Outcome: Late, Latency: 5*time.Second + 1, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[0]"}},
		"just in time": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			tp.at(5*time.Second).answer(0, 40000, reply(tp.t, q, host0Record))
		}, Query{Outcome: OK, Latency: 5 * time.Second, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[0]"}},
		"three times": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			for i := range 3 {
				tp.at(time.Duration(i+1)*ms).answer(0, 40000, reply(tp.t, q, host0Record))
			}
		}, Query{Outcome: OK, Latency: ms, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[0]", Duplicates: 2}},
		"nothing": {func(tp *tape) { tp.ask(40000, 7, host0) }, Query{Outcome: Unanswered}},
		"answers to other ports, ids and names": {func(tp *tape) {
			q := tp.ask(40000, 7, host0)
			tp.at(ms).answer(0, 40001, reply(tp.t, q, host0Record))
			other := q.Copy()
			other.Id = 8
			tp.answer(0, 40000, reply(tp.t, other, host0Record))
			tp.answer(0, 40000, reply(tp.t, query(7, "host9.lab.test.", "A")))
			tp.answer(0, 40000, reply(tp.t, query(7, host0, "AAAA")))
		}, Query{Outcome: Unanswered}},
	} {
		t.Run(name, func(t *testing.T) {
			tp := newTape(t)
			c.tape(tp)
			m := tp.match(spec(t))
			if len(m.Queries) != 1 {
				t.Fatalf("%d queries", len(m.Queries))
			}
			got := m.Queries[0]
			if got.NextHop != "director.lb" || got.Client != client || got.Port != 40000 || got.VIP != vip || got.ID != 7 || got.Type != "A" || !got.Time.Equal(start) {
				t.Errorf("query: %+v", got)
			}
			got = Query{Outcome: got.Outcome, Latency: got.Latency, Rcode: got.Rcode, Source: got.Source, Backend: got.Backend, Duplicates: got.Duplicates}
			if diff := cmp.Diff(c.want, got, byValue); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// dnsperf takes ids again after a time-out: an answer goes to the query that
// still waits.
func TestMatchAnIdUsedAgain(t *testing.T) {
	tp := newTape(t)
	q := tp.ask(40000, 7, host0)
	tp.at(6*time.Second).ask(40000, 7, host0)
	tp.at(6*time.Second+ms).answer(0, 40000, reply(t, q, host0Record))
	tp.at(6*time.Second+2*ms).answer(1, 40000, reply(t, q, host0Record)) // the late one
	m := tp.match(spec(t))
	if len(m.Queries) != 2 || m.Queries[0].Outcome != Late || m.Queries[0].Backend != "backend.ns[1]" || m.Queries[1].Outcome != OK || m.Queries[1].Backend != "backend.ns[0]" {
		t.Errorf("%+v", m.Queries)
	}
}

func TestMatchCountsWhatDoesNotBelong(t *testing.T) {
	tp := newTape(t)
	q := tp.ask(40000, 7, host0)
	tp.ask(40000, 7, host0) // the network's copy
	tp.frame(clientMAC, directorMAC, client, vip, udp(40000, 53), gopacket.Payload("no DNS"))
	tp.frame(clientMAC, directorMAC, client, vip, udp(40000, 53), gopacket.Payload(pack(t, reply(t, q)))) // an answer where queries go
	tp.frame(clientMAC, directorMAC, client, netip.MustParseAddr("198.18.0.30"), udp(40000, 53), gopacket.Payload(pack(t, q)))
	tp.frame(backendMAC(0), directorMAC, netip.MustParseAddr("198.18.0.30"), vip, udp(40000, 53), gopacket.Payload(pack(t, q)))
	tp.answer(0, 40009, reply(t, q, host0Record))
	m := tp.match(spec(t))
	if len(m.Queries) != 1 || m.RepeatedQueries != 1 || m.Undecodable != 2 || m.Unmatched != 1 {
		t.Errorf("%d queries, %d repeated, %d undecodable, %d unmatched", len(m.Queries), m.RepeatedQueries, m.Undecodable, m.Unmatched)
	}
	if m.Traffic.TxPackets != 4 || m.Traffic.RxPackets != 1 {
		t.Errorf("%+v", m.Traffic)
	}
}

func TestMatchSeesWhoGetsTheQueries(t *testing.T) {
	tp := newTape(t)
	q := query(1, host0, "A")
	tp.frame(clientMAC, backendMAC(1), client, vip, udp(40000, 53), gopacket.Payload(pack(t, q)))
	if m := tp.match(spec(t)); m.Queries[0].NextHop != "backend.ns[1]" {
		t.Errorf("the frame went to %s", m.Queries[0].NextHop)
	}
}

func TestMatchCountsBytes(t *testing.T) {
	tp := newTape(t)
	q := tp.ask(40000, 7, host0)
	a := reply(t, q, host0Record)
	tp.at(ms).answer(0, 40000, a)
	m := tp.match(spec(t))
	up, down := 28+len(pack(t, q)), 28+len(pack(t, a))
	want := Traffic{TxPackets: 1, RxPackets: 1, TxIPBytes: int64(up), RxIPBytes: int64(down), TxFrameBytes: int64(up + 14), RxFrameBytes: int64(down + 14)}
	if m.Traffic != want || m.Queries[0].QueryBytes != up || m.Queries[0].AnswerBytes != down {
		t.Errorf("%+v, want %+v; query %+v", m.Traffic, want, m.Queries[0])
	}
	batch := 0.001
	if got, want := *MbpsBoth(m.Traffic, &batch), 8*float64(up+down+28)/0.001/1e6; got != want {
		t.Errorf("%v Mbps, want %v", got, want)
	}
}

func TestMatchICMP(t *testing.T) {
	tp := newTape(t)
	q := tp.ask(40000, 7, host0)
	about := func(src, dst netip.Addr, sport, dport int) gopacket.Payload {
		buf := gopacket.NewSerializeBuffer()
		ip := &layers.IPv4{Version: 4, TTL: 1, Protocol: layers.IPProtocolUDP, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
		if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, ip, udp(sport, dport), gopacket.Payload(pack(t, q))); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()[:28]
	}
	port := layers.CreateICMPv4TypeCode(3, 3)
	proto := layers.CreateICMPv4TypeCode(3, 2)
	director, rip := netip.MustParseAddr("198.18.0.20"), netip.MustParseAddr("198.18.0.30")
	for range 2 {
		tp.frame(directorMAC, clientMAC, director, client, &layers.ICMPv4{TypeCode: port}, about(client, vip, 40000, 53))
	}
	tp.frame(backendMAC(0), clientMAC, rip, client, &layers.ICMPv4{TypeCode: proto}, about(client, vip, 40000, 53))
	tp.frame(backendMAC(0), clientMAC, rip, client, &layers.ICMPv4{TypeCode: proto}, about(client, vip, 40000, 80))                        // another service
	tp.frame(clientMAC, directorMAC, client, vip, &layers.ICMPv4{TypeCode: port}, about(vip, client, 53, 40000))                           // the client's own
	tp.frame(backendMAC(0), clientMAC, rip, client, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(0, 0)}, gopacket.Payload("echo")) // no error
	want := []ICMPCount{{Type: 3, Code: 3, From: director, Count: 2}, {Type: 3, Code: 2, From: rip, Count: 1}}
	if diff := cmp.Diff(want, tp.match(spec(t)).ICMP, byValue); diff != "" {
		t.Error(diff)
	}
}

func TestMatchIPv6(t *testing.T) {
	c6, v6 := netip.MustParseAddr("fd00::128"), netip.MustParseAddr("fd00::101")
	s := spec(t)
	s.Clients, s.VIPs = append(s.Clients, c6), append(s.VIPs, v6)
	tp := newTape(t)
	q := query(7, host0, "A")
	tp.frame(clientMAC, directorMAC, c6, v6, udp(40000, 53), gopacket.Payload(pack(t, q)))
	tp.at(ms).frame(backendMAC(0), clientMAC, v6, c6, udp(53, 40000), gopacket.Payload(pack(t, reply(t, q, host0Record))))
	m := tp.match(s)
	if len(m.Queries) != 1 || m.Queries[0].Outcome != OK || m.Queries[0].QueryBytes != 48+len(pack(t, q)) {
		t.Errorf("%+v", m.Queries)
	}
}

func TestMatchTCP(t *testing.T) {
	tp := newTape(t)
	q1, q2 := query(1, host0, "A"), query(2, "host1.lab.test.", "A")
	a1 := framed(pack(t, reply(t, q1, host0Record)))
	a2 := framed(pack(t, reply(t, q2, "host1.lab.test. 60 IN A 192.0.2.1", "host1.lab.test. 60 IN A 192.0.2.2")))
	c := tp.dial(40000, 1, 4294967290) // the sequence numbers wrap
	b := append(framed(pack(t, q1)), framed(pack(t, q2))...)
	tp.at(1 * ms)
	c.send(c.up, b[:1]) // the length itself is cut in two
	tp.at(2 * ms)
	c.send(c.up+1, b[1:20])
	c.send(c.up+1, b[1:20]) // again
	tp.at(3 * ms)
	c.send(c.up+10, b[10:]) // overlapping
	tp.at(5 * ms)
	c.recv(c.down+uint32(len(a1)), a2) // out of order
	tp.at(6 * ms)
	c.recv(c.down, a1)
	c.recv(c.down, a1)
	m := tp.match(spec(t))
	if len(m.Queries) != 2 || m.Undecodable != 0 || m.RepeatedQueries != 0 {
		t.Fatalf("%+v", m)
	}
	for i, q := range m.Queries {
		if q.Outcome != OK || q.Protocol != "tcp" || q.Latency != 3*ms || q.Backend != "backend.ns[1]" || q.Duplicates != 0 {
			t.Errorf("query %d: %+v", i, q)
		}
	}
}

// A second connection on the same port begins anew.
func TestMatchTCPPortUsedAgain(t *testing.T) {
	tp := newTape(t)
	for i := range 2 {
		q := query(uint16(i), host0, "A")
		c := tp.at(time.Duration(i)*time.Second).dial(40000, i, uint32(1000+500*i))
		c.send(c.up, framed(pack(t, q)))
		tp.at(time.Duration(i)*time.Second + ms)
		c.recv(c.down, framed(pack(t, reply(t, q, host0Record))))
	}
	m := tp.match(spec(t))
	if len(m.Queries) != 2 || m.Queries[0].Outcome != OK || m.Queries[1].Outcome != OK || m.Queries[1].Backend != "backend.ns[1]" {
		t.Errorf("%+v", m.Queries)
	}
}

func TestMatchReadsPcapng(t *testing.T) {
	tp := newTape(t)
	q := tp.ask(40000, 7, host0)
	tp.at(ms).answer(0, 40000, reply(t, q, host0Record))
	var ng bytes.Buffer
	w, err := pcapgo.NewNgWriter(&ng, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewReader(bytes.NewReader(tp.buf.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b, ci, err := r.ReadPacketData()
		if err != nil {
			t.Fatal(err)
		}
		ci.InterfaceIndex = 0
		if err := w.WritePacket(ci, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	m, err := Match(&ng, spec(t))
	if err != nil || len(m.Queries) != 1 || m.Queries[0].Outcome != OK {
		t.Errorf("%v, %+v", err, m.Queries)
	}
}

func TestMatchRefusesWhatIsNoCapture(t *testing.T) {
	tp := newTape(t)
	tp.ask(40000, 7, host0)
	cut := tp.buf.Bytes()[:tp.buf.Len()-3]
	for name, b := range map[string][]byte{"empty": nil, "text": []byte("no capture at all, really"), "cut": cut} {
		if _, err := Match(bytes.NewReader(b), spec(t)); err == nil || !strings.HasPrefix(err.Error(), "capture: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzMatch(f *testing.F) {
	tp := newTape(f)
	q := tp.ask(40000, 7, host0)
	tp.at(ms).answer(0, 40000, reply(f, q, host0Record))
	c := tp.dial(40001, 1, 1)
	c.send(c.up, framed(pack(f, q)))
	c.recv(c.down, framed(pack(f, reply(f, q, host0Record))))
	tp.frame(directorMAC, clientMAC, vip, client, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 3)}, gopacket.Payload(bytes.Repeat([]byte{0x45}, 28)))
	f.Add(tp.buf.Bytes())
	s := spec(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Match(bytes.NewReader(b), s)
		if err != nil {
			return
		}
		sum := Summarise(m.Queries, s.Timeout)
		if got := sum.AnswersOK + sum.AnswersBadRcode + sum.AnswersTruncated + sum.AnswersWrongData + sum.AnswersWrongSource + sum.AnswersLate + sum.Unanswered; got != sum.Sent {
			t.Errorf("outcomes add up to %d of %d", got, sum.Sent)
		}
		var csv bytes.Buffer
		if err := WriteQueries(&csv, m.Queries); err != nil {
			t.Error(err)
		}
	})
}

// Frames without the framing of a file, each after its length: the decoder and
// the matcher must stand any bytes.
func FuzzFrames(f *testing.F) {
	tp := newTape(f)
	q := tp.ask(40000, 7, host0)
	tp.answer(0, 40000, reply(f, q, host0Record))
	c := tp.dial(40001, 1, 1)
	c.send(c.up, framed(pack(f, q)))
	c.recv(c.down, framed(pack(f, reply(f, q, host0Record))))
	r, err := pcapgo.NewReader(&tp.buf)
	if err != nil {
		f.Fatal(err)
	}
	var seed []byte
	for b, _, err := r.ReadPacketData(); err == nil; b, _, err = r.ReadPacketData() {
		seed = append(seed, framed(b)...)
	}
	f.Add(seed)
	s := spec(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, m := newDecoder(), newMatcher(s)
		for len(b) > 2 {
			n := min(int(b[0])<<8|int(b[1]), len(b)-2)
			if fr := d.decode(b[2:2+n], gopacket.CaptureInfo{Length: n, CaptureLength: n}); fr != nil {
				m.frame(fr)
			}
			b = b[2+n:]
		}
		for _, q := range m.out.Queries {
			if q.Client != client || q.VIP != vip || (q.Outcome == Unanswered) != !q.Source.IsValid() {
				t.Errorf("%+v", q)
			}
		}
	})
}
