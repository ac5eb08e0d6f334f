package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/guesttest"
	"github.com/lvslab/lvslab/internal/ipvs"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/load"
)

func TestAccMeasuringInGuest(t *testing.T) { guesttest.Run(t, "^TestGuestMeasures") }

// patience is the time-out of queries: a host that emulates other guests beside
// this one answers some after many seconds, and this test is about counts.
const patience = time.Minute

var measured = []lang.Zone{{Name: "lab.test", Records: func() (r []lang.Record) {
	for i := range 100 {
		r = append(r, lang.Record{Name: fmt.Sprintf("host%d", i), Type: "A", TTL: 60, Values: []string{fmt.Sprintf("192.0.2.%d", i)}})
	}
	return r
}()}}

// serveZone answers the zone's questions on the VIP of a backend, by UDP and TCP.
func serveZone(t *testing.T, lab *guesttest.Lab, backend int) {
	t.Helper()
	h := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		a := new(dns.Msg)
		a.SetReply(q)
		var i int
		if n, _ := fmt.Sscanf(q.Question[0].Name, "host%d.lab.test.", &i); n == 1 {
			rr, _ := dns.NewRR(fmt.Sprintf("%s 60 IN A 192.0.2.%d", q.Question[0].Name, i))
			a.Answer = []dns.RR{rr}
		} else {
			a.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(a)
	})
	lab.In(fmt.Sprintf("ns%d", backend), func() {
		at := netip.AddrPortFrom(guesttest.VIP, 53).String()
		pc, err := net.ListenPacket("udp", at)
		if err != nil {
			t.Error(err)
			return
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { pc.Close(); l.Close() })
		go func() { _ = (&dns.Server{PacketConn: pc, Handler: h}).ActivateAndServe() }()
		go func() { _ = (&dns.Server{Listener: l, Handler: h, MaxTCPQueries: -1}).ActivateAndServe() }()
	})
}

// Real dnsperf through real IPVS and IPIP, seen by the capture at the client:
// every query has its outcome, and the counts are those of IPVS.
func TestGuestMeasuresARun(t *testing.T) {
	guesttest.Inside(t)
	ctx := context.Background()
	lab := guesttest.NewLab(t, 3)
	for i := range 3 {
		serveZone(t, lab, i)
	}
	expected, err := load.ExpectedAnswers(measured)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]string{guesttest.MAC(guesttest.Director): "director.lb"}
	for i := range 3 {
		nodes[guesttest.MAC(guesttest.Backend(i))] = fmt.Sprintf("backend.ns[%d]", i)
	}
	match := load.MatchSpec{Clients: []netip.Addr{guesttest.Client}, VIPs: []netip.Addr{guesttest.VIP}, Port: 53, Expected: expected, Timeout: patience, Nodes: nodes}
	for name, c := range map[string]struct {
		protocol, scheduler string
		onePacket           bool
		sockets             int
		want                map[string]int
	}{
		"rr, one socket":   {"udp", "rr", false, 1, map[string]int{"backend.ns[0]": 1000}},
		"rr, 20 sockets":   {"udp", "rr", false, 20, map[string]int{"backend.ns[0]": 350, "backend.ns[1]": 350, "backend.ns[2]": 300}},
		"rr, one packet":   {"udp", "rr", true, 1, map[string]int{"backend.ns[0]": 334, "backend.ns[1]": 333, "backend.ns[2]": 333}},
		"sed, 20 sockets":  {"udp", "sed", false, 20, map[string]int{"backend.ns[0]": 1000}},
		"rr, TCP, 3 conns": {"tcp", "rr", false, 3, map[string]int{"backend.ns[0]": 334, "backend.ns[1]": 333, "backend.ns[2]": 333}},
	} {
		t.Run(name, func(t *testing.T) {
			job := writeJob(t, c.protocol, c.sockets)
			var fresh proto.IPVSFreshState
			d := &director{}
			service := proto.IPVSService{IPVSKey: proto.IPVSKey{Protocol: c.protocol, VIP: guesttest.VIP, Port: 53}, Scheduler: c.scheduler, OnePacket: c.onePacket}
			for i := range 3 {
				service.Destinations = append(service.Destinations, proto.IPVSDestination{Address: guesttest.Backend(i), Port: 53, Forward: "tunnel", Weight: 1})
			}
			lab.In("director", func() {
				fresh, err = onDirector(d, (*ipvs.Handle).Fresh)(ctx, proto.IPVSFreshSpec{Services: []proto.IPVSService{service}})
			})
			if err != nil {
				t.Fatal(err)
			}
			caps := &captures{life: ctx, running: map[string]*capture{}}
			var perf proto.DNSPerfResult
			lab.In("client", func() {
				if _, err = caps.start(ctx, proto.CaptureSpec{ID: "c", Dev: "lan", Port: 53}); err == nil {
					perf, err = dnsperf(ctx, proto.DNSPerfSpec{Args: job.Args, TimeoutMS: 4 * patience.Milliseconds()})
				}
			})
			if err != nil || perf.Exit != 0 {
				t.Fatalf("%v %+v", err, perf)
			}
			began := time.Now()
			result, err := caps.stop(ctx, proto.CaptureRef{ID: "c", QuietMS: 50})
			if err != nil {
				t.Fatal(err)
			}
			stopped := time.Since(began)
			m, err := load.Match(bytes.NewReader(result.Pcap), match)
			if err != nil {
				t.Fatal(err)
			}
			sum := load.Summarise(m.Queries, match.Timeout)
			report, err := load.ParseReport(perf.Stdout)
			if err != nil || report.Sent != 1000 || report.Completed != 1000 {
				t.Errorf("%v %+v", err, report)
			}
			if result.Dropped != 0 || sum.Sent != 1000 || sum.AnswersOK != 1000 || sum.SourcePorts != c.sockets || m.Undecodable+m.Unmatched+m.RepeatedQueries != 0 || sum.NextHops["director.lb"] != 1000 {
				t.Errorf("dropped %d, matched %+v, %d queries, %d ok, %d ports, next hops %v", result.Dropped, m.Traffic, sum.Sent, sum.AnswersOK, sum.SourcePorts, sum.NextHops)
			}
			if !sameCounts(sum.Backends, c.want) {
				t.Errorf("backends %v, want %v in some order", sum.Backends, c.want)
			}
			var stats proto.IPVSStats
			lab.In("director", func() {
				stats, err = onDirector(d, (*ipvs.Handle).Settled)(ctx, proto.IPVSSettleSpec{Baseline: fresh.Baseline})
			})
			if err != nil || !stats.Settled || int(stats.Totals.InPackets) != m.Traffic.TxPackets {
				t.Errorf("settled %v (%v), IPVS saw %d packets, the capture %d", stats.Settled, err, stats.Totals.InPackets, m.Traffic.TxPackets)
			}
			if sum.BatchS == nil {
				t.Fatal("no batch time")
			}
			t.Logf("dnsperf says %.3f s and took %v; batch %.3f s, %d packets, %d bytes of pcap, stopped in %v", report.RunTime, perf.Wall.Round(time.Millisecond), *sum.BatchS, result.Packets, len(result.Pcap), stopped.Round(time.Millisecond))
		})
	}
}

// sameCounts compares shares; which backend a deterministic scheduler starts
// with is checked by the tests of package ipvs.
func sameCounts(got, want map[string]int) bool {
	count := func(m map[string]int) map[int]int {
		out := map[int]int{}
		for _, n := range m {
			out[n]++
		}
		return out
	}
	g, w := count(got), count(want)
	if len(g) != len(w) {
		return false
	}
	for n, k := range w {
		if g[n] != k {
			return false
		}
	}
	return true
}

func writeJob(t *testing.T, protocol string, sockets int) load.Job {
	t.Helper()
	jobs, err := load.DNSPerf{VIPs: []netip.Addr{guesttest.VIP}, Port: 53, From: []netip.Addr{guesttest.Client}, Protocol: protocol,
		Questions: load.QueryNames(measured), Queries: 1000, Sockets: sockets, Timeout: patience, Dir: t.TempDir()}.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(jobs[0].Path, jobs[0].Lines, 0o644); err != nil {
		t.Fatal(err)
	}
	return jobs[0]
}

// flood sends packets to a device that swallows them and returns how many a
// second it managed.
func flood(t *testing.T, lab *guesttest.Lab, n int) (rate float64) {
	t.Helper()
	lab.In("client", func() {
		c, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(198, 19, 0, 2), Port: 53})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		b := make([]byte, 40)
		began := time.Now()
		for range n {
			if _, err := c.Write(b); err != nil {
				t.Error(err)
				return
			}
		}
		rate = float64(n) / time.Since(began).Seconds()
	})
	return rate
}

// No packet is lost at the greatest rate that one CPU can send at while it also
// captures.
func TestGuestMeasuresCaptureRate(t *testing.T) {
	guesttest.Inside(t)
	ctx := context.Background()
	lab := guesttest.NewLab(t, 0)
	lab.Sh("client", `modprobe dummy; ip link add sink type dummy; ip addr add 198.19.0.1/24 dev sink; ip link set sink up`)
	const n = 100000
	alone := flood(t, lab, n)
	caps := &captures{life: ctx, running: map[string]*capture{}}
	var err error
	lab.In("client", func() { _, err = caps.start(ctx, proto.CaptureSpec{ID: "c", Dev: "sink", Port: 53, MaxMB: 32}) })
	if err != nil {
		t.Fatal(err)
	}
	with := flood(t, lab, n)
	began := time.Now()
	r, err := caps.stop(ctx, proto.CaptureRef{ID: "c"})
	if err != nil || r.Dropped != 0 || r.Packets != n {
		t.Errorf("%v, kept %d, dropped %d of %d", err, r.Packets, r.Dropped, n)
	}
	t.Logf("%.0f packets/s without a capture, %.0f with it, stopped in %v", alone, with, time.Since(began).Round(time.Millisecond))
}

func TestGuestMeasuresCaptureEdges(t *testing.T) {
	guesttest.Inside(t)
	ctx := context.Background()
	lab := guesttest.NewLab(t, 0)
	lab.Sh("client", `ip link add sink type dummy; ip addr add 198.19.0.1/24 dev sink; ip link set sink up`)
	caps := &captures{life: ctx, running: map[string]*capture{}}
	var e *proto.Error
	lab.In("client", func() {
		if _, err := caps.start(ctx, proto.CaptureSpec{ID: "x", Dev: "nowhere", Port: 53}); !errors.As(err, &e) || e.Code != proto.CodeNotFound {
			t.Errorf("no such device: %v", err)
		}
		if _, err := caps.start(ctx, proto.CaptureSpec{ID: "c", Dev: "sink", Port: 53, MaxMB: 1}); err != nil {
			t.Error(err)
		}
		if _, err := caps.start(ctx, proto.CaptureSpec{ID: "c", Dev: "sink", Port: 53}); !errors.As(err, &e) || e.Code != proto.CodeInvalid {
			t.Errorf("twice: %v", err)
		}
	})
	flood(t, lab, 20000) // 98 bytes each in the file: beyond 1 MB
	go func() {
		time.Sleep(300 * time.Millisecond)
		flood(t, lab, 1)
	}()
	began := time.Now()
	r, err := caps.stop(ctx, proto.CaptureRef{ID: "c", QuietMS: 1500})
	if took := time.Since(began); err != nil || took < 1700*time.Millisecond {
		t.Errorf("%v: quiet for 1.5 s after %v, though a packet came after 300 ms", err, took)
	}
	if r.Packets+r.Dropped != 20001 || r.Dropped == 0 || len(r.Pcap) > 1<<20 {
		t.Errorf("kept %d, dropped %d, %d bytes", r.Packets, r.Dropped, len(r.Pcap))
	}
	if _, err := caps.stop(ctx, proto.CaptureRef{ID: "c"}); !errors.As(err, &e) || e.Code != proto.CodeNotFound {
		t.Errorf("stopped twice: %v", err)
	}
	// One packet, at once: the block that is being filled is read too.
	lab.In("client", func() {
		if _, err := caps.start(ctx, proto.CaptureSpec{ID: "one", Dev: "sink", Port: 53, Snaplen: 50}); err != nil {
			t.Error(err)
		}
	})
	flood(t, lab, 1)
	if r, err := caps.stop(ctx, proto.CaptureRef{ID: "one"}); err != nil || r.Packets != 1 || len(r.Pcap) != 24+16+50 {
		t.Errorf("%v, %d packets, %d bytes", err, r.Packets, len(r.Pcap))
	}
}
