package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/load"
)

// Flags of runs with several clients.
const (
	FlagClientsApart = "clients_apart" // the clients began further apart than start_within: the run is invalid
	FlagStartUnknown = "start_unknown" // no packet of a client was seen: how far apart they began is not known
)

const (
	// clockReadings is how often each client's clock is compared with the host's; the
	// reading with the shortest round trip counts.
	clockReadings = 5
	// startLead is how far ahead the clients' start lies beyond what it takes to tell
	// them: guests that are emulated take some ms to begin a call.
	startLead = 100 * time.Millisecond
)

// startWithin is the bound on how far apart the clients of a run may begin, 0 for a
// run with one client.
func (s Setting) startWithin() time.Duration {
	if s.Clients < 2 {
		return 0
	}
	return s.StartWithin
}

// start is how several clients were started, starts.json in the raw data.
type start struct {
	// At is the machine on whose one clock the first packets were seen: the director,
	// in a run without LVS the backend that is asked.
	At      string  `json:"at"`
	WithinS float64 `json:"within_s"` // start_within
	// Agreed is the instant that all clients were told, by the host's clock.
	Agreed time.Time     `json:"agreed"`
	Clocks []clockOffset `json:"clocks"`
	// First has a row for each client that was seen, in the order of their packets.
	First   []firstPacket `json:"first"`
	Dropped uint64        `json:"dropped"` // packets that the watch lost: times are upper bounds
}

// clockOffset is where a client's clock stood beside the host's.
type clockOffset struct {
	Client  string  `json:"client"`
	OffsetS float64 `json:"offset_s"` // client − host
	WithinS float64 `json:"within_s"` // how far off that may be: half of the round trip
}

// firstPacket is the first of a client's load.
type firstPacket struct {
	Client string     `json:"client"`
	Source netip.Addr `json:"source"`
	Time   time.Time  `json:"time"` // by the clock of At
}

// spread is the time from the first packet of the first client to that of the last,
// nil when not all of so many were seen.
func (s *start) spread(clients int) *float64 {
	if s == nil || len(s.First) < clients {
		return nil
	}
	d := s.First[len(s.First)-1].Time.Sub(s.First[0].Time).Seconds()
	return &d
}

// watched asks the machine that the load goes to for the first packet of each client.
// A run with one client has nothing to compare, and clients that share an address there
// (NAT) cannot be told apart.
func (m *machinery) watched(ctx context.Context, out *measured) error {
	s := out.trial.Treatment.Setting
	if out.start = nil; s.Clients < 2 {
		return nil
	}
	at := out.cast.target(s).noun
	spec := proto.ArrivalsSpec{ID: out.before.capture, Protocol: s.Protocol, Port: out.cast.service.Port}
	for _, p := range out.cast.only(s.Clients) {
		for _, a := range out.cast.seenOf(p, s) {
			if slices.Contains(spec.Sources, a) {
				return nil
			}
			spec.Sources = append(spec.Sources, a)
		}
	}
	if _, err := do(ctx, m.lab, at, proto.ArrivalsStart, spec); err != nil {
		return err
	}
	out.start = &start{At: at.String(), WithinS: s.startWithin().Seconds()}
	return nil
}

// agree compares the clocks of the clients with the host's and settles on an instant.
// The result is that instant by each client's own clock, nil with one client: it
// begins at once.
func (m *machinery) agree(ctx context.Context, out *measured) (map[addr.Noun]int64, error) {
	if out.trial.Treatment.Setting.Clients < 2 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	clients := out.cast.only(out.trial.Treatment.Setting.Clients)
	offsets, halves, errs := make([]time.Duration, len(clients)), make([]time.Duration, len(clients)), make([]error, len(clients))
	var wg sync.WaitGroup
	for i, p := range clients {
		wg.Go(func() { offsets[i], halves[i], errs[i] = m.compareClock(ctx, p.noun) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	at := time.Now().Add(startLead + 4*slices.Max(halves))
	out.started = at
	var clocks []clockOffset
	local := map[addr.Noun]int64{}
	for i, p := range clients {
		local[p.noun] = at.Add(offsets[i]).UnixNano()
		clocks = append(clocks, clockOffset{p.noun.String(), offsets[i].Seconds(), halves[i].Seconds()})
	}
	if out.start != nil {
		out.start.Agreed, out.start.Clocks = at, clocks
	}
	return local, nil
}

// compareClock is by how much a guest's clock is ahead of the host's, and how far off
// that may be.
func (m *machinery) compareClock(ctx context.Context, n addr.Noun) (offset, half time.Duration, err error) {
	for i := range clockReadings {
		asked := time.Now()
		now, err := do(ctx, m.lab, n, proto.ClockRead, proto.None{})
		if err != nil {
			return 0, 0, err
		}
		h := time.Since(asked) / 2
		if i == 0 || h < half {
			offset, half = time.Unix(0, now.UnixNS).Sub(asked.Add(h).Round(0)), h
		}
	}
	return offset, half, nil
}

// arrived ends the watch and says what keeps the run from counting: "" when the
// clients began within their bound, or nobody can tell.
func (m *machinery) arrived(ctx context.Context, out *measured) (string, error) {
	if out.start == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readingDeadline)
	defer cancel()
	s := out.trial.Treatment.Setting
	seen, err := do(ctx, m.lab, out.cast.target(s).noun, proto.ArrivalsStop, proto.ArrivalsRef{ID: out.before.capture})
	if err != nil {
		return "", out.cutShort(err)
	}
	out.start.Dropped = seen.Dropped
	for _, a := range seen.First {
		for _, p := range out.cast.only(s.Clients) {
			known := slices.ContainsFunc(out.start.First, func(f firstPacket) bool { return f.Client == p.noun.String() })
			if !known && slices.Contains(out.cast.seenOf(p, s), a.Source) {
				out.start.First = append(out.start.First, firstPacket{p.noun.String(), a.Source, a.Time.UTC()})
			}
		}
	}
	return out.apart(), nil
}

// apart says that the clients began too far apart, "" when they did not.
func (out *measured) apart() string {
	s := out.trial.Treatment.Setting
	spread := out.start.spread(s.Clients)
	if spread == nil || *spread <= s.startWithin().Seconds() {
		return ""
	}
	first, last := out.start.First[0], out.start.First[len(out.start.First)-1]
	return fmt.Sprintf("the clients began apart: the first packet of %s came to %s %.6f s after that of %s, start_within is %s",
		last.Client, out.start.At, *spread, first.Client, s.startWithin())
}

// judgeStart names what is known about the start of several clients.
func (out *measured) judgeStart(f *findings) {
	if out.start == nil {
		return
	}
	if why := out.apart(); why != "" {
		f.broken(FlagClientsApart, "%s", why)
	}
	if n := out.trial.Treatment.Setting.Clients; out.start.spread(n) == nil {
		f.outcome(FlagStartUnknown, "%s saw packets of %d of %d clients", out.start.At, len(out.start.First), n)
	}
}

// addStart keeps how the clients were started, and what each did.
func (out *measured) addStart(files map[string][]byte) error {
	s := out.trial.Treatment.Setting
	if s.Clients < 2 {
		return nil
	}
	var table bytes.Buffer
	if err := load.WriteClients(&table, load.PerClient(out.matched.Queries, out.clients(), s.Within)); err != nil {
		return fmt.Errorf("%s: %w", artifact.ClientsFile, err)
	}
	files[artifact.ClientsFile] = table.Bytes()
	if out.start == nil {
		return nil
	}
	data, err := json.MarshalIndent(out.start, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", artifact.StartsFile, err)
	}
	files[artifact.StartsFile] = append(data, '\n')
	return nil
}

// clients are the clients of the run and when each began.
func (out *measured) clients() []load.Client {
	var list []load.Client
	var first []firstPacket
	if out.start != nil {
		first = out.start.First
	}
	for _, p := range out.cast.only(out.trial.Treatment.Setting.Clients) {
		c := load.Client{Name: p.noun.String(), Addresses: p.addresses}
		for _, f := range first {
			if f.Client == c.Name {
				after := f.Time.Sub(first[0].Time).Seconds()
				c.StartedS = &after
			}
		}
		list = append(list, c)
	}
	return list
}

// again prepares another try of a run whose clients began apart: what the load has
// brought is thrown away before anybody has looked at it.
func (m *machinery) again(ctx context.Context, out *measured, why string) error {
	s := out.trial.Treatment.Setting
	if err := m.dropCaptures(ctx, out.cast, s, out.before.capture); err != nil {
		return err
	}
	out.tries = append(out.tries, try{len(out.tries) + 1, out.started, []string{why}})
	out.before, out.start, out.loads, out.own, out.record = nil, nil, nil, nil, nil
	return m.meet(ctx, out)
}

// load carries out the load, at most three times in all when the clients begin too
// far apart. Without success in the preconditions of a further try out.before is nil.
func (m *machinery) load(ctx context.Context, out *measured) error {
	for out.before != nil {
		if err := m.watched(ctx, out); err != nil && !answered(err) {
			return err
		} else if err != nil {
			out.cut = append(out.cut, err.Error())
		}
		if err := m.drive(ctx, out); err != nil {
			return errors.Join(err, m.dropWatch(ctx, out), m.dropCaptures(ctx, out.cast, out.trial.Treatment.Setting, out.before.capture))
		}
		why, err := m.arrived(ctx, out)
		if err != nil || why == "" || len(out.cut) > 0 || len(out.tries) >= tries-1 || ctx.Err() != nil {
			return err
		}
		if err := m.again(ctx, out, why); err != nil {
			return err
		}
	}
	return nil
}

// dropWatch ends the watch of a run that is abandoned.
func (m *machinery) dropWatch(ctx context.Context, out *measured) error {
	if out.start == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var b client.Batch
	client.Add(&b, proto.ArrivalsStop, proto.ArrivalsRef{ID: out.before.capture})
	at := out.cast.target(out.trial.Treatment.Setting).noun
	if err := m.lab.send(ctx, at, &b); err != nil && !answered(err) {
		return err
	}
	return nil
}
