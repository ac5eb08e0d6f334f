package report

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/sighting"
)

// The methods say in one line what the proof has seen, and a report that is made
// again from the result says the same.
func TestPathsStandInTheMethods(t *testing.T) {
	in := sample(20)
	four, six := netip.MustParseAddr("198.18.0.10"), netip.MustParseAddr("fd00::10")
	in.Paths = sighting.Proofs{{Record: sighting.Record{Paths: []sighting.Path{
		{Forward: "tunnel", Tunnel: "gre", OuterSource: four, Whole: true, StraightBack: true},
		{Forward: "tunnel", Tunnel: "gre", OuterSource: six, Whole: true, StraightBack: true},
		{Forward: "direct"}}}}, {Record: sighting.Record{Paths: []sighting.Path{{Forward: "masquerade", Whole: true}}}},
	}
	const want = "| paths of the proof | in 2 proofs, 3 of 4 were followed from card to card, 1 in gre, 1 in gre over IPv6, 2 without an outer header; 2 of 3 answers went straight back |"
	s, files, err := Files(in)
	must(t, err)
	if text := string(files[artifact.SummaryMDFile]); !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text[strings.Index(text, "## Methods"):])
	}
	w, err := artifact.Create(t.TempDir(), "lvs-tun-dns", "20261202T100000Z-ab12", nil)
	must(t, err)
	must(t, w.SetFactors([]string{"scheduler"}))
	must(t, w.SetPaths([]byte(`{"proofs": [{"session": "2026-12-02T10:00:00Z", "paths": [{"vip": "198.18.0.101", "forward": "direct", "whole": true, "straight_back": true}]}]}`)))
	dir, err := w.Finalise(context.Background(), in.Manifest, files)
	must(t, err)
	a, err := artifact.Open(dir)
	must(t, err)
	again, err := FromArtifact(a)
	must(t, err)
	if got := Build(again).Conditions.Paths; got == s.Conditions.Paths || got != "1 of 1 were followed from card to card, 1 without an outer header; 1 of 1 answers went straight back" {
		t.Errorf("made again from paths.json: %q", got)
	}
	must(t, os.WriteFile(filepath.Join(dir, artifact.PathsFile), []byte("{"), 0o644))
	var f *diag.Failure
	if _, err := FromArtifact(a); !errors.As(err, &f) || f.Diagnostic.Summary != "The paths of a result cannot be read" {
		t.Errorf("a broken file: %v", err)
	}
}
