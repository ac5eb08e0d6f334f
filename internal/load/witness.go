package load

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Own is what the generator's record says: its counts, how well it kept its own
// time, and whether it agrees with the capture. It is generator.json.
type Own struct {
	Queries    int `json:"queries"` // rows of the record
	Started    int `json:"started"` // packets or connections that were tried
	Answered   int `json:"answered"`
	Late       int `json:"late"`
	TimedOut   int `json:"timeout"`
	Closed     int `json:"closed"`
	Refused    int `json:"refused"`
	Failed     int `json:"failed"`
	Unsent     int `json:"unsent"`
	Duplicates int `json:"duplicates"`

	// Timing is about paced queries: how long after its time each was started.
	Timing Timing `json:"timing"`
	// Lag is the time from the generator's clock before a query was sent to the
	// capture's stamp of its frame: what the generator's latencies have on top.
	Lag Spread `json:"lag"`
	// Witness compares the record with the capture.
	Witness Witness `json:"witness"`
}

// Timing is how well a generator kept its schedule.
type Timing struct {
	Paced int `json:"paced"` // queries that had a time to be started at
	Spread
	// Missed are those that were started when the next one was due, or later.
	Missed int `json:"missed_deadlines"`
}

// Spread are quantiles of times in seconds, nearest rank; nil without any.
type Spread struct {
	P50 *float64 `json:"p50_s"`
	P99 *float64 `json:"p99_s"`
	Max *float64 `json:"max_s"`
}

// Witness is what generator and capture say about the same queries. The first
// two are no contradiction.
type Witness struct {
	Compared   int    `json:"compared"`        // queries that both have
	NotOnWire  int    `json:"not_on_wire"`     // sent, and never seen at the NIC: lost on the client's own egress
	NotAsked   int    `json:"not_asked"`       // seen at the NIC, and not in the record
	NotTaken   int    `json:"not_taken"`       // answered in time at the NIC, and not for the generator
	NotCarried int    `json:"not_carried"`     // answered in time for the generator, and not at the NIC
	Content    int    `json:"content"`         // another rcode, source or truncation
	Backend    int    `json:"backend"`         // another machine by the answer's MAC
	First      string `json:"first,omitempty"` // the first disagreement in words
}

// Contradicts reports whether one of the two witnesses must be wrong.
func (w Witness) Contradicts() bool { return w.NotAsked+w.NotCarried+w.Content+w.Backend > 0 }

// Agrees reports whether both say the same.
func (w Witness) Agrees() bool { return !w.Contradicts() && w.NotTaken == 0 }

// Judge reads a record beside the queries of the captures.
func Judge(record []Asked, captured []Query) Own {
	o := Own{Queries: len(record)}
	counts := map[Result]*int{Answered: &o.Answered, TooLate: &o.Late, TimedOut: &o.TimedOut, Closed: &o.Closed,
		Refused: &o.Refused, Failed: &o.Failed, Unsent: &o.Unsent}
	for _, a := range record {
		*counts[a.Result]++
		o.Duplicates += a.Duplicates
		if !a.Started.IsZero() {
			o.Started++
		}
	}
	o.Timing = timing(record)
	o.Lag, o.Witness = compare(record, captured)
	return o
}

// timing is computed for each process by itself: they have clocks of their own.
func timing(record []Asked) Timing {
	type process struct{ client, vip netip.Addr }
	paced := map[process][]Asked{}
	for _, a := range record {
		if !a.Scheduled.IsZero() && !a.Started.IsZero() {
			p := process{a.Client, a.VIP}
			paced[p] = append(paced[p], a)
		}
	}
	var t Timing
	var late []time.Duration
	for _, list := range paced {
		t.Paced += len(list)
		slices.SortFunc(list, func(a, b Asked) int { return a.Scheduled.Compare(b.Scheduled) })
		gap := time.Duration(0)
		first, last := list[0], list[len(list)-1]
		if n := last.N - first.N; n > 0 {
			gap = last.Scheduled.Sub(first.Scheduled) / time.Duration(n)
		}
		for _, a := range list {
			d := a.Started.Sub(a.Scheduled)
			late = append(late, d)
			if gap > 0 && d >= gap {
				t.Missed++
			}
		}
	}
	t.Spread = spread(late)
	return t
}

func spread(list []time.Duration) Spread {
	slices.Sort(list)
	return Spread{P50: percentile(list, 50), P99: percentile(list, 99), Max: percentile(list, 100)}
}

type askedKey struct {
	from netip.AddrPort
	tcp  bool
	id   uint16
	q    Question
}

// compare pairs the rows of both by port, id and question, in order of sending.
func compare(record []Asked, captured []Query) (Spread, Witness) {
	seen := map[askedKey][]Query{}
	for _, q := range captured {
		k := askedKey{netip.AddrPortFrom(q.Client, q.Port), q.Protocol == "tcp", q.ID, Question{q.Name, q.Type}}
		seen[k] = append(seen[k], q)
	}
	var w Witness
	var lag []time.Duration
	for _, a := range record {
		if a.Sent.IsZero() {
			continue
		}
		k := askedKey{netip.AddrPortFrom(a.Client, a.Port), a.Protocol == "tcp", a.ID, Question{a.Name, a.Type}}
		if len(seen[k]) == 0 {
			w.NotOnWire++
			continue
		}
		q := seen[k][0]
		seen[k] = seen[k][1:]
		w.Compared++
		lag = append(lag, q.Time.Sub(a.Sent))
		w.one(a, q)
	}
	for _, rest := range seen {
		w.NotAsked += len(rest)
	}
	return spread(lag), w
}

// one holds a row of the record against one of the capture.
func (w *Witness) one(a Asked, q Query) {
	note := func(n *int, format string, args ...any) {
		*n++
		if w.First == "" {
			w.First = fmt.Sprintf("query %d (port %d, id %d): ", a.N, a.Port, a.ID) + fmt.Sprintf(format, args...)
		}
	}
	took := a.Result == Answered
	switch {
	case took && !q.Outcome.Accepted():
		note(&w.NotCarried, "answered for the generator, %s in the capture", q.Outcome)
	case !took && q.Outcome.Accepted():
		note(&w.NotTaken, "%s for the generator, %s in the capture", a.Result, q.Outcome)
	case !took:
	case a.Rcode != q.Rcode || a.Source != q.Source || a.Truncated != (q.Outcome == Truncated) && q.Rcode == "NOERROR":
		note(&w.Content, "%s from %s for the generator, %s from %s in the capture", a.Rcode, a.Source, q.Rcode, q.Source)
	case a.Backend != "" && a.Backend != q.Backend:
		note(&w.Backend, "from %s for the generator, from %s in the capture", a.Backend, q.Backend)
	}
}
