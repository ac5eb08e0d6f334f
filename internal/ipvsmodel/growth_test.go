package ipvsmodel

import (
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// growthSchedulers are one of each kind: it walks a list, it compares loads, it
// hashes into a small table, it hashes into a large one.
var growthSchedulers = []string{"rr", "wlc", "sh", "mh"}

// BenchmarkGrowth says what a packet costs as the number of destinations grows
// (each packet a decision, nothing remembered), and as the number of entries
// does (each packet finds its entry and restarts its timer).
func BenchmarkGrowth(b *testing.B) {
	for _, scheduler := range growthSchedulers {
		for _, n := range []int{4, 16, 64, 256, 1024} {
			b.Run(fmt.Sprintf("backends/%s/%d", scheduler, n), func(b *testing.B) { benchmarkDecisions(b, scheduler, n) })
		}
	}
	for _, scheduler := range growthSchedulers {
		for _, n := range []int{10, 1000, 100_000, 1_000_000, 10_000_000} {
			b.Run(fmt.Sprintf("entries/%s/%d", scheduler, n), func(b *testing.B) { benchmarkEntries(b, scheduler, n) })
		}
	}
}

func benchmarkDecisions(b *testing.B, scheduler string, backends int) {
	m, _ := lab(b, Service{Scheduler: scheduler, OnePacket: true, SHPort: true, MHPort: true}, mixedWeights(backends))
	p := Packet{Protocol: UDP, VIP: vip}
	b.ReportAllocs()
	n, began := 0, processor()
	for b.Loop() {
		n++
		p.Client = netip.AddrPortFrom(address(uint32(n)), uint16(n))
		m.Packet(0, &p)
	}
	perPacket(b, began)
}

func benchmarkEntries(b *testing.B, scheduler string, flows int) {
	before := heap()
	m, _ := lab(b, Service{Scheduler: scheduler, SHPort: true, MHPort: true}, mixedWeights(16))
	gap := 200 * time.Second / time.Duration(flows) // each flow within its timeout
	at, i := time.Duration(0), 0
	p := Packet{Protocol: UDP, VIP: vip}
	send := func() {
		p.Client = netip.AddrPortFrom(address(0x0a000000+uint32(i/50000)), uint16(1024+i%50000))
		at += gap
		m.Packet(at, &p)
		if i++; i == flows {
			i = 0
		}
	}
	for range flows {
		send()
	}
	if m.Live() != flows {
		b.Fatalf("%d entries, want %d", m.Live(), flows)
	}
	held := heap() - before
	b.ReportAllocs()
	began := processor()
	for b.Loop() {
		send()
	}
	perPacket(b, began)
	b.ReportMetric(held/float64(flows), "B/entry")
}

// perPacket reports the processor's time: the clock's says on a busy machine how
// busy it is.
func perPacket(b *testing.B, began time.Duration) {
	took := processor() - began
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "cpu-ns/packet")
	b.ReportMetric(float64(b.N)/took.Seconds()/1e6, "Mpackets/cpu-s")
}

// processor is what this process has used, all threads together.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func mixedWeights(backends int) []int {
	weights := make([]int, backends)
	for i := range weights {
		weights[i] = 1 + i%4
	}
	return weights
}

// heap is what is in use after a collection, bytes.
func heap() float64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc)
}
