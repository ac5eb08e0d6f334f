package population

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/replay"
)

// bench is one treatment of a population on the model.
type bench struct {
	services  []proto.IPVSService
	sysctls   map[string]string
	backends  []netip.Addr // declared order
	failures  []lang.Failure
	failing   []int // the backend of each failure
	crowd     crowd
	timeout   float64 // seconds
	duration  float64
	onePacket bool
	seed      int64
}

// outcome is what came of one simulation, in queries of the population. All but
// lost is of the time before the first failure.
type outcome struct {
	shares    []float64 // of the queries that somebody got
	decisions float64   // of all queries
	entries   float64
	unserved  float64   // of all queries
	lost      []float64 // queries that each failure cost
	packets   int
}

// portStep goes through the ports of an address, each once: it has no factor in
// common with either number of them.
const portStep = 4637

func (b *bench) simulate(budget int, draw uint64) (outcome, error) {
	rng := rand.New(rand.NewPCG(uint64(b.seed), draw))
	s := b.crowd.draw(min(b.timeout, b.until()), b.duration, b.onePacket, budget, b.seed, rng)
	m, err := replay.Model(b.scaled(s.part), b.sysctls, ipvsmodel.Kernel{}, draw)
	if err != nil {
		return outcome{}, fmt.Errorf("set up the model: %w", err)
	}
	r := run{b: b, m: m, s: s, rng: rng, out: outcome{shares: make([]float64, len(b.backends)), lost: make([]float64, len(b.failures))}, index: map[netip.Addr]int{}, gone: map[netip.AddrPort]int{}}
	for i, a := range b.backends {
		r.index[a] = i
	}
	for i := range b.failures {
		r.gone[netip.AddrPortFrom(b.backends[b.failing[i]], b.port(i))] = i
	}
	if err := r.all(); err != nil {
		return outcome{}, err
	}
	return r.out, nil
}

// scaled are the services with thresholds for the part that is simulated.
func (b *bench) scaled(part float64) []proto.IPVSService {
	out := slices.Clone(b.services)
	for i := range out {
		out[i].Destinations = slices.Clone(out[i].Destinations)
		for k := range out[i].Destinations {
			d := &out[i].Destinations[k]
			if d.Upper > 0 {
				d.Upper = max(1, int(math.Round(float64(d.Upper)*part)))
				d.Lower = int(math.Round(float64(d.Lower) * part))
			}
		}
	}
	return out
}

// destination is what a failure takes away.
func (b *bench) destination(failure int) proto.IPVSDestination {
	for _, d := range b.services[0].Destinations {
		if d.Address == b.backends[b.failing[failure]] {
			return d
		}
	}
	return proto.IPVSDestination{}
}

func (b *bench) port(failure int) uint16 { return b.destination(failure).Port }

// run is a simulation under way.
type run struct {
	b     *bench
	m     *ipvsmodel.Model
	s     sample
	rng   *rand.Rand
	out   outcome
	index map[netip.Addr]int
	gone  map[netip.AddrPort]int // failure by destination
	dead  []bool                 // by backend: answers nothing
	owner map[flow]int32         // whose backend was removed, by flow: the failure

	asked, total float64 // queries, until the first failure and in all
	late         bool    // after the first failure
}

// flow names an entry.
type flow struct{ client, vip netip.AddrPort }

// change is one event of a failure.
type change struct {
	at   float64
	what func() error
}

func (r *run) changes() []change {
	out := []change{{r.b.until(), func() error { r.halt(); return nil }}}
	for i, f := range r.b.failures {
		who := r.b.failing[i]
		at := f.At.Seconds()
		out = append(out, change{at, func() error { r.dead[who] = true; return nil }},
			change{at + f.Noticed.Seconds(), func() error { return r.remove(i) }})
		if f.Back > 0 {
			out = append(out, change{f.Back.Seconds(), func() error { r.dead[who] = false; return r.restore(i) }})
		}
	}
	slices.SortStableFunc(out, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return out
}

func (r *run) keys() []ipvsmodel.Key {
	var out []ipvsmodel.Key
	for _, s := range r.b.services {
		out = append(out, ipvsmodel.Key{Protocol: ipvsmodel.UDP, VIP: netip.AddrPortFrom(s.VIP, s.Port)})
	}
	return out
}

// remove takes a backend out, and remembers whose entries lead to it.
func (r *run) remove(failure int) error {
	d := r.b.destination(failure)
	at := netip.AddrPortFrom(d.Address, d.Port)
	if r.owner == nil {
		r.owner = map[flow]int32{}
	}
	for _, e := range r.m.Entries() {
		if e.Backend == at {
			r.owner[flow{e.Client, e.VIP}] = int32(failure)
		}
	}
	for _, k := range r.keys() {
		if err := r.m.DeleteDestination(k, at); err != nil {
			return fmt.Errorf("remove %v: %w", at, err)
		}
	}
	return nil
}

func (r *run) restore(failure int) error {
	d := r.b.destination(failure)
	for _, k := range r.keys() {
		spec := ipvsmodel.Destination{Address: netip.AddrPortFrom(d.Address, d.Port), Weight: d.Weight, Upper: d.Upper, Lower: d.Lower, Forward: ipvsmodel.Direct}
		if err := r.m.AddDestination(k, spec); err != nil {
			return fmt.Errorf("bring %v back: %w", spec.Address, err)
		}
	}
	return nil
}

// all lets the sample ask until the end.
func (r *run) all() error {
	r.dead = make([]bool, len(r.b.backends))
	if len(r.s.askers) == 0 {
		return nil
	}
	table, todo := newAlias(r.s), r.changes()
	p := ipvsmodel.Packet{Protocol: ipvsmodel.UDP}
	for at := 0.0; ; {
		at += r.rng.ExpFloat64() / r.s.rate
		for len(todo) > 0 && todo[0].at <= min(at, r.b.duration) {
			r.m.Advance(seconds(todo[0].at))
			if err := todo[0].what(); err != nil {
				return err
			}
			todo = todo[1:]
		}
		if at >= r.b.duration {
			break
		}
		a := &r.s.askers[table.draw(r.rng)]
		r.address(a, &p)
		r.total += a.queries
		r.count(a, &p, r.m.Packet(seconds(at), &p))
		r.out.packets++
	}
	for i := range r.out.lost {
		r.out.lost[i] *= r.b.crowd.rate * r.b.duration / r.total
	}
	return nil
}

// until is when the first backend fails, or the end.
func (b *bench) until() float64 {
	out := b.duration
	for _, f := range b.failures {
		out = min(out, f.At.Seconds())
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// address fills in where the next query of an asker comes from and goes to.
func (r *run) address(a *asker, p *ipvsmodel.Packet) {
	port := r.rng.IntN(a.size)
	vip := a.vip + port
	if !a.kept {
		vip = r.rng.IntN(len(r.b.services))
	}
	port = (a.offset + port) * portStep % r.b.crowd.ports // a few of them lie everywhere in the range
	vip %= len(r.b.services)
	p.Client = netip.AddrPortFrom(a.client, uint16(a.first+port))
	p.VIP = netip.AddrPortFrom(r.b.services[vip].VIP, r.b.services[vip].Port)
}

// count books a decision.
func (r *run) count(a *asker, p *ipvsmodel.Packet, d ipvsmodel.Decision) {
	if r.late {
		r.blame(a, p, d)
		return
	}
	r.asked += a.queries
	if d.Why == ipvsmodel.ByScheduler {
		r.out.decisions += a.flows
	}
	if d.Backend.IsValid() {
		r.out.shares[r.index[d.Backend.Addr()]] += a.queries
	} else {
		r.out.unserved += a.queries
	}
}

// blame finds the failure that a query was lost by.
func (r *run) blame(a *asker, p *ipvsmodel.Packet, d ipvsmodel.Decision) {
	if d.Why == ipvsmodel.Gone {
		if f, known := r.owner[flow{p.Client, p.VIP}]; known {
			r.out.lost[f] += a.queries
		}
		return
	}
	if d.Backend.IsValid() && r.dead[r.index[d.Backend.Addr()]] {
		r.out.lost[r.gone[d.Backend]] += a.queries
	}
}

// halt turns the counts into parts and looks at the table, when the first
// backend fails or at the end.
func (r *run) halt() {
	r.late = true
	stands := r.stands()
	for _, e := range r.m.Entries() {
		n, ok := stands[e.Client]
		if !ok {
			n, ok = stands[netip.AddrPortFrom(e.Client.Addr(), 0)]
		}
		if !ok {
			n = 1 // a template of a masked address
		}
		r.out.entries += n
	}
	served := r.asked - r.out.unserved
	for i := range r.out.shares {
		if served > 0 {
			r.out.shares[i] /= served
		}
	}
	if r.asked > 0 {
		r.out.entries *= r.b.crowd.rate * r.b.until() / r.asked // the sample may be busier than all
		r.out.decisions /= r.asked
		r.out.unserved /= r.asked
	}
}

// stands are the flows that a flow stands for, by its address and port; port 0
// is for every port.
func (r *run) stands() map[netip.AddrPort]float64 {
	out := map[netip.AddrPort]float64{}
	for i := range r.s.askers {
		a := &r.s.askers[i]
		out[netip.AddrPortFrom(a.client, 0)] = a.flows
		for k := 0; a.kept && k < a.size; k++ {
			out[netip.AddrPortFrom(a.client, uint16(a.first+(a.offset+k)*portStep%r.b.crowd.ports))] = a.flows
		}
	}
	return out
}
