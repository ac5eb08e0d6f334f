package predict

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/stats"
)

// draws is how many runs stand for the chance of a treatment that draws; their
// seeds are fixed, so that a prediction is the same each time.
const draws = 200

// fill puts the counts of a treatment into its cell, by simulating at most
// budget packets.
func (b *bench) fill(c *Cell, budget int) error {
	var err error
	if c.Kind == Ports || c.Kind == Chance {
		err = b.fillDrawn(c, budget)
	} else {
		err = b.fillExact(c, budget)
	}
	for _, p := range b.processes {
		c.Ports += p.opened(b.setting.Protocol)
	}
	return err
}

func (b *bench) fillExact(c *Cell, budget int) error {
	t, err := b.run(1, nil, budget)
	if err != nil {
		return err
	}
	scale := b.scale(t, c)
	c.Entries, c.cut = t.rows, t.sent < c.Queries
	for i := range c.Shares {
		c.Shares[i].Decisions, c.Shares[i].Queries = scale.decisions(float64(t.decisions[i])), scale.queries(float64(t.queries[i]))
		c.Decisions += int(c.Shares[i].Decisions + 0.5)
	}
	c.Unserved = int(scale.queries(float64(t.unserved)) + 0.5)
	c.signature = fmt.Sprintf("%s %x %v %v", b.load(), t.hash, t.queries, t.decisions)
	if c.Kind == Time { // other times, another course
		c.signature = "timed " + c.Treatment
	}
	return nil
}

// load names what the clients do: treatments under different loads are never
// one treatment. What the director does about it is left out.
func (b *bench) load() string {
	s := b.setting
	return fmt.Sprint(s.Protocol, s.Queries, s.Sockets, s.Rate, s.Within, s.Clients, s.VIPs, s.Load, s.Fresh, s.Mode, s.Window)
}

// scaling carries the counts of a run that was cut over to the whole.
type scaling struct {
	factor float64
	fresh  bool // decisions go on to the end: they grow as queries do
}

func (b *bench) scale(t tally, c *Cell) scaling {
	if t.sent == 0 || t.sent >= c.Queries {
		return scaling{1, false}
	}
	return scaling{float64(c.Queries) / float64(t.sent), b.setting.OnePacket}
}

func (s scaling) queries(n float64) float64 { return n * s.factor }

func (s scaling) decisions(n float64) float64 {
	if s.fresh {
		return n * s.factor
	}
	return n
}

// fillDrawn repeats a run that draws and takes the middle and the edges of what
// comes out; where the chance of one decision is known, that is the middle.
func (b *bench) fillDrawn(c *Cell, budget int) error {
	n := min(draws, max(20, budget/max(1, c.Queries)))
	limit := max(1000, budget/n)
	queries, decisions := make([][]float64, len(c.Shares)), make([]float64, len(c.Shares))
	unserved := 0.0
	for r := range n {
		t, err := b.run(uint64(r+1), rand.New(rand.NewPCG(uint64(r), 77)), limit)
		if err != nil {
			return err
		}
		scale := b.scale(t, c)
		for i := range c.Shares {
			queries[i] = append(queries[i], scale.queries(float64(t.queries[i])))
			decisions[i] += scale.decisions(float64(t.decisions[i])) / float64(n)
		}
		unserved += scale.queries(float64(t.unserved)) / float64(n)
		c.Entries = t.rows
	}
	total, served := 0.0, float64(c.Queries)-unserved
	for _, d := range decisions {
		total += d
	}
	c.Decisions, c.Unserved = int(total+0.5), int(unserved+0.5)
	known, err := b.chances()
	if err != nil {
		return err
	}
	for i := range c.Shares {
		s := &c.Shares[i]
		s.Decisions, s.Queries = decisions[i], mean(queries[i])
		if known != nil {
			s.Decisions, s.Queries = known[i]*total, known[i]*served
		}
		if served > 0 {
			low, high := stats.Quantile(queries[i], 0.025)/served, stats.Quantile(queries[i], 0.975)/served
			s.Low, s.High = &low, &high
		}
	}
	c.signature = "drawn " + c.Treatment
	return nil
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// chances are the exact chances of each backend to be chosen next, nil where
// they change with each choice, or where somebody may get nobody.
func (b *bench) chances() ([]float64, error) {
	s := b.setting
	out := make([]float64, len(b.backends))
	if slices.ContainsFunc(b.services, limited) {
		return nil, nil
	}
	if s.Scheduler == "twos" {
		if !s.OnePacket {
			return nil, nil // each entry changes the loads
		}
		var weights []int
		for _, i := range s.Order {
			weights = append(weights, s.Weights[i])
		}
		for p, chance := range ipvsmodel.TwosChances(weights, make([]int, len(weights))) {
			out[s.Order[p]] = chance
		}
		return out, nil
	}
	return b.portChances(out)
}

// limited: thresholds or persistence make choices depend on each other.
func limited(s proto.IPVSService) bool {
	for _, d := range s.Destinations {
		if d.Upper > 0 || d.Weight == 0 {
			return true
		}
	}
	return s.Persistence > 0
}

// manyProcesses is where the draws have to do: asking for every port takes a
// few milliseconds a process.
const manyProcesses = 32

// portChances asks the model for every ephemeral port of every client.
func (b *bench) portChances(out []float64) ([]float64, error) {
	if len(b.processes) > manyProcesses {
		return nil, nil
	}
	loose := *b
	loose.services = slices.Clone(b.services)
	for i := range loose.services {
		loose.services[i].OnePacket = true
		loose.services[i].Protocol = "udp"
	}
	m, err := loose.model(1)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, p := range b.processes {
		total += p.queries
	}
	for _, p := range b.processes {
		part := float64(p.queries) / float64(total) / ephemeral
		pkt := ipvsmodel.Packet{Protocol: ipvsmodel.UDP, VIP: p.vip}
		for port := range ephemeral {
			pkt.Client = netip.AddrPortFrom(p.client, firstEphemeral+uint16(port))
			d := m.Packet(0, &pkt)
			if i := slices.Index(b.backends, d.Backend.Addr()); i >= 0 {
				out[i] += part
			}
		}
	}
	return out, nil
}
