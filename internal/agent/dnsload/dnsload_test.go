package dnsload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/load"
)

// spec is a load of n queries; ports are far from those that the kernel gives to
// others meanwhile.
func (s *server) spec(protocol string, n, ports int) proto.DNSLoadSpec {
	sp := proto.DNSLoadSpec{Server: s.addr, From: netip.MustParseAddr("127.0.0.1"), Protocol: protocol, Queries: n, Window: 10, WithinMS: 2000, TimeoutMS: 20000}
	for i := range ports {
		sp.Ports = append(sp.Ports, firstTestPort+uint16(i))
	}
	return sp
}

// firstTestPort lies below what Linux gives out by itself.
const firstTestPort = 21000

func lines(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "host%d.lab.test. A\n", i%7)
	}
	return b.Bytes()
}

func run(t *testing.T, spec proto.DNSLoadSpec) (proto.DNSLoadResult, []load.Asked) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := Run(ctx, spec, lines(spec.Queries))
	if err != nil {
		t.Fatal(err)
	}
	record, err := load.ReadRecord(bytes.NewReader(res.Record))
	if err != nil {
		t.Fatal(err)
	}
	if len(record) != spec.Queries {
		t.Fatalf("%d rows for %d queries", len(record), spec.Queries)
	}
	return res, record
}

func TestPortsAndOrder(t *testing.T) {
	for _, c := range []struct {
		name, protocol string
		ports          int
		fresh          bool
		conns          int // over TCP
	}{
		{"udp, one port", "udp", 1, false, 0}, {"udp, 20 ports", "udp", 20, false, 0}, {"udp, fresh", "udp", 200, true, 0},
		{"tcp, one connection", "tcp", 1, false, 1}, {"tcp, 20 connections", "tcp", 20, false, 20}, {"tcp, fresh", "tcp", 200, true, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := startUDP
			if c.protocol == "tcp" {
				start = startTCP
			}
			s := start(t, nil)
			spec := s.spec(c.protocol, 200, c.ports)
			spec.Fresh = c.fresh
			res, record := run(t, spec)
			own := load.Judge(record, nil)
			if own.Answered != 200 || own.Started != 200 || res.Strange != 0 || res.Cut != "" {
				t.Fatalf("%+v, strange %d, cut %q", own, res.Strange, res.Cut)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			arrived := map[uint16]peer{}
			for _, p := range s.peers {
				arrived[p.id] = p
			}
			conns := map[int]bool{}
			for i, a := range record {
				p := arrived[a.ID]
				conns[p.conn] = true
				if a.N != i+1 || a.Port != spec.Ports[i%len(spec.Ports)] || p.port != a.Port || a.Name != fmt.Sprintf("host%d.lab.test.", i%7) || a.Type != "A" ||
					a.Rcode != "NOERROR" || a.Truncated || a.Source != s.addr.Addr() || a.Latency <= 0 || a.Latency > 2*time.Second || a.Backend != "" || a.Duplicates != 0 {
					t.Fatalf("row %d is %+v, the server saw %+v", i, a, p)
				}
			}
			if c.protocol == "udp" && !slices.IsSortedFunc(s.peers, func(a, b peer) int { return int(a.id) - int(b.id) }) {
				t.Error("queries came in another order than that of the list")
			}
			if c.protocol == "tcp" && len(conns) != c.conns {
				t.Errorf("%d connections, want %d", len(conns), c.conns)
			}
			if c.protocol == "tcp" && !c.fresh && s.most != c.conns {
				t.Errorf("%d connections at a time, want all %d", s.most, c.conns)
			}
		})
	}
}

// The window is the number of queries outstanding, never more; one by one when it
// is 1.
func TestWindow(t *testing.T) {
	for _, protocol := range []string{"udp", "tcp"} {
		for _, window := range []int{1, 4} {
			var mu sync.Mutex
			open, most := 0, 0
			script := func(_ int, q *dns.Msg) []reply {
				mu.Lock()
				open++
				most = max(most, open)
				mu.Unlock()
				time.AfterFunc(4*time.Millisecond, func() { mu.Lock(); open--; mu.Unlock() })
				return []reply{{after: 5 * time.Millisecond, msg: right(q)}}
			}
			start := startUDP
			if protocol == "tcp" {
				start = startTCP
			}
			s := start(t, script)
			spec := s.spec(protocol, 40, 40)
			spec.Window, spec.Fresh = window, true
			_, record := run(t, spec)
			mu.Lock()
			if own := load.Judge(record, nil); most > window || own.Answered != 40 || window > 1 && most < 2 {
				t.Errorf("%s, window %d: %d outstanding, %+v", protocol, window, most, own)
			}
			mu.Unlock()
			if window == 1 && protocol == "tcp" && s.most > 2 { // the last one may not have seen its end yet
				t.Errorf("%d connections at a time", s.most)
			}
		}
	}
}

// What a server can do to a query, one after the other.
func TestFatesUDP(t *testing.T) {
	s := startUDP(t, func(n int, q *dns.Msg) []reply {
		ok := right(q)
		other := ok.Copy()
		switch n {
		case 1: // lost
			return nil
		case 2: // late
			return []reply{{after: 800 * time.Millisecond, msg: ok}}
		case 3: // twice
			return []reply{{msg: ok}, {after: 10 * time.Millisecond, msg: ok}}
		case 4: // a wrong id first, the right one later
			other.Id += 1000
			return []reply{{msg: other}, {after: 10 * time.Millisecond, msg: ok}}
		case 5: // another question
			other.Question[0].Name = "else.lab.test."
			return []reply{{msg: other}}
		case 6:
			ok.Truncated = true
		case 7:
			ok.Rcode = dns.RcodeServerFailure
		case 8: // from elsewhere
			return []reply{{stray: true, msg: ok}}
		case 9: // no DNS at all
			return []reply{{raw: []byte("no")}}
		case 10: // the question itself comes back
			return []reply{{msg: q}}
		}
		return []reply{{msg: ok}}
	})
	for _, fresh := range []bool{false, true} {
		s.mu.Lock()
		s.peers = nil
		s.mu.Unlock()
		spec := s.spec("udp", 14, 14)
		spec.Fresh, spec.WithinMS, spec.Window = fresh, 400, 1
		began := time.Now()
		res, record := run(t, spec)
		want := map[int]load.Result{1: load.TimedOut, 2: load.TooLate, 5: load.TimedOut, 8: load.TimedOut, 9: load.TimedOut, 10: load.TimedOut}
		for i, a := range record {
			w, odd := want[i]
			if !odd {
				w = load.Answered
			}
			if a.Result != w {
				t.Errorf("fresh %v, query %d: %s, want %s (%+v)", fresh, i, a.Result, w, a)
			}
		}
		if record[3].Duplicates != 1 || record[2].Latency < 800*time.Millisecond || !record[6].Truncated || record[7].Rcode != "SERVFAIL" || record[1].Source.IsValid() {
			t.Errorf("fresh %v: %+v", fresh, record)
		}
		if res.Strange != 5 {
			t.Errorf("fresh %v: %d strange messages, want 5", fresh, res.Strange)
		}
		if took := time.Since(began); took > 6*400*time.Millisecond+20*time.Second {
			t.Errorf("took %v", took)
		}
	}
}

func TestFatesTCP(t *testing.T) {
	s := startTCP(t, func(n int, q *dns.Msg) []reply {
		switch n {
		case 1:
			return nil
		case 2:
			return []reply{{hang: true}}
		case 3:
			bad := right(q)
			bad.Id++
			return []reply{{msg: bad}, {msg: right(q)}}
		}
		return []reply{{msg: right(q)}}
	})
	spec := s.spec("tcp", 6, 6)
	spec.Fresh, spec.Window, spec.WithinMS = true, 1, 200
	res, record := run(t, spec)
	want := []load.Result{load.Answered, load.TimedOut, load.Closed, load.Answered, load.Answered, load.Answered}
	for i, a := range record {
		if a.Result != want[i] {
			t.Errorf("query %d: %s, want %s", i, a.Result, want[i])
		}
	}
	if res.Strange != 1 {
		t.Errorf("%d strange, want 1", res.Strange)
	}
}

// A port that somebody else has fails its queries and no others.
func TestPortTaken(t *testing.T) {
	s := startUDP(t, nil)
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: firstTestPort + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	spec := s.spec("udp", 4, 4)
	spec.Fresh = true
	_, record := run(t, spec)
	if own := load.Judge(record, nil); own.Failed != 1 || record[1].Result != load.Failed || own.Answered != 3 {
		t.Errorf("%+v", own)
	}
}

// An open loop sends by the clock though nothing comes back, and says how well it
// kept its time.
func TestOpenLoop(t *testing.T) {
	s := startUDP(t, func(int, *dns.Msg) []reply { return nil })
	spec := s.spec("udp", 50, 50)
	spec.Open, spec.Fresh, spec.Rate, spec.WithinMS, spec.Window = true, true, 500, 300, 0
	began := time.Now()
	_, record := run(t, spec)
	took := time.Since(began)
	own := load.Judge(record, nil)
	if own.TimedOut != 50 || own.Timing.Paced != 50 || own.Timing.Max == nil || took < 390*time.Millisecond || took > 20*time.Second {
		t.Errorf("%v, %+v", took, own)
	}
	for i, a := range record {
		if want := time.Duration(i) * 2 * time.Millisecond; a.Scheduled.Sub(record[0].Scheduled).Round(time.Microsecond) != want || a.Started.Before(a.Scheduled) || a.Sent.Before(a.Started) {
			t.Errorf("row %d: scheduled after %v, started %v, sent %v", i, a.Scheduled.Sub(record[0].Scheduled), a.Started, a.Sent)
		}
	}
}

// A closed loop with a rate is held up by its window, which its own timing shows.
func TestClosedLoopMissesDeadlines(t *testing.T) {
	s := startUDP(t, func(_ int, q *dns.Msg) []reply { return []reply{{after: 20 * time.Millisecond, msg: right(q)}} })
	spec := s.spec("udp", 10, 1)
	spec.Window, spec.Rate = 1, 1000
	_, record := run(t, spec)
	if own := load.Judge(record, nil); own.Answered != 10 || own.Timing.Missed != 9 || *own.Timing.Max < 0.1 {
		t.Errorf("%+v", own.Timing)
	}
}

func TestBoundInTime(t *testing.T) {
	s := startUDP(t, func(int, *dns.Msg) []reply { return nil })
	spec := s.spec("udp", 1000, 1)
	spec.Window, spec.WithinMS, spec.TimeoutMS = 2, 100, 350
	began := time.Now()
	res, record := run(t, spec)
	own := load.Judge(record, nil)
	if took := time.Since(began); took > 15*time.Second || res.Cut == "" || own.Unsent < 900 || own.Started+own.Unsent != 1000 {
		t.Errorf("%v, cut %q, %+v", took, res.Cut, own)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	spec.TimeoutMS = 60000
	if _, err := Run(ctx, spec, lines(1000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestImpossibleLoads(t *testing.T) {
	good := (&server{addr: netip.MustParseAddrPort("127.0.0.1:53")}).spec("udp", 4, 4)
	for name, change := range map[string]func(*proto.DNSLoadSpec){
		"no ports":          func(s *proto.DNSLoadSpec) { s.Ports = nil },
		"too few fresh":     func(s *proto.DNSLoadSpec) { s.Fresh, s.Ports = true, s.Ports[:3] },
		"open without rate": func(s *proto.DNSLoadSpec) { s.Open = true },
		"no window":         func(s *proto.DNSLoadSpec) { s.Window = 0 },
		"too many":          func(s *proto.DNSLoadSpec) { s.Queries = load.MostAsked + 1 },
		"protocol":          func(s *proto.DNSLoadSpec) { s.Protocol = "dot" },
		"IPv6":              func(s *proto.DNSLoadSpec) { s.Server = netip.MustParseAddrPort("[::1]:53") },
		"lines":             func(s *proto.DNSLoadSpec) { s.Queries = 5 },
		"no time":           func(s *proto.DNSLoadSpec) { s.WithinMS = 0 },
	} {
		spec := good
		change(&spec)
		if _, err := Run(t.Context(), spec, lines(4)); !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Run(t.Context(), good, []byte("a. A\nb. NOSUCH\nc. A\nd. A\n")); !errors.Is(err, ErrSpec) {
		t.Errorf("a record type that there is not: %v", err)
	}
}
