package experiment

import (
	"context"
	"errors"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/symptom"
)

const (
	// mostProbes bounds the queries of a [Probe]: one for each VIP and backend.
	mostProbes = 48
	// probeWithin bounds all of them together. One that is not answered takes
	// [probeTimeout].
	probeWithin = 3 * time.Minute
)

// Probe sends one query to each backend under each VIP, through the director, from
// the first client, and returns what each has left on the counters along its way,
// answered or not. It borrows the service for that, as [Prove] does, and gives it
// back. At most 48 queries are sent; the others are left out.
func Probe(ctx context.Context, lab *Lab, service addr.Noun) ([]symptom.Path, error) {
	p, err := newProver(lab, service)
	if err != nil {
		return nil, err
	}
	if len(p.cast.clients) == 0 {
		return nil, noClient(service)
	}
	loan, err := Borrow(lab.Topology, service, service)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, probeWithin)
	paths, err := p.followAll(bounded)
	cancel()
	return paths, errors.Join(err, loan.GiveBack(context.WithoutCancel(ctx), lab))
}

func (p *prover) followAll(ctx context.Context) ([]symptom.Path, error) {
	order := make([]int, len(p.cast.service.RealServers))
	for i := range order {
		order[i] = i
	}
	state, err := p.fresh(ctx, p.proofServices(order))
	if err != nil {
		return nil, err
	}
	var paths []symptom.Path
	for _, vip := range p.cast.service.VIPs {
		for _, server := range order {
			if len(paths) == mostProbes {
				return paths, nil
			}
			path, _, err := p.follow(ctx, p.cast.clients[0], vip, server, state.Baseline)
			if err == nil && path.Scheduled == 0 {
				// A source port that is drawn twice meets its old entry and moves
				// nobody on: the next one is new.
				path, _, err = p.follow(ctx, p.cast.clients[0], vip, server, state.Baseline)
			}
			if err != nil {
				return paths, err
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}
