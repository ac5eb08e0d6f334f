package population

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
)

// Prediction is what is foreseen of a population.
type Prediction struct {
	Population string   `json:"population"`
	Service    string   `json:"service"`
	Backends   []string `json:"backends"` // declared order
	Clients    int      `json:"clients"`
	Addresses  int      `json:"addresses"`
	VIPs       int      `json:"vips"`
	Rate       float64  `json:"rate"`       // queries a second of all
	Ports      string   `json:"ports"`      // fresh, or how many a client keeps
	Skew       float64  `json:"skew"`       // exponent
	Duration   float64  `json:"duration_s"` // how long they ask
	// Until is when the first backend fails, or Duration: all but the failures
	// is told of the time before.
	Until float64 `json:"until_s"`
	Cells []Cell  `json:"cells"`
}

// Estimate is a number from two sources.
type Estimate struct {
	Closed    *float64 `json:"closed"` // by a closed form, nil where there is none
	Simulated float64  `json:"simulated"`
	SE        float64  `json:"standard_error"` // of Simulated
}

// best is the closed form where there is one.
func (e Estimate) best() float64 {
	if e.Closed != nil {
		return *e.Closed
	}
	return e.Simulated
}

// Cell is what is foreseen of one treatment.
type Cell struct {
	Treatment string            `json:"treatment_id"`
	Slug      string            `json:"slug"`
	Factors   map[string]string `json:"factors"`
	Timeout   float64           `json:"timeout_s"`
	Shares    []Share           `json:"shares"` // declared order
	Entries   Estimate          `json:"entries"`
	Bytes     float64           `json:"bytes"` // of the entries and the table
	Chain     float64           `json:"chain"` // entries in a bucket of the table
	// Pinned is the part of the queries that an entry decides, from an empty table on.
	Pinned   Estimate `json:"pinned"`
	Unserved float64  `json:"unserved"` // part of the queries that IPVS sends to nobody
	// Half and Most are the seconds until half and 95 % of the queries follow
	// weights that are changed when the table is full; nil beyond 100 timeouts.
	Half     *float64 `json:"half_obey_s"`
	Most     *float64 `json:"most_obey_s"`
	Outages  []Outage `json:"failures"`
	Growth   []Growth `json:"growth"`
	Packets  int      `json:"simulated_packets"`
	Repeated int      `json:"simulations"`

	persistent bool
}

// Share is a backend's part of the queries.
type Share struct {
	Backend string `json:"backend"`
	Weight  int    `json:"weight"`
	// Exact is by the kernel's hash over every address, nil where no hash of
	// addresses decides.
	Exact     *float64 `json:"exact"`
	Simulated float64  `json:"simulated"`
	SE        float64  `json:"standard_error"`
	// Spread is the standard deviation over such populations when each unit is
	// given away for itself; nil where the units are not.
	Spread *float64 `json:"spread"`
}

// Share is the best that is known.
func (s Share) Share() float64 {
	if s.Exact != nil {
		return *s.Exact
	}
	return s.Simulated
}

// Outage is what the failure of a backend costs.
type Outage struct {
	Backend string   `json:"backend"`
	Lost    Estimate `json:"lost"` // queries
	// Seconds from the failure until the last query may be lost.
	Seconds float64 `json:"seconds"`
	// Moved is the part of the queries that a hash gives to another backend
	// though theirs did not fail, nil where no hash of addresses decides.
	Moved *float64 `json:"moved"`
}

// repeats is how many simulations a number is the mean of.
const repeats = 8

// Of predicts a population by at most so many simulated packets.
func Of(t *lang.Topology, p lang.Population, packets int) (Prediction, error) {
	svc, ok := t.Service(p.Service)
	if !ok {
		return Prediction{}, fmt.Errorf("predict %s: there is no %s", p.Noun, p.Service)
	}
	// The treatments are those of an experiment with the same factors; what its
	// load would be plays no part.
	treatments, ds := experiment.Treatments(t, lang.Experiment{
		Noun: p.Noun, Service: p.Service, Clients: []addr.Noun{p.Noun}, Iterations: 1, Factors: p.Factors,
		Load: lang.Load{Kind: lang.LoadDNSPerf, Queries: 1, Sockets: 1, Protocol: svc.Protocol}, Range: p.Range,
	})
	if ds.HasErrors() {
		return Prediction{}, ds.Err()
	}
	c := newCrowd(p, len(svc.VIPs), 1)
	out := Prediction{
		Population: p.Noun.String(), Service: svc.Noun.String(), Clients: p.Clients, Addresses: c.addresses, VIPs: c.vips,
		Rate: p.Rate, Ports: "fresh", Skew: p.Skew, Duration: p.Duration.Seconds(), Until: p.Duration.Seconds(),
	}
	if p.Sockets > 0 {
		out.Ports = strconv.Itoa(p.Sockets)
	}
	for _, r := range svc.RealServers {
		out.Backends = append(out.Backends, r.Backend.String())
	}
	for _, tr := range treatments {
		b := newBench(t, p, svc, tr.Setting, c)
		out.Until = b.until()
		cell, err := b.cell(p, svc, tr, packets/len(treatments))
		if err != nil {
			return out, fmt.Errorf("predict %s, %s: %w", p.Noun, tr.ID, err)
		}
		out.Cells = append(out.Cells, cell)
	}
	return out, nil
}

func newBench(t *lang.Topology, p lang.Population, svc lang.Service, s experiment.Setting, c crowd) *bench {
	b := &bench{
		services: experiment.Services(t, svc, s), sysctls: experiment.Sysctls(t, svc.Director), failures: p.Failures,
		crowd: c, timeout: s.Timeouts.UDP.Seconds(), duration: p.Duration.Seconds(), onePacket: s.OnePacket, seed: p.Seed,
	}
	for _, r := range svc.RealServers {
		b.backends = append(b.backends, r.Address)
	}
	for _, f := range p.Failures {
		b.failing = append(b.failing, slices.IndexFunc(svc.RealServers, func(r lang.RealServer) bool { return r.Backend == f.Backend }))
	}
	return b
}

func (b *bench) cell(p lang.Population, svc lang.Service, tr experiment.Treatment, packets int) (Cell, error) {
	c := Cell{Treatment: tr.ID, Slug: tr.Slug, Factors: tr.Factors, Timeout: b.timeout, persistent: svc.Persistence != nil, Outages: []Outage{}}
	for i, r := range svc.RealServers {
		c.Shares = append(c.Shares, Share{Backend: r.Backend.String(), Weight: tr.Setting.Weights[i]})
	}
	for _, f := range p.Failures {
		c.Outages = append(c.Outages, Outage{Backend: f.Backend.String()})
	}
	if err := b.average(&c, packets); err != nil {
		return c, err
	}
	if err := b.exact(&c); err != nil {
		return c, err
	}
	b.close(&c)
	for _, times := range []int{1, 10, 100} {
		c.Growth = append(c.Growth, b.grown(&c, newCrowd(p, len(svc.VIPs), times), times))
	}
	return c, nil
}

// average repeats the simulation and keeps means and their standard errors.
func (b *bench) average(c *Cell, packets int) error {
	var all []outcome
	for i := range repeats {
		o, err := b.simulate(max(1000, packets/repeats), uint64(i+1))
		if err != nil {
			return err
		}
		if c.Packets += o.packets; o.packets > 0 {
			all = append(all, o)
		}
	}
	c.Repeated = len(all)
	n := float64(max(1, len(all)))
	of := func(f func(outcome) float64) (mean, se float64) {
		for _, o := range all {
			mean += f(o) / n
		}
		for _, o := range all {
			se += (f(o) - mean) * (f(o) - mean)
		}
		return mean, math.Sqrt(se / max(1, n-1) / n)
	}
	for i := range c.Shares {
		c.Shares[i].Simulated, c.Shares[i].SE = of(func(o outcome) float64 { return o.shares[i] })
	}
	c.Unserved, _ = of(func(o outcome) float64 { return o.unserved })
	c.Entries.Simulated, c.Entries.SE = of(func(o outcome) float64 { return o.entries })
	c.Pinned.Simulated, c.Pinned.SE = of(func(o outcome) float64 { return max(0, 1-o.decisions-o.unserved) })
	for i := range c.Outages {
		c.Outages[i].Lost.Simulated, c.Outages[i].Lost.SE = of(func(o outcome) float64 { return o.lost[i] })
	}
	return nil
}

// exact puts in what the hash of every address says.
func (b *bench) exact(c *Cell) error {
	if !b.byAddress() && !b.byVIP() {
		return nil
	}
	home, err := b.hashed(-1)
	if err != nil {
		return err
	}
	parts, shares, served := b.parts(), make([]float64, len(c.Shares)), 0.0
	for i, h := range home {
		if h >= 0 {
			shares[h] += parts[i]
			served += parts[i]
		}
	}
	c.Unserved = max(0, 1-served)
	if c.Unserved < 1e-9 {
		c.Unserved = 0
	}
	for i := range c.Shares {
		if served > 0 {
			shares[i] /= served
		}
		c.Shares[i].Exact = &shares[i]
	}
	for k, failing := range b.failing {
		other, err := b.hashed(failing)
		if err != nil {
			return err
		}
		moved := 0.0
		for i, h := range home {
			if int(h) != failing && other[i] != h {
				moved += parts[i]
			}
		}
		c.Outages[k].Moved = &moved
	}
	return nil
}
