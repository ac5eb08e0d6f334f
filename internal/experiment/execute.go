package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/load"
	"github.com/lvslab/lvslab/internal/replay"
)

const (
	// settleWithin bounds the wait for IPVS's counters: the estimator runs
	// every 2 s (ip_vs_est.c), the wait was 1.23 s on average and never above 2.
	settleWithin = 8 * time.Second
	// quiet is how long a client's NIC must be silent before its capture ends.
	// An answer that is on its way when dnsperf exits arrives within
	// milliseconds; impaired networks add their delay, see quietFor.
	quiet = 100 * time.Millisecond
	// quietWithin bounds that wait when packets never cease.
	quietWithin = 5 * time.Second
	// readingDeadline bounds what follows the load.
	readingDeadline = 60 * time.Second
)

// measured is everything that a run brought home.
type measured struct {
	trial        Trial
	cast         *cast
	before       *baseline
	processes    []process
	started      time.Time    // of the load, on the host's clock
	start        *start       // of several clients, nil with one
	loads        []loadResult // of dnsperf
	own          []ownResult  // of the agent's generator
	record       []load.Asked // what it saw, all processes
	judged       load.Own     // what it says, beside the capture
	captures     map[addr.Noun]proto.CaptureResult
	stats        proto.IPVSStats
	after        map[addr.Noun]proto.CounterSet
	klog         map[addr.Noun][]proto.KernelLine
	matched      load.Matched
	summary      load.Summary
	planned      map[string]int // decisions by backend, nil when they are not certain
	replay       replay.Result  // the model's word on what was captured
	keepCaptures bool
	duplicating  bool // an impairment makes copies of packets
	renewed      []Renewed
	tries        []try    // of the preconditions, the failed ones
	cut          []string // why the run was cut short, nil when it was not
}

// try is one failed attempt to meet the preconditions.
type try struct {
	Number int       `json:"try"` // from 1
	At     time.Time `json:"at"`
	Failed []string  `json:"failed"`
}

// loadResult is one dnsperf process and what it said.
type loadResult struct {
	process process
	result  proto.DNSPerfResult
}

// drive is the first half of step 7: all processes of all clients start
// together, those of several clients at an agreed instant. An error that a guest
// reports cuts the run short, and what was sent until then is still measured.
func (m *machinery) drive(ctx context.Context, out *measured) error {
	all := out.processes
	errs := make([]error, len(all))
	out.started = time.Now()
	at, err := m.agree(ctx, out)
	if err != nil && !answered(err) {
		return err
	} else if err != nil {
		out.cut = append(out.cut, err.Error())
	}
	if out.trial.Treatment.Setting.Load == lang.LoadLVSLab {
		return m.generate(ctx, out, at)
	}
	out.loads = make([]loadResult, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, p.bound+prepareDeadline)
			defer cancel()
			res, err := do(ctx, m.lab, p.client, proto.DNSPerf, proto.DNSPerfSpec{
				Args: p.Args, From: p.From, TimeoutMS: p.bound.Milliseconds(), StartNS: at[p.client],
			})
			out.loads[i], errs[i] = loadResult{p, res}, err
		})
	}
	wg.Wait()
	for i, err := range errs {
		switch {
		case err == nil && out.loads[i].result.Exit != 0:
			out.cut = append(out.cut, fmt.Sprintf("%s: dnsperf ended with exit code %d", all[i].client, out.loads[i].result.Exit))
		case err != nil && answered(err):
			out.cut = append(out.cut, err.Error())
		case err != nil:
			return err
		}
	}
	return ctx.Err()
}

// read is the second half of step 7. The director waits for its estimator;
// meanwhile the captures end, the other machines are read, and the captures are
// matched: the whole of it takes as long as the estimator does.
func (m *machinery) read(ctx context.Context, out *measured) error {
	// The load is done: what it brought is kept, even when the user has
	// interrupted by now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readingDeadline)
	defer cancel()
	var wg sync.WaitGroup
	var settleErr error
	wg.Go(func() { settleErr = m.settle(ctx, out) })
	err := m.collect(ctx, out)
	if err == nil || answered(err) {
		err = errors.Join(err, m.match(out))
	}
	wg.Wait()
	return out.cutShort(errors.Join(err, settleErr))
}

// cutShort keeps what guests reported as reasons why the run does not count;
// any other error stays one.
func (out *measured) cutShort(err error) error {
	if err == nil {
		return nil
	}
	words, err := failedWords(err)
	out.cut = append(out.cut, words...)
	return err
}

// match finds the outcome of every query in the clients' captures.
func (m *machinery) match(out *measured) error {
	s := out.trial.Treatment.Setting
	var parts []load.Matched
	for _, p := range out.cast.only(s.Clients) {
		c, ok := out.captures[p.noun]
		if !ok {
			continue // its reading failed, which is on record
		}
		matched, err := load.Match(bytes.NewReader(c.Pcap), load.MatchSpec{
			Clients: p.addresses, VIPs: out.cast.targets(s), Port: out.cast.service.Port,
			Expected: m.expected, Timeout: s.Within, Nodes: m.nodes, Identities: m.identities(out.cast),
		})
		if err != nil {
			out.cut = append(out.cut, fmt.Sprintf("%s: %v", p.noun, err))
		}
		parts = append(parts, matched)
	}
	out.matched = load.Merge(parts...)
	if len(out.own) > 0 {
		m.witness(out)
	}
	out.summary = load.Summarise(out.matched.Queries, s.Within)
	return nil
}

// settle reads the director.
func (m *machinery) settle(ctx context.Context, out *measured) error {
	d := out.cast.director
	r := m.lab.round()
	stats := client.Add(r.on(d.noun), proto.IPVSSettled, proto.IPVSSettleSpec{
		Baseline: out.before.fresh.Baseline, WithinMS: settleWithin.Milliseconds(),
	})
	counters := client.Add(r.on(d.noun), proto.Counters, out.cast.counters(d))
	log := client.Add(r.on(d.noun), proto.KernelLog, proto.KernelLogSpec{Since: m.since(d.noun)})
	if err := r.run(ctx); err != nil {
		return err
	}
	out.stats = stats.Value()
	m.keep(out, d.noun, counters.Value(), log.Value())
	return nil
}

// collect ends the captures, waiting until the network is quiet, and then
// reads clients and backends.
func (m *machinery) collect(ctx context.Context, out *measured) error {
	s := out.trial.Treatment.Setting
	r := m.lab.round()
	stops := map[addr.Noun]*client.Future[proto.CaptureResult]{}
	for _, p := range out.cast.only(s.Clients) {
		stops[p.noun] = client.Add(r.on(p.noun), proto.CaptureStop, proto.CaptureRef{
			ID: out.before.capture, QuietMS: m.quietFor().Milliseconds(), WithinMS: quietWithin.Milliseconds(),
		})
	}
	reading := addReadings(m, r, out.cast, out.cast.only(s.Clients))
	err := r.run(ctx)
	for n, f := range stops {
		if f.Err() == nil {
			out.captures[n] = f.Value()
		}
	}
	reading(out)
	if err != nil && !answered(err) {
		return err
	}
	r = m.lab.round()
	reading = addReadings(m, r, out.cast, out.cast.backends)
	err = errors.Join(err, r.run(ctx))
	reading(out)
	return err
}

// addReadings adds the readings after the load to a round; the function that
// it returns stores them once the round has run.
func addReadings(m *machinery, r *round, c *cast, parts []part) func(*measured) {
	counters := make([]*client.Future[proto.CounterSet], len(parts))
	logs := make([]*client.Future[[]proto.KernelLine], len(parts))
	for i, p := range parts {
		counters[i] = client.Add(r.on(p.noun), proto.Counters, c.counters(p))
		logs[i] = client.Add(r.on(p.noun), proto.KernelLog, proto.KernelLogSpec{Since: m.since(p.noun)})
	}
	return func(out *measured) {
		for i, p := range parts {
			m.keep(out, p.noun, counters[i].Value(), logs[i].Value())
		}
	}
}

// keep stores what was read from a machine after the load.
func (m *machinery) keep(out *measured, n addr.Noun, counters proto.CounterSet, log []proto.KernelLine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out.after[n] = counters
	if len(log) > 0 {
		out.klog[n] = log // the next run's baseline moves on past them
	}
}

// quietFor is quiet, longer where netem delays packets.
func (m *machinery) quietFor() time.Duration {
	longest := time.Duration(0)
	for _, machine := range m.lab.Topology.Machines {
		for _, nic := range machine.NICs {
			if nic.Impair != nil {
				longest = max(longest, nic.Impair.Delay+4*nic.Impair.Jitter)
			}
		}
	}
	// client → director → backend → client, each with routers in between
	hops := 1
	for _, machine := range m.lab.Topology.Machines {
		if machine.Noun.Kind == addr.Router {
			hops++
		}
	}
	return quiet + 3*time.Duration(hops)*longest
}
