package experiment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/golden"
)

// orders are the blocks of a study that begins with so many of them.
func orders(seed int64, blocks, n int) [][]int {
	out := make([][]int, 0, blocks)
	for b := 1; b <= blocks; b++ {
		out = append(out, row(Squares(blocks, n), seed, b, n))
	}
	return out
}

// The squares of a seed are part of what an artifact means: this file may never change.
func TestWilliamsGolden(t *testing.T) {
	var b strings.Builder
	for _, n := range []int{2, 3, 4, 5, 10} {
		fmt.Fprintf(&b, "%d treatments\n", n)
		for _, row := range orders(2026, 2*n, n) {
			fmt.Fprintln(&b, row)
		}
	}
	golden.Check(t, "williams-2026.txt", b.String())
}

// TestWilliamsIsBalanced counts, over whole squares, how often each treatment
// stands in each place and how often it directly follows each other one.
func TestWilliamsIsBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "treatments")
		k := rapid.IntRange(1, 4).Draw(t, "squares")
		seed := rapid.Int64().Draw(t, "seed")
		places, after := map[[2]int]int{}, map[[2]int]int{}
		for _, row := range orders(seed, k*n, n) {
			for i, tr := range row {
				places[[2]int{i, tr}]++
				if i > 0 {
					after[[2]int{row[i-1], tr}]++
				}
			}
		}
		for i := range n {
			for j := range n {
				if places[[2]int{i, j}] != k {
					t.Fatalf("treatment %d stands %d times in place %d, want %d", j, places[[2]int{i, j}], i, k)
				}
				if i == j || n%2 == 1 && k%2 == 1 {
					continue // a single square of an odd number cannot be balanced
				}
				if after[[2]int{i, j}] != k {
					t.Fatalf("treatment %d follows %d %d times, want %d", j, i, after[[2]int{i, j}], k)
				}
			}
		}
		// Another square more leaves the earlier ones alone.
		if d := cmp.Diff(orders(seed, k*n, n), orders(seed, (k+1)*n, n)[:k*n]); d != "" {
			t.Fatal(d)
		}
	})
}

func TestWilliamsSquaresDifferBySeed(t *testing.T) {
	first := map[string]bool{}
	for seed := range int64(50) {
		first[fmt.Sprint(orders(seed, 10, 10))] = true
	}
	if len(first) != 50 {
		t.Errorf("50 seeds gave %d squares", len(first))
	}
}

func TestBalanced(t *testing.T) {
	for _, c := range []struct {
		squares            bool
		blocks, treatments int
		want               string
	}{{false, 5, 10, "each block shuffled"}, {true, 10, 10, "Williams squares"}, {true, 20, 10, "Williams squares"}, {true, 6, 3, "Williams squares"},
		{true, 3, 3, "Williams squares, the last one even in places only"}, {false, 7, 1, "each block shuffled"},
		{true, 12, 10, "Williams squares, the last one not whole"}, {false, 10, 10, "each block shuffled"}} {
		if got := Balanced(c.squares, c.blocks, c.treatments); got != c.want {
			t.Errorf("%d blocks of %d: %q", c.blocks, c.treatments, got)
		}
	}
}
