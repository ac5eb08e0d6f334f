package ipvsmodel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// benchmarkFlows sends packets of so many flows in turn to 16 destinations; in
// the steady state each finds its entry, and each restarts a timer.
func benchmarkFlows(b *testing.B, scheduler string, backends, flows int) {
	m, _ := lab(b, Service{Scheduler: scheduler}, mixedWeights(backends))
	packets := make([]Packet, flows)
	for i := range packets {
		packets[i] = Packet{Protocol: UDP, VIP: vip, Client: netip.AddrPortFrom(address(0x0a000000+uint32(i/50000)), uint16(1024+i%50000))}
	}
	gap := 200 * time.Second / time.Duration(flows) // each flow within its timeout
	at := time.Duration(0)
	for i := range packets {
		at += gap
		m.Packet(at, &packets[i])
	}
	b.ReportAllocs()
	i, began := 0, processor()
	for b.Loop() {
		at += gap
		m.Packet(at, &packets[i])
		if i++; i == flows {
			i = 0
		}
	}
	perPacket(b, began)
	if m.Live() != flows {
		b.Fatalf("%d entries, want %d", m.Live(), flows)
	}
}

func BenchmarkPackets(b *testing.B) {
	for _, flows := range []int{1000, 1_000_000} {
		for _, scheduler := range []string{"rr", "wlc", "sh", "mh"} {
			b.Run(fmt.Sprintf("%s/%d", scheduler, flows), func(b *testing.B) { benchmarkFlows(b, scheduler, 16, flows) })
		}
	}
}

// BenchmarkDecisions schedules each packet afresh.
func BenchmarkDecisions(b *testing.B) {
	for _, scheduler := range Schedulers() {
		b.Run(scheduler, func(b *testing.B) { benchmarkDecisions(b, scheduler, 16) })
	}
}

// BenchmarkChurn opens a new flow with each packet while as many expire.
func BenchmarkChurn(b *testing.B) {
	for _, live := range []int{10, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(live), func(b *testing.B) {
			m, _ := lab(b, Service{Scheduler: "wlc"}, []int{1, 1, 1, 1})
			gap := 300 * time.Second / time.Duration(live)
			at := time.Duration(0)
			p := Packet{Protocol: UDP, VIP: vip}
			send := func(n int) {
				at += gap
				p.Client = netip.AddrPortFrom(address(uint32(n/50000)), uint16(n%50000))
				m.Packet(at, &p)
			}
			n := 0
			for ; n < 2*live; n++ {
				send(n)
			}
			b.ReportAllocs()
			for b.Loop() {
				send(n)
				n++
			}
		})
	}
}

// TestNoAllocationPerPacket is the benchmarks' promise as a test.
func TestNoAllocationPerPacket(t *testing.T) {
	for _, scheduler := range Schedulers() {
		for _, ops := range []bool{false, true} {
			m, _ := lab(t, Service{Scheduler: scheduler, OnePacket: ops}, []int{3, 2, 1})
			p := Packet{Protocol: UDP, VIP: vip}
			at, n := time.Duration(0), 0
			send := func() {
				n, at = n+1, at+time.Second
				p.Client = netip.AddrPortFrom(address(1), uint16(n%700))
				m.Packet(at, &p)
			}
			for range 2000 {
				send()
			}
			if a := testing.AllocsPerRun(1000, send); a != 0 {
				t.Errorf("%s, one-packet %v: %v allocations a packet", scheduler, ops, a)
			}
		}
	}
}
