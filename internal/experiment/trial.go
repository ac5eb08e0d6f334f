package experiment

import (
	"fmt"
	"math/rand/v2"

	"github.com/lvslab/lvslab/internal/lang"
)

// Trial is one run that is to be made.
type Trial struct {
	RunID         string    `json:"run_id"` // 01-07-rr: block, order, slug
	Experiment    string    `json:"experiment"`
	Block         int       `json:"block"` // from 1
	Order         int       `json:"order"` // from 1, over the whole study
	Treatment     Treatment `json:"treatment"`
	PrevTreatment string    `json:"prev_treatment"` // id; "" for the first run
}

// Layout says where blocks of an experiment stand in its study.
type Layout struct {
	// Squares: each block is a row of a Williams square; else it is shuffled by
	// itself. It is decided once, by the blocks that a study has at first (see
	// [Squares]), and then kept: blocks that are added move no earlier ones.
	Squares bool
	// Done is how many blocks come before the first that is laid out.
	Done int
	// After is how many runs come before it in the study, those of other
	// experiments included.
	After int
}

// Trials lays out the blocks of a study that begins: each holds each treatment
// once, in an order drawn from the experiment's seed: Williams squares when the
// number of blocks is a multiple of the number of treatments, else a shuffle of
// each block. after is the number of runs that come before this experiment in the
// same artifact (0 for the first), so that run ids stay unique there.
func Trials(e lang.Experiment, treatments []Treatment, after int) []Trial {
	return Lay(e, treatments, Layout{Squares: Squares(e.Iterations, len(treatments)), After: after})
}

// Lay lays out the blocks of an experiment after the first l.Done ones. The order
// inside a block depends on the seed, the block's number, the number of treatments
// and l.Squares alone, so that blocks can be added later, or shared out between
// machines, and are the same as if all had been made at once.
//
// The draw is part of the artifact's contract and must never change: see [row].
func Lay(e lang.Experiment, treatments []Treatment, l Layout) []Trial {
	var out []Trial
	prev := ""
	if l.Done > 0 && len(treatments) > 0 {
		last := row(l.Squares, e.Seed, l.Done, len(treatments))
		prev = treatments[last[len(last)-1]].ID
	}
	for block := l.Done + 1; block <= e.Iterations; block++ {
		for _, i := range row(l.Squares, e.Seed, block, len(treatments)) {
			order := l.After + len(out) + 1
			out = append(out, Trial{
				RunID:      fmt.Sprintf("%02d-%02d-%s", block, order, treatments[i].Slug),
				Experiment: e.Noun.Name(),
				Block:      block, Order: order,
				Treatment: rotated(e, treatments[i], block), PrevTreatment: prev,
			})
			prev = treatments[i].ID
		}
	}
	return out
}

// blockOrder is the shuffled order of n treatments in a block: from a PCG (the
// PCG-DXSM of math/rand/v2) seeded with the seed and the block's number, by
// [permuted]. It depends on nothing else: more blocks can be added, or shared
// out between machines, without moving the others.
func blockOrder(seed int64, block, n int) []int {
	return permuted(rand.NewPCG(uint64(seed), uint64(block)), n)
}

// Balanced says in words how the blocks of an experiment are ordered, whose
// layout has squares or not.
func Balanced(squares bool, blocks, treatments int) string {
	switch {
	case !squares || treatments < 1:
		return "each block shuffled"
	case blocks%treatments != 0:
		return "Williams squares, the last one not whole"
	case treatments%2 == 1 && blocks/treatments%2 == 1:
		return "Williams squares, the last one even in places only"
	}
	return "Williams squares"
}
