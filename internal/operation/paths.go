package operation

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/sighting"
)

// keepPaths writes the ways that this session's proof has seen into the result, behind
// those of the sessions before.
func (a *applying) keepPaths(w *artifact.Writer) error {
	var proofs sighting.Proofs
	if a.unfinished != nil {
		links := a.unfinished.Links()
		var err error
		if proofs, err = sighting.ProofsOf(links[len(links)-1]); err != nil {
			return err
		}
	}
	data, err := append(proofs, sighting.Proof{
		Session: a.Started.UTC().Truncate(time.Microsecond), Shard: a.opts.Shard.String(), Host: a.hostFacts().Label(), Record: a.paths,
	}).Encode()
	if err != nil {
		return err
	}
	return w.SetPaths(data)
}

// pathResults are the paths of each service for checks and outputs. A service that
// has none was not proved.
func pathResults(t *lang.Topology, seen sighting.Proofs) map[string][]lang.PathResult {
	out := map[string][]lang.PathResult{}
	for _, svc := range t.Services {
		for _, p := range seen.All().Paths {
			if p.Service == svc.Noun.String() {
				out[svc.Noun.Name()] = withPath(out[svc.Noun.Name()], pathResult(p))
			}
		}
	}
	return out
}

// withPath adds a path to those of one service. That of an earlier proof, with the same
// client, VIP and backend, is joined with it: what a check says must not depend on how
// many sessions or machines made the runs. Each of the two counts: what must be true of
// a path is true when it was of both, and a defect is one when either had it.
func withPath(list []lang.PathResult, p lang.PathResult) []lang.PathResult {
	i := slices.IndexFunc(list, func(o lang.PathResult) bool { return o.Client == p.Client && o.VIP == p.VIP && o.Backend == p.Backend })
	if i < 0 {
		return append(list, p)
	}
	both := &list[i]
	if !both.Whole && p.Whole { // what was around the query is told by the one that was followed
		p, *both = *both, p
	}
	both.Whole = both.Whole && p.Whole
	both.StraightBack = both.StraightBack && p.StraightBack
	both.Fragmented = both.Fragmented || p.Fragmented
	for _, d := range p.Defects {
		if !slices.Contains(both.Defects, d) {
			both.Defects = append(both.Defects, d)
		}
	}
	return list
}

func pathResult(p sighting.Path) lang.PathResult {
	r := lang.PathResult{Client: p.Client, VIP: p.VIP.String(), Backend: p.Backend, Tunnel: p.Tunnel, Encapsulations: p.Encapsulations,
		OuterSource: shownAddress(p.OuterSource), OuterDestination: shownAddress(p.OuterDestination), Source: shownAddress(p.Source),
		StraightBack: p.StraightBack, Fragmented: p.Fragmented, Whole: p.Whole}
	for _, d := range p.Defects {
		r.Defects = append(r.Defects, d.Name)
	}
	return r
}

// shownAddress is an address, "" for none.
func shownAddress(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
