package verify

import (
	"errors"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/sighting"
)

// checkPaths examines paths.json of a result and its parents: each session that made
// runs has a proof, what a proof says of each path must follow from the path's hops, and
// no path may have a defect by which the proof would have failed.
func checkPaths(a *artifact.Artifact) (c Check, there bool, err error) {
	c = Check{Name: "paths", What: "the paths of each session's proof against their hops", Unit: "paths"}
	for _, link := range a.Links() {
		data, err := link.ReadFile(artifact.PathsFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue // of a version that did not look
		}
		if err != nil {
			return c, false, err
		}
		there = true
		file := artifact.PathsFile
		if link.Dir() != a.Dir() {
			file = beside(link, file)
		}
		proofs, err := sighting.ParseProofs(data)
		if err != nil {
			c.fail(file, "", "cannot be read: %v", err)
			continue
		}
		ofSessions(&c, file, proofs, link.Manifest())
		for _, proof := range proofs {
			for _, p := range proof.Paths {
				c.Compared++
				path{&c, file, p, p.Client + " → " + p.Backend + " under " + p.VIP.String()}.check()
			}
		}
	}
	return c, there, nil
}

// ofSessions compares whose the proofs are with the sessions of the manifest.
func ofSessions(c *Check, file string, proofs sighting.Proofs, m artifact.Manifest) {
	shares := map[string]string{"": m.Shard}
	for _, p := range m.Parts {
		shares[p.Result] = p.Shard
	}
	seen := map[int]int{}
	for _, p := range proofs {
		row := p.Session.Format(artifact.TimeFormat)
		i := slices.IndexFunc(m.Sessions, func(s artifact.Session) bool { return s.StartedAt.Equal(p.Session) && s.Result == p.Result })
		if i < 0 {
			c.fail(file, row, "is of no session in %s", artifact.ManifestFile)
			continue
		}
		if seen[i]++; seen[i] > 1 {
			c.fail(file, row, "the session has another proof")
		}
		if host := m.Sessions[i].Host.Label(); p.Host != host || p.Shard != shares[p.Result] {
			c.fail(file, row, "is of host %q and share %q, the session is of host %q and share %q", p.Host, p.Shard, host, shares[p.Result])
		}
	}
	for i, s := range m.Sessions {
		if s.Runs > 0 && seen[i] == 0 {
			c.fail(file, s.StartedAt.Format(artifact.TimeFormat), "the session made %d runs, and has no proof", s.Runs)
		}
	}
}

type path struct {
	c    *Check
	file string
	sighting.Path
	row string
}

func (p path) fail(format string, args ...any) { p.c.fail(p.file, p.row, format, args...) }

func (p path) check() {
	for _, d := range p.Broken() {
		p.fail("has the defect %s, by which a proof fails", d.Name)
	}
	p.whole()
	if p.Whole {
		p.outer()
		p.back()
	}
	fragments := slices.ContainsFunc(p.Hops, func(h sighting.Hop) bool {
		return slices.ContainsFunc(h.Headers, func(h sighting.Header) bool { return h.Fragment })
	})
	if fragments && !p.Fragmented || p.Fragmented != p.Has(sighting.Fragmented) {
		p.fail("fragmented is %v, which its hops and defects do not say", p.Fragmented)
	}
}

// whole checks that hops are pairs of what left and arrived, from the client over
// director and backend back to the client.
func (p path) whole() {
	follows := len(p.Hops) >= 6 && len(p.Hops)%2 == 0
	passed := map[string]bool{}
	for i := 0; follows && i < len(p.Hops); i += 2 {
		left, came := p.Hops[i], p.Hops[i+1]
		follows = left.Direction == "out" && came.Direction == "in" && left.SourceMAC == came.SourceMAC &&
			left.DestinationMAC == came.DestinationMAC && left.Leg == came.Leg && (i == 0 || p.Hops[i-1].Node == left.Node)
		passed[came.Node] = true
	}
	if follows {
		first, last := p.Hops[0], p.Hops[len(p.Hops)-1]
		follows = first.Node == p.Client && last.Node == p.Client && last.Leg == sighting.Answer && passed[p.Director] && passed[p.Backend]
	}
	if p.Whole && !follows {
		p.fail("is said to be whole, and its hops do not lead from the client over director and backend back")
	}
}

// outer compares the outer header with the one of the frame that the director sent on.
func (p path) outer() {
	i := slices.IndexFunc(p.Hops, func(h sighting.Hop) bool {
		return h.Node == p.Director && h.Direction == "out" && h.Leg == sighting.Query
	})
	if i < 0 || len(p.Hops[i].Headers) == 0 {
		p.fail("has no frame that the director sent on")
		return
	}
	headers := p.Hops[i].Headers
	kind, from, to := "", netip.Addr{}, netip.Addr{}
	if len(headers) > 1 {
		kind, from, to = headers[0].Carries, headers[0].Source, headers[0].Destination
	}
	if p.Encapsulations != len(headers)-1 || p.Tunnel != kind || p.OuterSource != from || p.OuterDestination != to {
		p.fail("outer header %s %v → %v, %d around another; the director's frame says %s %v → %v, %d",
			p.Tunnel, p.OuterSource, p.OuterDestination, p.Encapsulations, kind, from, to, len(headers)-1)
	}
}

// back checks what is said of the answer.
func (p path) back() {
	last := p.Hops[len(p.Hops)-1]
	if n := len(last.Headers); n == 0 || last.Headers[n-1].Source != p.Source {
		p.fail("source %v is not that of the frame at the client", p.Source)
	}
	through := slices.ContainsFunc(p.Hops, func(h sighting.Hop) bool { return h.Node == p.Director && h.Leg == sighting.Answer })
	if p.StraightBack && through {
		p.fail("the answer is said to go straight back, and passed the director")
	}
}
