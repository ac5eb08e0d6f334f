package population

import (
	"math"
	"slices"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// Sizes in the kernel (include/net/ip_vs.h, struct ip_vs_conn: 288 bytes on
// x86-64; the slab aligns to cache lines). The table has 2^12 buckets of 8 bytes
// by default (CONFIG_IP_VS_TAB_BITS).
const (
	entryBytes  = 320
	buckets     = 4096
	bucketBytes = 8
)

// Growth is a population with so many times the clients, each asking as before.
type Growth struct {
	Times     int     `json:"times"`
	Clients   int     `json:"clients"`
	Addresses int     `json:"addresses"`
	Rate      float64 `json:"rate"`
	// Entries, Bytes, Chain and Pinned are by closed forms, nil with persistence.
	Entries *float64 `json:"entries"`
	Bytes   *float64 `json:"bytes"`
	Chain   *float64 `json:"chain"`
	Pinned  *float64 `json:"pinned"`
	Most    *float64 `json:"most_obey_s"`
	// Spread is the largest of the backends', nil where units are not given away
	// one by one.
	Spread *float64 `json:"spread"`

	half *float64
}

// close fills in the closed forms.
func (b *bench) close(c *Cell) {
	if !c.persistent {
		g := b.grown(c, b.crowd, 1)
		c.Entries.Closed, c.Pinned.Closed, c.Half, c.Most = g.Entries, g.Pinned, g.half, g.Most
	}
	c.Chain = c.Entries.best() / buckets
	c.Bytes = c.Entries.best()*entryBytes + buckets*bucketBytes
	if unit, ok := b.unit(b.crowd); ok {
		for i := range c.Shares {
			s := spread(c.Shares[i].Share(), unit)
			c.Shares[i].Spread = &s
		}
	}
	b.outages(c)
}

func spread(share, unit float64) float64 {
	return math.Sqrt(max(0, share*(1-share)*min(1, unit)))
}

// unit is the part of the queries that one choice moves, as an average query
// sees it.
func (b *bench) unit(c crowd) (float64, bool) {
	s := b.services[0]
	switch {
	case b.limited():
		return 0, false
	case b.byAddress(), s.Persistence > 0 && (s.Netmask == 0 || s.Netmask == 32):
		return concentration(c.groups()), true
	case s.Persistence > 0:
		return 0, false
	}
	switch s.Scheduler {
	case "dh":
		return 1 / float64(c.vips), true
	case "rr", "wrr", "lc", "wlc", "sh", "mh", "twos":
		if slices.Contains(s.Flags, s.Scheduler+"-port") { // a flow comes to the same backend again
			return weight(c.flows, math.Inf(1), b.until()) / (c.rate * b.until()), true
		}
		if b.onePacket {
			return 1 / (c.rate * b.until()), true
		}
		return weight(c.flows, b.timeout, b.until()) / (c.rate * b.until()), true
	}
	return 0, false // the others give all to the backends in front, or by the state
}

func (b *bench) grown(cell *Cell, c crowd, times int) Growth {
	g := Growth{Times: times, Clients: c.clients, Addresses: c.addresses, Rate: c.rate}
	if unit, ok := b.unit(c); ok {
		most := 0.0
		for _, s := range cell.Shares {
			most = max(most, spread(s.Share(), unit))
		}
		g.Spread = &most
	}
	if cell.persistent {
		return g
	}
	var rows, pinned float64
	if !b.onePacket {
		flows := c.flows
		served := 1 - cell.Unserved // who is sent to nobody has no entry
		rows = served * entries(flows, b.timeout, b.until())
		pinned = served * max(0, 1-decisions(flows, b.timeout, b.until())/(c.rate*b.until()))
		times := obeyed(flows, b.timeout, 0.5, 0.95)
		g.half, g.Most = times[0], times[1]
	} else {
		g.half, g.Most = new(float64), new(float64)
	}
	chain, bytes := rows/buckets, rows*entryBytes+buckets*bucketBytes
	g.Entries, g.Pinned, g.Chain, g.Bytes = &rows, &pinned, &chain, &bytes
	return g
}

// outages fills in what failures cost. A second failure has no closed form: the
// first has changed the shares.
func (b *bench) outages(c *Cell) {
	first := 0
	for k, f := range b.failures {
		if f.At < b.failures[first].At {
			first = k
		}
	}
	flush := b.sysctls["net.ipv4.vs.expire_nodest_conn"] != "0" && b.sysctls["net.ipv4.vs.expire_nodest_conn"] != ""
	for k, f := range b.failures {
		removed := min(f.At+f.Noticed, seconds(b.duration)).Seconds()
		end := b.duration
		if f.Back > 0 {
			end = min(end, f.Back.Seconds())
		}
		window := max(0, end-removed)
		if b.onePacket || flush {
			window = 0
		}
		c.Outages[k].Seconds = removed - f.At.Seconds() + min(window, (seconds(b.timeout)+ipvsmodel.Late(seconds(b.timeout))).Seconds())
		if k != first || c.persistent || b.limited() {
			continue
		}
		lost := b.crowd.rate * (removed - f.At.Seconds())
		if window > 0 {
			for _, fl := range b.crowd.flows {
				lost += fl.count * dropped(fl.rate, b.timeout, removed, window)
			}
		}
		lost *= c.Shares[b.failing[k]].Share() * (1 - c.Unserved)
		c.Outages[k].Lost.Closed = &lost
	}
}
