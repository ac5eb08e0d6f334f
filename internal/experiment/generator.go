package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/load"
)

// loadMode is what runs.csv calls the generator and its loop.
func (s Setting) loadMode() string {
	if s.Load == "" {
		return lang.LoadDNSPerf
	}
	return s.Load + "-" + s.Mode
}

// possible refuses loads that the agent's generator would not take; processes is
// the largest number of them that a client runs.
func possible(s Setting, processes int) error {
	waiting := s.Rate * s.Within.Seconds()
	switch each := (s.Queries + processes - 1) / processes; {
	case s.Load == "":
		return nil
	case s.Queries > load.MostAsked:
		return fmt.Errorf("%s asks %d queries of a client at most, not %d: it keeps a record of each", s.Load, load.MostAsked, s.Queries)
	case s.Fresh && each*s.VIPs > load.PortCount:
		return fmt.Errorf("an address has %d source ports, and %d queries want one each: use fewer queries or more addresses", load.PortCount, s.Queries)
	case s.portsOfOne(each) > load.PortCount/s.sharers():
		return fmt.Errorf("%d client addresses are one behind their router and share its %d source ports, and each wants %d: use fewer queries or sockets, or a second router",
			s.sharers(), load.PortCount, s.portsOfOne(each))
	case s.Mode == lang.ModeOpen && s.Rate == 0:
		return errors.New("an open loop sends by the clock and needs a rate above 0")
	case s.Mode == lang.ModeOpen && waiting > load.MostWaiting:
		return fmt.Errorf("at %v a second %.0f queries may wait for their timeout at a time, at most %d: lower the rate or the timeout", s.Rate, math.Ceil(waiting), load.MostWaiting)
	case s.Rate > 0 && float64(s.Queries)/s.Rate > load.MostPaced.Seconds():
		return fmt.Errorf("%d queries at %v a second take longer than %s", s.Queries, s.Rate, load.MostPaced)
	}
	return nil
}

// portsOfOne is how many source ports an address needs for all VIPs.
func (s Setting) portsOfOne(queries int) int {
	if s.Fresh {
		return queries * s.VIPs
	}
	return s.Sockets * s.VIPs
}

// sharers is the number of addresses in the largest group that is one for the
// director, 1 without any.
func (s Setting) sharers() int {
	most := 1
	for a := range s.Seen {
		most = max(most, load.ShareOf(a, s.Seen).Of)
	}
	return most
}

// SourcePorts are the source ports of the process that a client's address runs for
// the vip-th VIP, counted from 0, in the order of their use; nil when the kernel
// draws them.
func SourcePorts(e lang.Experiment, s Setting, from netip.Addr, vip, queries int) ([]uint16, error) {
	if s.Load != lang.LoadLVSLab {
		return nil, nil
	}
	n := s.Sockets
	if s.Fresh {
		n = queries
	}
	return load.PortsOf(e.Seed, load.ShareOf(from, s.Seen), vip, s.VIPs, n)
}

// PortsUsed are the source ports that the runs of an experiment use, by client
// address, in order: with V VIPs the k-th port of the v-th is number k·V+v, both
// counted from 0. nil when the clients' kernels draw them.
func PortsUsed(t *lang.Topology, e lang.Experiment, treatments []Treatment) (map[string][]uint16, error) {
	if e.Load.Kind != lang.LoadLVSLab {
		return nil, nil
	}
	most, shares := map[netip.Addr]int{}, map[netip.Addr]load.PortShare{}
	for _, tr := range treatments {
		s := tr.Setting
		for _, n := range e.Clients[:s.Clients] {
			m, ok := t.Machine(n)
			if !ok || len(m.NICs) == 0 {
				continue
			}
			pairs := len(m.NICs[0].Addresses) * s.VIPs
			n := s.Sockets
			if s.Fresh {
				n = (s.Queries + pairs - 1) / pairs
			}
			for _, from := range m.NICs[0].Addresses {
				most[from], shares[from] = max(most[from], n*s.VIPs), load.ShareOf(from, s.Seen)
			}
		}
	}
	out := map[string][]uint16{}
	for from, n := range most {
		ports, err := shares[from].Ports(e.Seed, min(n, shares[from].Most()))
		if err != nil {
			return nil, err
		}
		out[from.String()] = ports
	}
	return out, nil
}

// jobs are the processes of one client.
func (m *machinery) jobs(c *cast, p part, s Setting) ([]load.Job, error) {
	if s.Load == lang.LoadLVSLab {
		return load.Generator{
			VIPs: c.targets(s), Port: c.service.Port, From: p.addresses, Seen: s.Seen, Protocol: s.Protocol, Questions: m.questions,
			Queries: s.Queries, Sockets: s.Sockets, Open: s.Mode == lang.ModeOpen, Window: s.Window, Rate: s.Rate, Timeout: s.Within, Seed: m.exp.Seed, Dir: guestDir,
		}.Jobs()
	}
	return load.DNSPerf{
		VIPs: c.targets(s), Port: c.service.Port, From: p.addresses, Protocol: s.Protocol,
		Questions: m.questions, Queries: s.Queries, Sockets: s.Sockets, Rate: s.Rate, Timeout: s.Within, Identify: c.hidden(), Dir: guestDir,
	}.Jobs()
}

// ownResult is one process of the agent's generator.
type ownResult struct {
	process process
	result  proto.DNSLoadResult
	done    bool
}

// generate lets all generators of all clients work, from at on by their own clocks,
// and reads their records.
func (m *machinery) generate(ctx context.Context, out *measured, at map[addr.Noun]int64) error {
	s := out.trial.Treatment.Setting
	out.own = make([]ownResult, len(out.processes))
	errs := make([]error, len(out.processes))
	hidden := out.cast.hidden()
	var wg sync.WaitGroup
	for i, p := range out.processes {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, p.bound+prepareDeadline)
			defer cancel()
			res, err := do(ctx, m.lab, p.client, proto.DNSLoad, proto.DNSLoadSpec{
				Server: netip.AddrPortFrom(p.VIP, out.cast.service.Port), From: p.From, Protocol: s.Protocol, Path: p.Path, Queries: p.Queries,
				Ports: p.Ports, Fresh: s.Fresh, Open: s.Mode == lang.ModeOpen, Window: s.Window, Rate: p.Rate,
				WithinMS: s.Within.Milliseconds(), TimeoutMS: p.bound.Milliseconds(), Device: p.device, Identify: hidden, StartNS: at[p.client],
			})
			out.own[i], errs[i] = ownResult{p, res, err == nil}, err
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil && !answered(err) {
			return err
		}
		if err == nil {
			var rows []load.Asked
			if rows, err = load.ReadRecord(bytes.NewReader(out.own[i].result.Record)); err == nil {
				out.record = append(out.record, rows...)
				continue
			}
		}
		out.own[i].done = false
		out.cut = append(out.cut, fmt.Sprintf("%s: %v", out.processes[i].client, err))
	}
	return ctx.Err()
}

// witness names the machines in the record and holds it against the captures.
// Rows are in order of their start.
func (m *machinery) witness(out *measured) {
	for i := range out.record {
		if n := m.nodes[out.record[i].Backend]; n != "" {
			out.record[i].Backend = n
		}
	}
	slices.SortStableFunc(out.record, func(a, b load.Asked) int { return a.Started.Compare(b.Started) })
	out.judged = load.Judge(out.record, out.matched.Queries)
}

// ownReport is what the generators say of themselves. Each query that was tried
// counts as sent: a connection that was refused is a query without an answer.
func (out *measured) ownReport() reportSum {
	sum := reportSum{complete: true, sent: out.judged.Started, completed: out.judged.Answered}
	for _, o := range out.own {
		sum.complete = sum.complete && o.done
		sum.interrupted = sum.interrupted || o.result.Cut != ""
		sum.runS = max(sum.runS, o.result.Wall.Seconds())
	}
	return sum
}

// judgeGenerator holds the generator's word against the capture's.
func (out *measured) judgeGenerator(f *findings) {
	if len(out.own) == 0 {
		return
	}
	w := out.judged.Witness
	if w.Contradicts() {
		f.broken(FlagCountsContradict, "the generator's record and the capture differ: %d queries not in the record, %d answers not in the capture, "+
			"%d with another content, %d from another machine; the first: %s", w.NotAsked, w.NotCarried, w.Content, w.Backend, w.First)
	}
	if w.NotTaken > 0 {
		f.outcome(FlagNotTaken, "%d answers reached the client's NIC in time and the generator too late or never; the first: %s", w.NotTaken, w.First)
	}
	if t := out.judged.Timing; t.Missed > 0 && out.trial.Treatment.Setting.Mode == lang.ModeOpen {
		f.outcome(FlagDeadlinesMissed, "%d of %d queries left when the next one was due, or later; the worst %.6f s after its time", t.Missed, t.Paced, *t.Max)
	}
}

// generatorFile is generator.json.
type generatorFile struct {
	Mode   string  `json:"mode"`
	Window int     `json:"window,omitempty"`
	Rate   float64 `json:"rate,omitempty"`
	Fresh  bool    `json:"fresh,omitempty"`
	load.Own
	// Strange and Unwatched cannot be found in the record.
	Strange   int       `json:"strange"`
	Unwatched uint64    `json:"unwatched"`
	Processes []ownFile `json:"processes"`
}

// ownFile is one process in generator.json.
type ownFile struct {
	Client string  `json:"client"`
	From   string  `json:"from"`
	VIP    string  `json:"vip"`
	WallS  float64 `json:"wall_s"`
	Cut    string  `json:"cut,omitempty"`
	Lost   bool    `json:"lost,omitempty"` // it left no record
}

// addGenerator keeps what the load generator said.
func (out *measured) addGenerator(files map[string][]byte) error {
	if len(out.own) == 0 {
		files["dnsperf.txt"] = out.dnsperfText()
		return nil
	}
	s := out.trial.Treatment.Setting
	g := generatorFile{Mode: s.Mode, Window: s.Window, Rate: s.Rate, Fresh: s.Fresh, Own: out.judged}
	for _, o := range out.own {
		g.Strange += o.result.Strange
		g.Unwatched += o.result.Unwatched
		g.Processes = append(g.Processes, ownFile{o.process.client.String(), o.process.From.String(), o.process.VIP.String(), o.result.Wall.Seconds(), o.result.Cut, !o.done})
	}
	data, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", artifact.GeneratorSummaryFile, err)
	}
	files[artifact.GeneratorSummaryFile] = append(data, '\n')
	var record bytes.Buffer
	if err := load.WriteRecord(&record, out.record); err != nil {
		return fmt.Errorf("%s: %w", artifact.GeneratorFile, err)
	}
	files[artifact.GeneratorFile] = record.Bytes()
	return nil
}
