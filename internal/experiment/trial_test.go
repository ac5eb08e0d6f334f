package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/lang"
)

// The order of a seed is part of what an artifact means: this file may never change.
func TestTrialsGolden(t *testing.T) {
	top := paperTopology()
	treatments, ds := Treatments(top, top.Experiments[0])
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	var b strings.Builder
	for _, tr := range Trials(top.Experiments[0], treatments, 0) {
		fmt.Fprintf(&b, "%s %d %d %s prev=%s\n", tr.RunID, tr.Block, tr.Order, tr.Treatment.ID, tr.PrevTreatment)
	}
	golden.Check(t, "trials-2026.txt", b.String())
}

func TestTrialsAreRandomisedBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "treatments")
		e := lang.Experiment{Iterations: rapid.IntRange(1, 12).Draw(t, "blocks"), Seed: rapid.Int64().Draw(t, "seed")}
		after := rapid.IntRange(0, 100).Draw(t, "after")
		list := make([]Treatment, n)
		for i := range list {
			list[i] = Treatment{ID: fmt.Sprintf("k=%d", i), Slug: fmt.Sprintf("k%d", i)}
		}
		trials := Trials(e, list, after)
		if len(trials) != n*e.Iterations {
			t.Fatalf("%d trials, want %d", len(trials), n*e.Iterations)
		}
		ids, orders, prev := map[string]bool{}, map[string]bool{}, ""
		for b := range e.Iterations {
			var inBlock, slugs []string
			for i, tr := range trials[b*n : (b+1)*n] {
				if tr.Block != b+1 || tr.Order != after+b*n+i+1 || tr.PrevTreatment != prev || ids[tr.RunID] {
					t.Fatalf("trial %+v in block %d, place %d, after %q", tr, b+1, i, prev)
				}
				ids[tr.RunID], prev = true, tr.Treatment.ID
				inBlock, slugs = append(inBlock, tr.Treatment.ID), append(slugs, tr.Treatment.Slug)
			}
			orders[strings.Join(slugs, " ")] = true
			slices.Sort(inBlock)
			if len(slices.Compact(inBlock)) != n {
				t.Fatalf("block %d lacks a treatment: %q", b+1, inBlock)
			}
		}
		// With 10 treatments two blocks agree once in 3.6 million draws.
		if n >= 10 && len(orders) != e.Iterations {
			t.Fatalf("%d blocks have only %d different orders", e.Iterations, len(orders))
		}
		// Blocks that are added are those that a longer study of the same layout
		// would have had, whether or not their number makes whole squares now.
		layout := Layout{Squares: Squares(e.Iterations, n), After: after}
		more := e
		more.Iterations += rapid.IntRange(1, 2*n).Draw(t, "added")
		whole := Lay(more, list, layout)
		if diff := cmp.Diff(trials, whole[:len(trials)]); diff != "" {
			t.Fatalf("more blocks moved the earlier ones:\n%s", diff)
		}
		layout.Done, layout.After = e.Iterations, after+len(trials)
		if diff := cmp.Diff(Lay(more, list, layout), whole[len(trials):]); diff != "" {
			t.Fatalf("added blocks are others than those of a longer study:\n%s", diff)
		}
	})
}

// Every place of a block must be equally likely for every treatment, over
// blocks of one seed and over seeds: neighbouring PCG seeds could correlate.
func TestBlockOrderIsEven(t *testing.T) {
	const n, draws = 10, 20000
	for name, order := range map[string]func(i int) []int{
		"blocks": func(i int) []int { return blockOrder(2026, i+1, n) },
		"seeds":  func(i int) []int { return blockOrder(int64(i), 1, n) },
	} {
		var count [n][n]int
		for i := range draws {
			for place, tr := range order(i) {
				count[place][tr]++
			}
		}
		// Chi-square of one place has 9 degrees of freedom: 40 is p ≈ 8e-6.
		for place := range n {
			chi := 0.0
			for _, c := range count[place] {
				d := float64(c) - draws/n
				chi += d * d / (draws / n)
			}
			if chi > 40 {
				t.Errorf("%s: place %d has counts %v, chi-square %.1f", name, place, count[place], chi)
			}
		}
	}
}
