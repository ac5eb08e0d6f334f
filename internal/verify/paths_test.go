package verify

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/sighting"
)

// seenPaths are the paths of a real lab with three tunnels.
func seenPaths(t *testing.T) sighting.Record {
	t.Helper()
	data, err := os.ReadFile("../sighting/testdata/tunnels.json")
	must(t, err)
	var c struct {
		Cards    []sighting.Card
		GUEPorts []uint16 `json:"gue_ports"`
		Queries  []sighting.Asked
		Frames   []sighting.Frame
	}
	must(t, json.Unmarshal(data, &c))
	seen := sighting.Read(c.Cards, c.Frames, c.GUEPorts, nil)
	var r sighting.Record
	for _, q := range c.Queries {
		r.Paths = append(r.Paths, seen.Path(q))
	}
	return r
}

// session is when the one that made runs began; a later one was killed before its proof.
var session = time.Date(2026, 12, 2, 10, 0, 0, 123456000, time.UTC)

func withPaths(t *testing.T, data []byte) *artifact.Artifact {
	t.Helper()
	w, err := artifact.Create(t.TempDir(), "lab", "20000101T000000Z-0000", nil)
	must(t, err)
	must(t, w.SetFactors(nil))
	if data != nil {
		must(t, w.SetPaths([]byte("of an earlier session")))
		must(t, w.SetPaths(data))
	}
	sessions := []artifact.Session{{StartedAt: session, Runs: 1}, {StartedAt: session.Add(time.Hour)}}
	dir, err := w.Finalise(context.Background(), artifact.Manifest{Sessions: sessions}, nil)
	must(t, err)
	a, err := artifact.Open(dir)
	must(t, err)
	return a
}

func TestPathsFollowFromTheirHops(t *testing.T) {
	if _, there, err := checkPaths(withPaths(t, nil)); there || err != nil {
		t.Errorf("without the file: %v, %v", there, err)
	}
	for name, c := range map[string]struct {
		change func(*sighting.Path)
		want   string
	}{
		"as it was seen":      {func(*sighting.Path) {}, ""},
		"a gap that is told":  {func(p *sighting.Path) { p.Hops, p.Whole, p.StraightBack = p.Hops[:3], false, false }, ""},
		"a gap":               {func(p *sighting.Path) { p.Hops = p.Hops[:4] }, "its hops do not lead"},
		"another card":        {func(p *sighting.Path) { p.Hops[1].SourceMAC = "02:00:00:00:00:01" }, "its hops do not lead"},
		"another machine":     {func(p *sighting.Path) { p.Hops[5].Node = "client.other" }, "its hops do not lead"},
		"another tunnel":      {func(p *sighting.Path) { p.Tunnel = "gre" }, "the director's frame says ipip"},
		"one header more":     {func(p *sighting.Path) { p.Encapsulations = 2 }, "the director's frame says ipip"},
		"another outer end":   {func(p *sighting.Path) { p.OuterSource = p.VIP }, "the director's frame says ipip"},
		"another source":      {func(p *sighting.Path) { p.Source = p.OuterSource }, "is not that of the frame at the client"},
		"a hidden fragment":   {func(p *sighting.Path) { p.Hops[2].Headers[0].Fragment = true }, "fragmented is false"},
		"fragments of no hop": {func(p *sighting.Path) { p.Fragmented = true }, "fragmented is true"},
		"a defect":            {func(p *sighting.Path) { p.Defects = []sighting.Defect{{Name: sighting.OtherTunnel}} }, "by which a proof fails"},
		"a detour": {func(p *sighting.Path) {
			back := p.Hops[4:]
			first, second := back[0], back[1]
			first.Direction, first.Node, second.Direction, second.Node = "in", p.Director, "out", p.Director
			p.Hops = append(p.Hops[:4:4], back[0], first, second, back[1])
		}, "passed the director"},
	} {
		r := seenPaths(t)
		c.change(&r.Paths[0])
		data, err := sighting.Proofs{{Session: session, Host: "unknown", Record: r}}.Encode()
		must(t, err)
		check, there, err := checkPaths(withPaths(t, data))
		if !there || err != nil || check.Compared != 3 {
			t.Errorf("%s: %+v, %v", name, check, err)
			continue
		}
		got := all(Report{Checks: []Check{check}})
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q in\n%s", name, c.want, got)
		}
	}
	if check, _, err := checkPaths(withPaths(t, []byte("{"))); err != nil || len(check.Problems) != 1 {
		t.Errorf("a broken file: %+v, %v", check, err)
	}
}

// Every session that made runs has one proof, and that says whose it is.
func TestProofsAreOfSessions(t *testing.T) {
	good := sighting.Proof{Session: session, Host: "unknown", Record: seenPaths(t)}
	changed := func(change func(*sighting.Proof)) sighting.Proofs {
		p := good
		change(&p)
		return sighting.Proofs{p}
	}
	second := good
	second.Session = session.Add(time.Hour)
	for name, c := range map[string]struct {
		proofs sighting.Proofs
		want   string
	}{
		"one":             {sighting.Proofs{good}, ""},
		"without runs":    {sighting.Proofs{good, second}, ""},
		"none":            {nil, "paths.json, 2026-12-02T10:00:00.123456Z: the session made 1 runs, and has no proof"},
		"of another time": {changed(func(p *sighting.Proof) { p.Session = p.Session.Add(time.Microsecond) }), "is of no session"},
		"of a part":       {changed(func(p *sighting.Proof) { p.Result = "other" }), "is of no session"},
		"of another host": {changed(func(p *sighting.Proof) { p.Host = "12345678" }), `is of host "12345678" and share ""`},
		"of a share":      {changed(func(p *sighting.Proof) { p.Shard = "1/2" }), `and share "1/2", the session is of host "unknown" and share ""`},
		"twice":           {sighting.Proofs{good, good}, "has another proof"},
	} {
		data, err := c.proofs.Encode()
		must(t, err)
		check, _, err := checkPaths(withPaths(t, data))
		must(t, err)
		got := all(Report{Checks: []Check{check}})
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q in\n%s", name, c.want, got)
		}
	}
}
