package population

import (
	"encoding/binary"
	"math"
	"net/netip"

	"github.com/lvslab/lvslab/internal/lang"
)

// Ports that a flow may come from.
const (
	// Linux draws from 32768 to 60999 by default (Documentation/networking/ip-sysctl.rst).
	firstEphemeral = 32768
	ephemeral      = 28232
	// A translator has all but the privileged ones.
	firstTranslated = 1024
	translated      = 65536 - firstTranslated
)

// crowd is a population by address: client i is behind address i modulo the
// number of addresses, so that the busy ones are spread, and address 0 is the
// busiest.
type crowd struct {
	clients, addresses int
	sockets            int // ports that a client keeps, 0 = fresh ones
	vips               int
	rate, skew         float64 // queries a second of all; exponent
	total              float64 // of all clients' activity
	firstPort, ports   int     // of one address
	flows              []alike // all of them
}

// newCrowd is the population with so many times the clients and their queries.
func newCrowd(p lang.Population, vips, times int) crowd {
	c := crowd{
		clients: p.Clients * times, sockets: p.Sockets, vips: vips, rate: p.Rate * float64(times), skew: p.Skew,
		firstPort: firstEphemeral, ports: ephemeral,
	}
	c.addresses = (c.clients + p.PerAddress - 1) / p.PerAddress
	if p.PerAddress > 1 || p.Sockets > ephemeral {
		c.firstPort, c.ports = firstTranslated, translated
	}
	c.total = c.sum(0, 1, c.clients)
	c.flows = c.binned()
	return c
}

// activity is how often the client of a rank asks, the busiest 1 time.
func (c crowd) activity(rank float64) float64 {
	if c.skew == 0 {
		return 1
	}
	return math.Pow(rank+1, -c.skew)
}

// summed is how many clients are added one by one before the integral, which is
// then right to a ten-thousandth.
const summed = 20

// sum is the activity of n clients, each so many ranks after the one before.
func (c crowd) sum(first, step, n int) float64 {
	if c.skew == 0 {
		return float64(n)
	}
	out := 0.0
	for k := range min(n, summed) {
		out += c.activity(float64(first + k*step))
	}
	if n <= summed {
		return out
	}
	low, high := float64(first)+1+(summed-0.5)*float64(step), float64(first)+1+(float64(n)-0.5)*float64(step)
	if c.skew == 1 {
		return out + (math.Log(high)-math.Log(low))/float64(step)
	}
	e := 1 - c.skew
	return out + (math.Pow(high, e)-math.Pow(low, e))/(e*float64(step))
}

// behind is the number of clients that share an address.
func (c crowd) behind(address int) int {
	return (c.clients - address + c.addresses - 1) / c.addresses
}

// clientRate and addressRate are queries a second.
func (c crowd) clientRate(i int) float64 {
	return c.rate * c.activity(float64(i)) / c.total
}

func (c crowd) addressRate(a int) float64 {
	return c.rate * c.sum(a, c.addresses, c.behind(a)) / c.total
}

// address gives each index an IPv4 address of its own, drawn by the seed from
// 1.0.0.0 to 223.255.255.255. Nothing is ever sent there.
func address(i int, seed int64) netip.Addr {
	const first, last = 1 << 24, 224<<24 - 1
	x := uint32(first + i)
	for {
		if x = scramble(x, seed); x >= first && x <= last {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], x)
			return netip.AddrFrom4(b)
		}
	}
}

// scramble is a permutation of 32 bits: a Feistel network of four rounds.
func scramble(x uint32, seed int64) uint32 {
	l, r := uint64(x>>16), uint64(x&0xffff)
	for round := range uint64(4) {
		h := (r + uint64(seed)*0x9e3779b97f4a7c15 + round<<40) * 0xbf58476d1ce4e5b9
		h ^= h >> 29
		h *= 0x94d049bb133111eb
		l, r = r, (l^h>>32)&0xffff
	}
	return uint32(l<<16 | r)
}
