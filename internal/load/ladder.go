package load

import (
	"fmt"
	"maps"
	"slices"
)

// Rungs are counts of the same queries at eight places on their way. A nil
// pointer is a place that was not counted.
type Rungs struct {
	ClientSent       *int64 // by the capture at the client
	DirectorReceived *int64 // at its NIC
	IPVSIn           *int64 // scheduled or forwarded by an entry
	TunnelReceived   *int64 // by the backend's tunnel device
	NamedRequests    *int64
	NamedResponses   *int64
	ClientReceived   *int64 // answers in the capture at the client
	OK               *int64
}

// Count makes a rung of a number.
func Count[T ~int | ~int64 | ~uint64](n T) *int64 {
	v := int64(n)
	return &v
}

// rungNames and edges: edges[i] is what is lost between rung i and rung i+1.
var (
	rungNames = []string{"client_sent", "director_received", "ipvs_in", "tunnel_received", "named_requests", "named_responses", "client_received", "ok"}
	edges     = []string{"lost_before_director", "not_scheduled", "lost_in_tunnel", "backend_drop", "not_answered", "lost_on_return", "rejected_by_client"}
)

// lastPacketRung is the last one that counts packets; the later ones count DNS messages.
const lastPacketRung = 3

func (r Rungs) list() []*int64 {
	return []*int64{r.ClientSent, r.DirectorReceived, r.IPVSIn, r.TunnelReceived, r.NamedRequests, r.NamedResponses, r.ClientReceived, r.OK}
}

// LadderSpec says how the counts may be compared.
type LadderSpec struct {
	// TCP: the rungs up to the tunnel count segments and the later ones DNS
	// messages, so the step between them says nothing.
	TCP bool
	// Duplicates: the network makes copies (netem), so more may come than went.
	Duplicates bool
}

// Gap is a loss between two neighbouring places that were counted.
type Gap struct {
	// Name is one of lost_before_director, not_scheduled, lost_in_tunnel,
	// backend_drop, not_answered, lost_on_return, rejected_by_client. When places
	// in between were not counted it is the last of the Candidates.
	Name       string
	Candidates []string
	Backend    string // "" = the whole service
	From, To   string // names of the rungs
	Lost       int64
}

// Contradiction is a count that cannot be: more arrived than was sent, or the
// backends do not add up to the whole.
type Contradiction struct {
	Backend  string
	From, To string
	Want     int64 // at most this many, or exactly for a sum
	Got      int64
	Sum      bool // the backends' sum of rung To differs from the whole
}

func (c Contradiction) String() string {
	where := ""
	if c.Backend != "" {
		where = c.Backend + ": "
	}
	if c.Sum {
		return fmt.Sprintf("the backends' %s add up to %d, the whole is %d", c.To, c.Got, c.Want)
	}
	return fmt.Sprintf("%s%s %d is more than %s %d", where, c.To, c.Got, c.From, c.Want)
}

// Ladder compares the counts of a run from the client down to the backends and
// back, for the whole service and for each backend. Gaps are outcomes;
// contradictions make a run invalid.
func Ladder(whole Rungs, backends map[string]Rungs, spec LadderSpec) ([]Gap, []Contradiction) {
	gaps, wrong := climb("", whole, spec)
	names := slices.Sorted(maps.Keys(backends))
	for _, b := range names {
		g, w := climb(b, backends[b], spec)
		gaps, wrong = append(gaps, g...), append(wrong, w...)
	}
	for i, total := range whole.list() {
		sum, known := int64(0), total != nil && len(names) > 0
		for _, b := range names {
			n := backends[b].list()[i]
			if n == nil {
				known = false
				break
			}
			sum += *n
		}
		if known && sum != *total {
			wrong = append(wrong, Contradiction{To: rungNames[i], Want: *total, Got: sum, Sum: true})
		}
	}
	return gaps, wrong
}

func climb(backend string, r Rungs, spec LadderSpec) (gaps []Gap, wrong []Contradiction) {
	last := -1
	list := r.list()
	for i, n := range list {
		if n == nil {
			continue
		}
		from := last
		last = i
		if from < 0 || spec.TCP && from <= lastPacketRung && i > lastPacketRung {
			continue
		}
		switch lost := *list[from] - *n; {
		case lost > 0:
			g := Gap{Name: edges[i-1], Backend: backend, From: rungNames[from], To: rungNames[i], Lost: lost}
			if i-from > 1 {
				g.Candidates = slices.Clone(edges[from:i])
			}
			gaps = append(gaps, g)
		case lost < 0 && !spec.Duplicates:
			wrong = append(wrong, Contradiction{Backend: backend, From: rungNames[from], To: rungNames[i], Want: *list[from], Got: *n})
		}
	}
	return gaps, wrong
}
