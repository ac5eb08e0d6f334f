package experiment

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/load"
)

// DirectPrefix begins the ids of the treatments without LVS; the backend follows.
const DirectPrefix = artifact.DirectPrefix

// FlagPastBackend says that queries of a run without LVS left the client for
// another MAC than the backend's. It is an outcome.
const FlagPastBackend = "past_backend"

// loadFactors are the factors that a load without LVS has, too.
var loadFactors = []string{"sockets", "queries", "rate", "clients", "protocol"}

// Direct reports whether a treatment's load is sent to a backend without LVS.
func (t Treatment) Direct() bool { return t.Setting.Direct != "" }

// directTreatments sends the load of a treatment to each backend of the service,
// in the order of the real servers.
func directTreatments(svc lang.Service, first Treatment) []Treatment {
	var out []Treatment
	seen := map[addr.Noun]bool{}
	for _, r := range svc.RealServers {
		if seen[r.Backend] {
			continue
		}
		seen[r.Backend] = true
		t := Treatment{ID: DirectPrefix + r.Backend.String(), Slug: "direct-" + fileName(r.Backend), Setting: first.Setting, Factors: map[string]string{}}
		maps.Copy(t.Factors, first.Factors)
		maps.DeleteFunc(t.Factors, func(name, _ string) bool { return !slices.Contains(loadFactors, name) })
		t.Setting.Direct = r.Backend.String()
		t.Setting.VIPs = 1 // the one address takes all queries, and all ports of a generator
		out = append(out, t)
	}
	return out
}

// targets are the addresses that a run's load is sent to, and the answers must
// come from: the VIPs, or the one backend's own.
func (c *cast) targets(s Setting) []netip.Addr {
	if b, ok := c.straight(s); ok {
		return b.addresses[:1]
	}
	return c.service.VIPs[:s.VIPs]
}

// straight is the backend of a run without LVS.
func (c *cast) straight(s Setting) (part, bool) {
	i := slices.IndexFunc(c.backends, func(p part) bool { return p.noun.String() == s.Direct })
	if i < 0 {
		return part{}, false
	}
	return c.backends[i], true
}

// target is who the clients' queries must reach first: the director, or the
// backend of a run without LVS.
func (c *cast) target(s Setting) part {
	if b, ok := c.straight(s); ok {
		return b
	}
	return c.director
}

// direct reports whether the run was made without LVS.
func (out *measured) direct() bool { return out.trial.Treatment.Direct() }

// withoutLVS empties what a row says about IPVS: nothing there took part.
func withoutLVS(r *artifact.Run, backends []artifact.BackendRow) {
	r.IPVSConnsDelta, r.ConnRowsAfter = 0, 0
	r.Decisions, r.JainWeighted, r.JainBound = nil, nil, nil
	for i := range backends {
		b := &backends[i]
		*b = artifact.BackendRow{RunID: b.RunID, Backend: b.Backend, Address: b.Address, WithoutLVS: true,
			NamedRequests: b.NamedRequests, AnswersOK: b.AnswersOK, ShareAnswersOK: b.ShareAnswersOK}
	}
}

// judgeDirect compares what a run without LVS left on the counters: the director
// must not have seen it, nor any other backend.
func (out *measured) judgeDirect(f *findings) {
	if n := out.serviceIn(); n > 0 {
		f.broken(FlagCountsContradict, "IPVS took %d packets in a run without it", n)
	}
	want := out.trial.Treatment.Setting.Direct
	for _, p := range out.cast.backends {
		if n := out.namedDelta(p.noun).requests; n > 0 && p.noun.String() != want {
			f.broken(FlagCountsContradict, "%s had %d requests in a run that was sent to %s", p.noun, n, want)
		}
	}
}

// directRungs are the places that the queries of a run without LVS pass.
func (out *measured) directRungs(sent int64) (load.Rungs, map[string]load.Rungs) {
	b, _ := out.cast.straight(out.trial.Treatment.Setting)
	named := out.namedDelta(b.noun)
	r := load.Rungs{ClientSent: &sent, NamedRequests: &named.requests, NamedResponses: &named.responses}
	r.ClientReceived, r.OK = out.received([]string{b.noun.String()}, named.responses)
	return r, nil
}

// believes says whose MAC a client has for an address that it is going to ask,
// "" when it is the right one.
func (c *cast) believes(client addr.Noun, address netip.Addr, mac string, want hop) string {
	if mac == want.mac {
		return ""
	}
	return fmt.Sprintf("%s believes that %s is at %s, which is %s and not %s", client, address, mac, c.owner(mac), want.noun)
}
