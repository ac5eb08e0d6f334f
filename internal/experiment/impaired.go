package experiment

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

const (
	// byChance is how likely a proof may go wrong with everything as asked.
	byChance = 1e-6
	// mostEchoes bounds a series; a loss below about 0.7 % is not seen in so many.
	mostEchoes = 2000
	// mostTries bounds the queries that one backend is asked over a lossy path.
	mostTries = 200
	// seriesWithin bounds the wait for one series: its echoes leave one a
	// millisecond, and the last one may be on its way for the longest delay.
	seriesWithin = 30 * time.Second
)

// step is one link of a packet's way: the card by which it leaves, and the machine
// that it reaches next.
type step struct {
	from, to addr.Noun
	nic      int        // of from
	next     netip.Addr // of to, on the network between them
}

// steps follows a packet from a machine to an address.
func (c *cast) steps(n addr.Noun, to netip.Addr, owner addr.Noun) []step {
	var out []step
	for range c.lab.Topology.Machines { // the way passes each once at most
		m, _ := c.lab.Topology.Machine(n)
		r, ok := c.ways.Way(c.lab.Topology, m, to)
		if !ok {
			return out
		}
		s := step{from: n, to: r.Next, nic: r.NIC, next: r.Via}
		if r.Next.IsZero() {
			s.to = owner
			return append(out, s)
		}
		out, n = append(out, s), r.Next
	}
	return out
}

// circle is the way of a query from a client by way of the director to a backend,
// and of its answer back.
func (c *cast) circle(p part, vip netip.Addr, rs lang.RealServer) []step {
	inside := rs.Address
	for _, t := range c.lab.Topology.Tunnels {
		if t.Noun == rs.Tunnel {
			inside = t.Local
		}
	}
	out := c.steps(p.noun, vip, c.director.noun)
	out = append(out, c.steps(c.director.noun, inside, rs.Backend)...)
	return append(out, c.back(p, rs.Backend, vip)...)
}

// back is the way of an answer: to the router that has masqueraded the query, the
// last one first, and from there to the client.
func (c *cast) back(p part, backend addr.Noun, vip netip.Addr) []step {
	m, _ := c.lab.Topology.Machine(p.noun)
	var out []step
	from := backend
	for _, t := range slices.Backward(c.ways.Translated(c.lab.Topology, m, vip)) {
		out, from = append(out, c.steps(from, t.Address, t.By)...), t.By
	}
	return append(out, c.steps(from, p.addresses[0], p.noun)...)
}

// impairment of the card by which a step begins, the zero value without one.
func (c *cast) impairment(s step) lang.Impair {
	m, _ := c.lab.Topology.Machine(s.from)
	if i := m.NICs[s.nic].Impair; i != nil {
		return *i
	}
	return lang.Impair{}
}

// asked is what the cards on a way do together: no packet takes less time, and that
// part of them arrives. Jitter goes both ways, and what is reordered does not wait.
func (c *cast) asked(way []step) (least time.Duration, arrives float64) {
	arrives = 1
	for _, s := range way {
		i := c.impairment(s)
		if i.Reorder == 0 {
			least += i.Delay - i.Jitter
		}
		arrives *= 1 - i.Loss
	}
	return least, arrives
}

// repeats is how often something must be begun that comes through with that
// probability, so that it comes through once.
func repeats(p float64, most int) int {
	if p >= 1 {
		return 1
	}
	if p <= 0 {
		return most
	}
	return min(most, int(math.Ceil(math.Log(byChance)/math.Log1p(-p))))
}

// timely checks that no answer came sooner than the delays on its way allow.
func (p *prover) timely(c part, vip netip.Addr, answers []proto.QueryAnswer) error {
	servers := p.cast.service.RealServers
	for i, a := range answers {
		rs := servers[i%len(servers)]
		if err := p.inTime(c, vip, rs, a); err != nil {
			return err
		}
	}
	return nil
}

func (p *prover) inTime(c part, vip netip.Addr, rs lang.RealServer, a proto.QueryAnswer) error {
	least, _ := p.cast.asked(p.cast.circle(c, vip, rs))
	took := time.Duration(a.RTTUS) * time.Microsecond
	if took >= least {
		return nil
	}
	f := diag.Fail(nil, "A delay that was asked for is not there", "Look at the queueing of the cards on the way: lvslab exec NODE -- tc -s qdisc.",
		"%s answered %s under %s after %s; the cards on the way delay it by %s at least.", rs.Backend, c.noun, vip, took.Round(10*time.Microsecond), least)
	f.Diagnostic = f.Diagnostic.For(c.noun.String())
	return f
}

// loses reports whether a query of the client, or its answer, may be lost by design.
func (p *prover) loses(c part, vip netip.Addr) bool {
	return slices.ContainsFunc(p.cast.service.RealServers, func(rs lang.RealServer) bool {
		_, arrives := p.cast.asked(p.cast.circle(c, vip, rs))
		return arrives < 1
	})
}

// walkLossy asks each backend alone, again until it answers: with losses a walk
// over all of them is rarely whole.
func (p *prover) walkLossy(ctx context.Context, c part, vip netip.Addr, order []int) error {
	for _, i := range order {
		rs := p.cast.service.RealServers[i]
		p.hello = nil
		if _, err := p.fresh(ctx, p.proofServices([]int{i})); err != nil {
			return err
		}
		_, arrives := p.cast.asked(p.cast.circle(c, vip, rs))
		answer, err := p.insist(ctx, c, vip, repeats(arrives, mostTries))
		if err == nil {
			err = judgeOne(rs.Backend, vip, answer, true)
		}
		if err == nil {
			err = p.inTime(c, vip, rs, answer)
		}
		if err != nil && answered(err) {
			if found := p.diagnose(ctx, c, vip, i); found != nil {
				err = found
			}
		}
		if err != nil {
			return err
		}
		p.proof.Witnesses = append(p.proof.Witnesses, Witness{c.noun, vip, rs.Backend, vip, time.Duration(answer.RTTUS) * time.Microsecond})
		p.asked(c, vip, rs, answer.LocalPort)
		if p.proof.FirstAnswer.IsZero() {
			p.proof.FirstAnswer = time.Now()
		}
	}
	p.stale = true // the next walk needs the whole list again
	return nil
}

func (p *prover) insist(ctx context.Context, c part, vip netip.Addr, n int) (answer proto.QueryAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline+time.Duration(n)*probeTimeout)
	defer cancel()
	for range n {
		if answer, err = do(ctx, p.lab, c.noun, proto.Query, p.identity(c, vip)); err == nil || !answered(err) {
			break
		}
	}
	return answer, err
}

// losses sends a series of echoes over every link that shall lose packets, long
// enough that one is missing for sure; where none is, nothing is lost there.
func (p *prover) losses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*seriesWithin)
	defer cancel()
	r := p.lab.round()
	type series struct {
		step
		n      int
		result *client.Future[proto.PingResult]
	}
	var all []series
	for _, s := range p.lossy() {
		there := p.cast.impairment(s)
		n := repeats(there.Loss, mostEchoes)
		if there.Loss == 0 || math.Pow(1-there.Loss, float64(n)) > 2*byChance {
			continue
		}
		f := client.Add(r.on(s.from), proto.Ping, proto.PingSpec{Address: s.next, Count: n, TimeoutMS: seriesWithin.Milliseconds()})
		all = append(all, series{s, n, f})
	}
	if len(all) == 0 {
		return nil
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	for _, s := range all {
		if got := s.result.Value().Received; got >= s.n {
			f := diag.Fail(nil, "A loss that was asked for is not there", "Look at the queueing of the card: lvslab exec NODE -- tc -s qdisc.",
				"%s shall lose %s of what it sends to %s, and all %d echoes were answered.", s.from, share(p.cast.impairment(s.step).Loss), s.to, s.n)
			f.Diagnostic = f.Diagnostic.For(s.from.String())
			return f
		}
	}
	return nil
}

func share(x float64) string { return fmt.Sprintf("%.3g%%", 100*x) }

// lossy lists the links of all circles on which packets shall be lost, each once.
func (p *prover) lossy() []step {
	var out []step
	for _, c := range p.cast.clients {
		for _, vip := range p.cast.service.VIPs {
			for _, rs := range p.cast.service.RealServers {
				for _, s := range p.cast.circle(c, vip, rs) {
					if p.cast.impairment(s).Loss > 0 && !slices.Contains(out, s) {
						out = append(out, s)
					}
				}
			}
		}
	}
	return out
}
