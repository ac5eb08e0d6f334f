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

// Trials lays out the blocks: each holds each treatment once, in an order drawn
// from the experiment's seed: Williams squares when the number of blocks is a
// multiple of the number of treatments, else a shuffle of each block. after is
// the number of runs that come before this experiment in the same artifact (0 for
// the first), so that run ids stay unique there.
//
// The draw is part of the artifact's contract and must never change: see [orders]
// and [blockOrder].
func Trials(e lang.Experiment, treatments []Treatment, after int) []Trial {
	var out []Trial
	prev := ""
	for b, order := range orders(e.Seed, e.Iterations, len(treatments)) {
		for _, i := range order {
			order := after + len(out) + 1
			out = append(out, Trial{
				RunID:      fmt.Sprintf("%02d-%02d-%s", b+1, order, treatments[i].Slug),
				Experiment: e.Noun.Name(),
				Block:      b + 1, Order: order,
				Treatment: rotated(e, treatments[i], b+1), PrevTreatment: prev,
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

// Balanced says in words how the blocks of an experiment are ordered.
func Balanced(blocks, treatments int) string {
	switch {
	case !squares(blocks, treatments):
		return "each block shuffled"
	case treatments%2 == 1 && blocks/treatments%2 == 1:
		return "Williams squares, the last one even in places only"
	}
	return "Williams squares"
}
