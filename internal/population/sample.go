package population

import (
	"math"
	"math/rand/v2"
	"net/netip"
)

// asker is who sends simulated packets: the flows of an address with fresh
// ports, or one client that keeps its own.
type asker struct {
	client      netip.Addr
	first, size int     // its ports: size of them from the first on
	offset      int     // where it begins among the ports of its address
	vip         int     // of its first port
	kept        bool    // each of its ports has one VIP
	rate        float64 // simulated queries a second
	queries     float64 // that one of them stands for
	flows       float64 // of the population that one simulated flow stands for
}

// sample is the part of a crowd that is simulated.
type sample struct {
	askers []asker
	rate   float64 // of all
	part   float64 // simulated packets of all packets worth simulating
}

// busiest is how many units are not left out as long as half of the packets
// suffice for them: with a skew they are what
// the shares hang on.
const busiest = 1000

// enough is how many queries of a flow within a timeout are worth simulating. A
// flow that asks more often keeps its entry all the same: one silence in e^12,
// 160,000.
const enough = 12

// spreadOver is how many units the rest of the sample is made of at least, if there
// are as many; each is then thinned by its ports.
const spreadOver = 5000

// units are what flows belong to: clients that keep their ports, or addresses
// whose fresh ports may each meet every VIP.
type units struct {
	n, ports int
	flows    float64 // of each
	rate     func(int) float64
}

func (c crowd) units() units {
	if c.sockets > 0 {
		return units{c.clients, c.sockets, float64(c.sockets), c.clientRate}
	}
	return units{c.addresses, c.ports, float64(c.ports * c.vips), c.addressRate}
}

// draw takes the sample for about so many packets in all; timeout is that of an
// entry, or what is looked at if that is shorter. The flows of a unit
// are independent, so the busiest units are thinned by their ports alone, and
// of the others some are left out. With one-packet scheduling there are no
// entries, and packets are left out in place of ports.
func (c crowd) draw(timeout, duration float64, onePacket bool, budget int, seed int64, rng *rand.Rand) sample {
	u := c.units()
	most := u.flows * enough / timeout // queries a second of a unit that are worth it
	if onePacket {
		most = math.Inf(1)
	}
	all := 0.0
	for _, f := range c.flows {
		all += f.count * min(f.rate, most/u.flows) * duration
	}
	s := sample{part: min(1, float64(budget)/all)}
	if s.part > 0.5 {
		s.part = 1
	}
	// few is a number of ports for a part of the packets, and the part that they are.
	few := func(part float64) (int, float64) {
		if onePacket {
			return u.ports, part
		}
		n := min(u.ports, max(1, int(math.Round(part*float64(u.ports)))))
		return n, float64(n) / float64(u.ports)
	}
	add := func(i, ports int, part, chance float64) {
		rate := u.rate(i)
		slow := min(rate, most)
		a := asker{client: address(i%c.addresses, seed), first: c.firstPort, size: ports, rate: slow * part, queries: rate / slow / part / chance, flows: 1 / part / chance}
		if c.sockets > 0 {
			a.offset, a.vip, a.kept = i/c.addresses*c.sockets, i, true
		}
		s.askers = append(s.askers, a)
	}
	front, spent, covered := 0, 0.0, 0.0
	for ports, part := few(s.part); front < min(busiest, u.n); front++ {
		cost := min(u.rate(front), most) * duration
		if s.part < 1 && spent+cost*part > float64(budget)/2 {
			break
		}
		spent, covered = spent+cost*part, covered+cost
		add(front, ports, part, 1)
	}
	rest := s.part
	if rest < 1 {
		rest = min(1, (float64(budget)-spent)/max(all-covered, 1e-9))
	}
	chance := max(rest, min(1, spreadOver/float64(u.n)))
	if !onePacket && rest*float64(u.ports) < chance {
		chance = rest * float64(u.ports)
	}
	ports, part := few(rest / chance)
	skip(front, u.n, chance, rng, func(i int) { add(i, ports, part, chance) })
	for _, a := range s.askers {
		s.rate += a.rate
	}
	return s
}

// skip calls f with each of the numbers from low to high with the same chance.
func skip(low, high int, chance float64, rng *rand.Rand, f func(int)) {
	if chance >= 1 {
		for a := low; a < high; a++ {
			f(a)
		}
		return
	}
	if chance <= 0 {
		return
	}
	for a := float64(low - 1); ; {
		a += 1 + math.Floor(math.Log(1-rng.Float64())/math.Log1p(-chance))
		if a >= float64(high) {
			return
		}
		f(int(a))
	}
}

// alias is Walker's table: an asker by its rate from one number drawn.
type alias struct {
	keep  []float64
	other []int32
}

func newAlias(s sample) alias {
	n := len(s.askers)
	t := alias{make([]float64, n), make([]int32, n)}
	var small, large []int32
	for i, a := range s.askers {
		t.keep[i] = a.rate * float64(n) / s.rate
		if t.keep[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		lo, hi := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		t.other[lo] = hi
		if t.keep[hi] -= 1 - t.keep[lo]; t.keep[hi] < 1 {
			large = large[:len(large)-1]
			small = append(small, hi)
		}
	}
	for _, i := range append(small, large...) { // what rounding leaves over
		t.keep[i] = 1
	}
	return t
}

func (t alias) draw(rng *rand.Rand) int {
	x := rng.Float64() * float64(len(t.keep))
	i := int(x)
	if x-float64(i) < t.keep[i] {
		return i
	}
	return int(t.other[i])
}
