// Package dnsload is lvslab's own load generator: it asks DNS queries from source
// ports that are known beforehand, one for all, some in turn or a fresh one for
// each query, over UDP or TCP, in a closed or an open loop, and keeps a record of
// every query. It runs in the agent, in a guest.
//
// One thread waits for all sockets and for the clock (epoll, timerfd), so queries
// leave in the order of the list and nothing but the kernel stands between a
// query's time and its packet.
package dnsload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/load"
)

// Run asks all queries (lines of name and type) and returns the record. It ends
// when all are decided, when spec's time is up or when ctx ends; only the last is
// an error, beside a spec that cannot be carried out.
func Run(ctx context.Context, spec proto.DNSLoadSpec, lines []byte) (proto.DNSLoadResult, error) {
	if err := check(spec); err != nil {
		return proto.DNSLoadResult{}, err
	}
	g := &generator{spec: spec, within: time.Duration(spec.WithinMS) * time.Millisecond, waiting: map[key]int{}}
	if err := g.questions(lines); err != nil {
		return proto.DNSLoadResult{}, err
	}
	if spec.Rate > 0 {
		g.gap = float64(time.Second) / spec.Rate
	}
	if err := g.open(); err != nil {
		g.close()
		return proto.DNSLoadResult{}, err
	}
	defer g.close()
	stop := context.AfterFunc(ctx, g.loop.wake)
	defer stop()
	g.began = time.Now()
	g.end = g.began.Add(time.Duration(spec.TimeoutMS) * time.Millisecond)
	if err := g.drive(ctx); err != nil {
		return proto.DNSLoadResult{}, err
	}
	out := proto.DNSLoadResult{Start: g.began, Wall: time.Since(g.began), Strange: g.strange, Unwatched: g.watch.lost(), Cut: g.cut}
	var record bytes.Buffer
	if err := load.WriteRecord(&record, g.asked); err != nil {
		return out, err
	}
	out.Record = record.Bytes()
	return out, nil
}

// ErrSpec says that a load cannot be carried out as it is asked for.
var ErrSpec = errors.New("impossible load")

func check(s proto.DNSLoadSpec) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrSpec, fmt.Sprintf(format, args...))
	}
	switch {
	case !s.Server.Addr().Is4() || !s.From.Is4():
		return bad("IPv4 only, not %s from %s", s.Server, s.From)
	case s.Protocol != "udp" && s.Protocol != "tcp":
		return bad("protocol %q", s.Protocol)
	case s.Queries < 1 || s.Queries > load.MostAsked:
		return bad("%d queries, want 1 to %d", s.Queries, load.MostAsked)
	case len(s.Ports) == 0 || s.Fresh && len(s.Ports) < s.Queries:
		return bad("%d source ports for %d queries", len(s.Ports), s.Queries)
	case s.Rate < 0 || math.IsNaN(s.Rate) || math.IsInf(s.Rate, 0):
		return bad("rate %v", s.Rate)
	case s.Open && s.Rate == 0:
		return bad("an open loop without a rate")
	case !s.Open && (s.Window < 1 || s.Window > load.MostWaiting):
		return bad("a window of %d", s.Window)
	case s.WithinMS < 1 || s.TimeoutMS < 1:
		return bad("%d ms for an answer, %d ms in all", s.WithinMS, s.TimeoutMS)
	}
	return nil
}

// generator is one load under way.
type generator struct {
	spec   proto.DNSLoadSpec
	within time.Duration
	gap    float64 // between two queries, nanoseconds; 0 = none
	loop   *loop
	watch  *watch // nil = nobody looks at MAC addresses

	packets [][]byte // the message of each line, to be given its id
	asked   []load.Asked
	socket  []*socket // of each query while it waits

	sockets  []*socket // those that are kept, by their place in spec.Ports
	resting  []*socket // used up ones that may still get something
	waiting  map[key]int
	order    []turn // time-outs in the order of their times
	inflight int    // queries started and not decided
	next     int    // the query whose turn it is
	decided  int

	began, clock, end time.Time // clock is when the first query is due
	strange           int
	cut               string
}

// turn is when a query is given up: its connection as well as its answer has the
// whole time.
type turn struct {
	n          int
	at         time.Time
	connecting bool // over when the query was sent
}

// over: nothing is to be given up at this turn any more.
func (g *generator) over(t turn) bool {
	return g.asked[t.n].Result != "" || t.connecting && !g.asked[t.n].Sent.IsZero()
}

// key finds the query that an answer belongs to.
type key struct {
	port uint16
	id   uint16
}

// drive is the loop: what is due is sent, what has come is read, what has waited
// too long is given up.
func (g *generator) drive(ctx context.Context) error {
	if err := g.connectAll(ctx); err != nil {
		return err
	}
	g.clock = time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		if !now.Before(g.end) {
			g.stop("the time was up")
		}
		g.expire(now)
		g.send(now)
		if g.decided == len(g.asked) {
			return nil
		}
		if err := g.loop.wait(g.nextEvent(), g.readable); err != nil {
			return err
		}
	}
}

// due is when a query is to be started.
func (g *generator) due(n int) time.Time { return g.clock.Add(time.Duration(float64(n) * g.gap)) }

// full: a closed loop sends no further query.
func (g *generator) full() bool { return !g.spec.Open && g.inflight >= g.spec.Window }

// send starts all queries whose turn has come.
func (g *generator) send(now time.Time) {
	for g.next < len(g.asked) && !g.full() {
		if g.gap > 0 {
			if due := g.due(g.next); due.After(now) {
				return
			}
			g.asked[g.next].Scheduled = g.due(g.next)
		}
		n := g.next
		g.next++
		g.start(n)
		now = time.Now()
		if !now.Before(g.end) {
			return
		}
		if g.inflight > 0 && g.gap == 0 && n%8 == 7 {
			return // read in between: a burst must not overflow what comes back
		}
	}
}

// nextEvent is when the loop must look again, whatever comes.
func (g *generator) nextEvent() time.Time {
	at := g.end
	if g.next < len(g.asked) && !g.full() {
		if g.gap == 0 {
			return time.Time{} // at once
		}
		if due := g.due(g.next); due.Before(at) {
			at = due
		}
	}
	for len(g.order) > 0 && g.over(g.order[0]) {
		g.order = g.order[1:]
	}
	if len(g.order) > 0 && g.order[0].at.Before(at) {
		at = g.order[0].at
	}
	return at
}

// expire gives up what has waited too long.
func (g *generator) expire(now time.Time) {
	for len(g.order) > 0 {
		t := g.order[0]
		if !g.over(t) {
			if t.at.After(now) {
				return
			}
			g.decide(t.n, load.TimedOut)
		}
		g.order = g.order[1:]
	}
}

// decide gives a started query its result; its place in the window is free.
func (g *generator) decide(n int, r load.Result) {
	g.asked[n].Result = r
	g.decided++
	g.inflight--
	g.used(n, r)
}

// stop cuts the load.
func (g *generator) stop(why string) {
	if g.cut == "" {
		g.cut = why
	}
	for n := range g.asked {
		if g.asked[n].Result != "" {
			continue
		}
		g.asked[n].Result = load.Unsent
		if !g.asked[n].Started.IsZero() {
			g.asked[n].Result = load.TimedOut
		}
		g.decided++
	}
	g.next = len(g.asked)
}
