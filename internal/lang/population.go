package lang

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// Population is who asks a service in a what-if: lvslab predict answers it, and
// nothing else reads it. It is no part of a plan or a study.
type Population struct {
	Noun       addr.Noun
	Service    addr.Noun
	Clients    int
	PerAddress int           // clients that share an address
	Rate       float64       // queries a second of all clients together
	Sockets    int           // source ports that a client keeps, 0 = a fresh one for each query
	Duration   time.Duration // how long they ask
	// Skew is the exponent of Zipf's law: the n-th busiest client asks n^-Skew
	// times as often as the busiest. 0 = all alike.
	Skew     float64
	Seed     int64
	Factors  []Factor
	Failures []Failure // declared order
	Range    diag.Range
}

// Failure is a backend that ends, and perhaps comes back. Times count from the
// beginning.
type Failure struct {
	Backend addr.Noun
	At      time.Duration // it answers no longer
	Noticed time.Duration // from then until the director removes it
	Back    time.Duration // it is added again, 0 = never
	Range   diag.Range
}

// Bounds of a population. Each client's activity is looked at once, which takes
// a second for the most.
const (
	maxClients    = 10_000_000
	maxPopulation = 24 * time.Hour
	minPopulation = time.Second
	maxSkew       = 3

	// maxPopulationQueries is where a flow of the sample would stand for all flows
	// of its address.
	maxPopulationQueries = 10_000_000_000

	defaultPopulationDuration = 10 * time.Minute

	// maxPortsAddress is the number of ports above the privileged ones, which
	// all clients behind one address share.
	maxPortsAddress = 65536 - 1024
)

// freshPorts is the value of ports that draws one for each query.
const freshPorts = "fresh"

// populationFactors are those that are the director's matter.
var populationFactors = []string{"scheduler", "one_packet", "flags", "timeout", "weights", "order"}

func (e *evaluator) population(b *block) Population {
	r := e.reader(b, nil)
	p := Population{
		Noun: r.noun, Range: b.rng, Service: r.handle("service", addr.Service),
		Clients:    int(r.whole("clients", 1, 1, maxClients)),
		PerAddress: int(r.whole("per_address", 1, 1, maxPortsAddress)),
		Rate:       r.real("rate", 1, 0, maxRate),
		Sockets:    r.portPolicy(),
		Duration:   r.duration("duration", defaultPopulationDuration, minPopulation, maxPopulation),
		Skew:       r.real("skew", 0, 0, maxSkew),
		Seed:       r.whole("seed", 1, math.MinInt64, math.MaxInt64),
	}
	first := map[string]bool{}
	for i, fb := range b.sub("factor") {
		fr := r.sub(fb, i)
		switch {
		case first[fb.label]:
			fr.complain("", "Factor twice", "Put all values into one.", "%s has two factors %q.", r.noun, fb.label)
		case factorKinds[fb.label].check != nil && !slices.Contains(populationFactors, fb.label):
			fr.complain("", "Not a factor of a population", "Factors here are "+enumerate(quoted(populationFactors), "and")+"; for others write another population.",
				"%s cannot vary %q.", r.noun, fb.label)
		}
		first[fb.label] = true
		p.Factors = append(p.Factors, fr.factor())
	}
	for i, fb := range b.sub("failure") {
		fr := r.sub(fb, i)
		p.Failures = append(p.Failures, Failure{
			Backend: fr.handle("backend", addr.Backend), At: fr.duration("at", minPopulation, minPopulation, maxPopulation),
			Noticed: fr.duration("noticed", 0, 0, maxPopulation), Back: fr.duration("back", 0, 0, maxPopulation), Range: fb.rng,
		})
	}
	return p
}

// portPolicy reads ports: "fresh", or how many each client keeps.
func (r *reader) portPolicy() int {
	s := r.text("ports", freshPorts)
	n, err := strconv.Atoi(s)
	switch {
	case s == freshPorts:
		return 0
	case err != nil || n < 1 || n > maxPortsAddress:
		r.complain("ports", "Not a port policy", fmt.Sprintf(`Write "fresh" or a number from 1 to %d.`, maxPortsAddress), "ports of %s is %q.", r.owner("ports"), s)
		return 0
	}
	return n
}
