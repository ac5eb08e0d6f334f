package operation

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/sighting"
)

// keepPaths writes the ways that the proof has seen into the result.
func (a *applying) keepPaths(w *artifact.Writer) error {
	data, err := json.MarshalIndent(a.paths, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", artifact.PathsFile, err)
	}
	return w.SetPaths(append(data, '\n'))
}

// pathResults are the paths of each service for checks and outputs. A service that
// has none was not proved.
func pathResults(t *lang.Topology, seen sighting.Record) map[string][]lang.PathResult {
	out := map[string][]lang.PathResult{}
	for _, svc := range t.Services {
		for _, p := range seen.Paths {
			if p.Service == svc.Noun.String() {
				out[svc.Noun.Name()] = append(out[svc.Noun.Name()], pathResult(p))
			}
		}
	}
	return out
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
