package ipvsmodel

import (
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var vip = netip.MustParseAddrPort("10.0.0.100:53")

func backend(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1 + byte(i>>8), byte(i)}), 53)
}

// lab is a service with destinations whose list order is that of weights.
func lab(t interface{ Fatal(...any) }, spec Service, weights []int) (*Model, Key) {
	m, k := New(Kernel{}, 7), Key{Protocol: UDP, VIP: vip}
	if err := m.AddService(k, spec); err != nil {
		t.Fatal(err)
	}
	for i := len(weights) - 1; i >= 0; i-- {
		if err := m.AddDestination(k, Destination{Address: backend(i), Weight: weights[i]}); err != nil {
			t.Fatal(err)
		}
	}
	return m, k
}

func ask(m *Model, at time.Duration, client uint32, port uint16) Decision {
	return m.Packet(at, &Packet{Protocol: UDP, Client: netip.AddrPortFrom(address(client), port), VIP: vip})
}

// number is which backend was chosen, -1 = none.
func number(d Decision) int {
	if !d.Backend.IsValid() {
		return -1
	}
	b := d.Backend.Addr().As4()
	return int(b[2]-1)<<8 | int(b[3])
}

func weightList(t *rapid.T) []int {
	return rapid.SliceOfN(rapid.IntRange(0, 9), 1, 8).Draw(t, "weights")
}

func TestNobodyQuiescedIsChosenAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := weightList(t)
		spec := Service{
			Scheduler: rapid.SampledFrom(Schedulers()).Draw(t, "scheduler"), OnePacket: rapid.Bool().Draw(t, "ops"),
			SHPort: true, MHPort: true, SHFallback: rapid.Bool().Draw(t, "shf"), MHFallback: rapid.Bool().Draw(t, "mhf"),
		}
		m, _ := lab(t, spec, weights)
		for i := range 60 {
			d := ask(m, time.Duration(i)*time.Second, 0x0a000001+uint32(i%3), uint16(1000+i))
			if n := number(d); n >= 0 && weights[n] == 0 {
				t.Fatalf("packet %d went to %d, which has weight 0 of %v", i, n, weights)
			}
		}
	})
}

func TestRotationIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := weightList(t)
		total, alive := 0, 0
		for _, w := range weights {
			total += w
			if w > 0 {
				alive++
			}
		}
		if total == 0 {
			return
		}
		for scheduler, want := range map[string]func(w int) int{
			"wrr": func(w int) int { return w },
			"wlc": func(w int) int { return w },
			"rr":  func(w int) int { return min(w, 1) },
			"lc":  func(w int) int { return min(w, 1) },
		} {
			m, _ := lab(t, Service{Scheduler: scheduler}, weights)
			cycle := total
			if scheduler == "rr" || scheduler == "lc" {
				cycle = alive
			}
			for range 3 {
				got := make([]int, len(weights))
				for range cycle {
					got[number(ask(m, 0, 0x0a000001, uint16(m.Live()+1)))]++
				}
				for i, w := range weights {
					if got[i] != want(w) {
						t.Fatalf("%s: a cycle of %v gave %v", scheduler, weights, got)
					}
				}
			}
		}
	})
}

// TestOrderRenamesRotation: what a rotation does to places in the list does
// not depend on who stands there.
func TestOrderRenamesRotation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "n")
		order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		})).Draw(t, "order")
		for _, scheduler := range []string{"rr", "wrr", "lc", "wlc", "sed", "nq", "fo", "ovf", "dh", "sh"} {
			k := Key{Protocol: UDP, VIP: vip}
			m := New(Kernel{}, 1)
			if err := m.AddService(k, Service{Scheduler: scheduler, SHPort: true}); err != nil {
				t.Fatal(err)
			}
			for i := n - 1; i >= 0; i-- {
				if err := m.AddDestination(k, Destination{Address: backend(order[i]), Weight: 1}); err != nil {
					t.Fatal(err)
				}
			}
			plain, _ := lab(t, Service{Scheduler: scheduler, SHPort: true}, slices.Repeat([]int{1}, n))
			for i := range 3 * n {
				a, b := number(ask(plain, 0, 0x0a000001, uint16(i+1))), number(ask(m, 0, 0x0a000001, uint16(i+1)))
				if order[a] != b {
					t.Fatalf("%s: packet %d went to place %d, and in the order %v to %d", scheduler, i, a, order, b)
				}
			}
		}
	})
}

func TestPortMattersOnlyWithItsFlag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 5), 2, 8).Draw(t, "weights")
		client := rapid.Uint32().Draw(t, "client")
		for _, scheduler := range []string{"sh", "mh", "dh", "lblc", "lblcr"} {
			m, _ := lab(t, Service{Scheduler: scheduler, OnePacket: true}, weights)
			first := number(ask(m, 0, client, 1))
			for range 10 {
				if n := number(ask(m, 0, client, rapid.Uint16Min(1).Draw(t, "port"))); n != first {
					t.Fatalf("%s: one client went to %d and %d", scheduler, first, n)
				}
			}
		}
	})
}

func TestPortFlagSpreads(t *testing.T) {
	for _, scheduler := range []string{"sh", "mh"} {
		m, _ := lab(t, Service{Scheduler: scheduler, SHPort: true, MHPort: true}, []int{1, 1, 1})
		got := make([]int, 3)
		for p := range 3000 {
			got[number(ask(m, 0, 0x0a000001, uint16(10000+p)))]++
		}
		if slices.Min(got) < 900 {
			t.Errorf("%s: %v of 3000 ports", scheduler, got)
		}
	}
}

// TestMaglevMovesFew: without one of n destinations hardly anybody else moves.
func TestMaglevMovesFew(t *testing.T) {
	const n, clients = 8, 4000
	m, k := lab(t, Service{Scheduler: "mh", OnePacket: true}, slices.Repeat([]int{1}, n))
	before := make([]int, clients)
	for c := range before {
		before[c] = number(ask(m, 0, 0x0b000000+uint32(c), 1))
	}
	if err := m.DeleteDestination(k, backend(3)); err != nil {
		t.Fatal(err)
	}
	moved, homeless := 0, 0
	for c, b := range before {
		switch now := number(ask(m, 0, 0x0b000000+uint32(c), 1)); {
		case b == 3:
			homeless++
		case now != b:
			moved++
		}
	}
	if moved > clients/20 || homeless < clients/n/2 {
		t.Errorf("of %d clients %d moved that had no need to, %d had", clients, moved, homeless)
	}
}

// TestCountsMatchEntries: after any events what is counted is what is there.
func TestCountsMatchEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, k := New(Kernel{Before2026: rapid.Bool().Draw(t, "before 2026")}, 3), Key{Protocol: TCP, VIP: vip}
		if err := m.AddService(k, Service{Scheduler: rapid.SampledFrom(Schedulers()).Draw(t, "scheduler"), Persistence: time.Duration(rapid.IntRange(0, 1).Draw(t, "persistence")) * 50 * time.Second}); err != nil {
			t.Fatal(err)
		}
		_ = m.SetSysctl("expire_nodest_conn", rapid.IntRange(0, 1).Draw(t, "nodest"))
		at := time.Duration(0)
		for range rapid.IntRange(1, 80).Draw(t, "events") {
			b := backend(rapid.IntRange(0, 4).Draw(t, "backend"))
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0:
				_ = m.AddDestination(k, Destination{Address: b, Weight: 1, Upper: rapid.IntRange(0, 3).Draw(t, "upper")})
			case 1:
				_ = m.DeleteDestination(k, b)
			case 2:
				_ = m.EditDestination(k, Destination{Address: b, Weight: rapid.IntRange(0, 3).Draw(t, "weight")})
			case 3:
				at += time.Duration(rapid.IntRange(1, 200).Draw(t, "wait")) * time.Second
				m.Advance(at)
			default:
				m.Packet(at, &Packet{Protocol: TCP, Client: netip.AddrPortFrom(address(9), uint16(rapid.IntRange(1, 9).Draw(t, "port"))), VIP: vip, Flags: Flags(rapid.IntRange(0, 15).Draw(t, "flags"))})
			}
		}
		counted(t, m, k)
		m.Advance(at + 48*time.Hour)
		if m.Live() != 0 || len(m.trash) != 0 {
			t.Fatalf("two days later %d entries and %d destinations in the trash are left", m.Live(), len(m.trash))
		}
	})
}

func counted(t *rapid.T, m *Model, k Key) {
	rows := map[netip.AddrPort]*Count{}
	for _, e := range m.Entries() {
		c := rows[e.Backend]
		if c == nil {
			c = &Count{}
			rows[e.Backend] = c
		}
		switch {
		case e.Template:
			c.Persistent++
		case slices.Contains([]string{"ESTABLISHED", "SYN_SENT", "SYN_RECV", "SYNACK"}, e.State):
			c.Active++
		default:
			c.Inactive++
		}
	}
	all, err := m.Counts(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		have := rows[c.Address]
		if have == nil {
			have = &Count{}
		}
		// A template that was given up runs on unseen.
		if c.Active != have.Active || c.Inactive != have.Inactive || c.Persistent < have.Persistent {
			t.Fatalf("%v counts %d active, %d inactive, %d persistent, the table has %+v", c.Address, c.Active, c.Inactive, c.Persistent, have)
		}
	}
}

func TestTwosFavoursTheHead(t *testing.T) {
	want := TwosChances([]int{1, 1, 1}, []int{0, 0, 0})
	for i, w := range []float64{0.5, 0.25, 0.25} {
		if math.Abs(want[i]-w) > 1e-12 {
			t.Errorf("place %d: %v, want %v", i, want[i], w)
		}
	}
	m, _ := lab(t, Service{Scheduler: "twos", OnePacket: true}, []int{1, 1, 1})
	got := make([]int, 3)
	for range 40000 {
		got[number(ask(m, 0, 1, 1))]++
	}
	for i, p := range want {
		if d := math.Abs(float64(got[i]) - 40000*p); d > 5*math.Sqrt(40000*p*(1-p)) {
			t.Errorf("place %d: drawn %d of 40000, the chance is %v", i, got[i], p)
		}
	}
	// The less loaded of two is taken; both drawn the same is the only way out.
	if got := TwosChances([]int{1, 1}, []int{5, 0}); math.Abs(got[0]-4.0/9) > 1e-12 {
		t.Errorf("loaded head: %v, want 4/9", got[0])
	}
	if got := TwosChances([]int{0, 0}, []int{0, 0}); got[0] != 0 || got[1] != 0 {
		t.Errorf("all quiesced: %v", got)
	}
}

func TestLate(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		time.Millisecond: jiffy, 200 * time.Millisecond: jiffy, 2 * time.Second: 8 * jiffy,
		300 * time.Second: 4096 * jiffy, 900 * time.Second: 4096 * jiffy, 60 * time.Second: 512 * jiffy,
	} {
		if got := Late(timeout); got != want {
			t.Errorf("%v may be late by %v, want %v", timeout, got, want)
		}
	}
}

// TestHashes against values that another implementation of both hashes gave.
func TestHashes(t *testing.T) {
	if a, b := hsiphash32(0, mhKey1), hsiphash32(0x0a000001, mhKey2); a != 492468162 || b != 1224331457 {
		t.Errorf("hsiphash: %d and %d", a, b)
	}
	if h := Hash32(0x0a000064, 8) % 3; h != 2 {
		t.Errorf("hash32 of 10.0.0.100 is %d mod 3, the kernel's choice was 2", h)
	}
}
