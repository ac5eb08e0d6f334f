package experiment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
)

func TestProveSeesThePaths(t *testing.T) {
	f := newFakeLab(t, paperTopology())
	proof, err := Prove(context.Background(), f.lab(), serviceS)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(proof.Seen.Paths); n != 3 || proof.Seen.Whole() != 3 {
		t.Fatalf("%d paths, %d of them whole, want one for each backend: %+v", n, proof.Seen.Whole(), proof.Seen)
	}
	for i, p := range proof.Seen.Paths {
		var nodes []string
		for _, h := range p.Hops {
			nodes = append(nodes, h.Node+" "+h.Direction)
		}
		want := []string{"client.c[0] out", "director.lb in", "director.lb out", backend(i).String() + " in", backend(i).String() + " out", "client.c[0] in"}
		if !slices.Equal(nodes, want) || len(p.Defects) > 0 || !p.StraightBack || p.Tunnel != "ipip" || p.Encapsulations != 1 {
			t.Errorf("path %d: %q, want %q; %+v", i, nodes, want, p)
		}
	}
	for _, n := range f.top.Machines {
		if f.count(n.Noun.String(), proto.SightingsStart.Op) != 1 || f.count(n.Noun.String(), proto.SightingsStop.Op) != 1 {
			t.Errorf("%s: want one watch that is begun and ended", n.Noun)
		}
	}
}

// Each defect fails the proof with its cause, and the declared service is back.
func TestProveNamesDetours(t *testing.T) {
	var b strings.Builder
	for _, detour := range []string{"twice", "without a tunnel", "other end", "wrong source", "too big", "through the director"} {
		f := newFakeLab(t, paperTopology())
		f.sightings.detour, f.sightings.at = detour, backend(1)
		_, err := Prove(context.Background(), f.lab(), serviceS)
		var failure *diag.Failure
		if !errors.As(err, &failure) {
			t.Errorf("%s: %v, want a diagnostic", detour, err)
			continue
		}
		d := diag.From(err)[0]
		b.WriteString("== " + detour + "\n" + d.Address + ": " + d.Summary + "\n" + d.Detail + "\n→ " + d.Remedy + "\n\n")
		if n := f.count("director", "ipvs.fresh"); n != 2 {
			t.Errorf("%s: %d clean slates, want the declared service back", detour, n)
		}
	}
	golden.Check(t, "prove-detours.txt", b.String())
}

// Fragments are told and do not fail a proof.
func TestProveToleratesFragments(t *testing.T) {
	f := newFakeLab(t, paperTopology())
	f.sightings.detour, f.sightings.at = "fragments", backend(1)
	proof, err := Prove(context.Background(), f.lab(), serviceS)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range proof.Seen.Paths {
		if p.Fragmented != (i == 1) {
			t.Errorf("path %d: fragmented %v", i, p.Fragmented)
		}
	}
}

// A watch ends also when the proof fails, and its failure hides no cause.
func TestProveEndsItsWatches(t *testing.T) {
	f := newFakeLab(t, paperTopology())
	broken(1, "no receiver")(f)
	if _, err := Prove(context.Background(), f.lab(), serviceS); err == nil {
		t.Fatal("no error")
	}
	if len(f.sightings.running) != 0 {
		t.Errorf("%d watches go on", len(f.sightings.running))
	}
}
