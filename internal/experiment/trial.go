package experiment

import (
	"fmt"
	"math/bits"
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

// Trials lays out the randomised blocks: each block holds each treatment once,
// in an order drawn from the experiment's seed. after is the number of runs
// that come before this experiment in the same artifact (0 for the first), so
// that run ids stay unique there.
//
// The draw is part of the artifact's contract and must never change: block b
// uses a PCG (the PCG-DXSM of math/rand/v2) seeded with the seed and b, and a
// Fisher-Yates shuffle from the last place down, whose index below n is the
// high word of the product of the next 64 bits and n. A block's order depends
// on nothing but seed, b and the number of treatments: more blocks can be
// added, or shared out between machines, without moving the others.
func Trials(e lang.Experiment, treatments []Treatment, after int) []Trial {
	var out []Trial
	prev := ""
	for block := 1; block <= e.Iterations; block++ {
		for _, i := range blockOrder(e.Seed, block, len(treatments)) {
			order := after + len(out) + 1
			out = append(out, Trial{
				RunID:      fmt.Sprintf("%02d-%02d-%s", block, order, treatments[i].Slug),
				Experiment: e.Noun.Name(),
				Block:      block, Order: order,
				Treatment: treatments[i], PrevTreatment: prev,
			})
			prev = treatments[i].ID
		}
	}
	return out
}

// blockOrder is the order of n treatments in a block.
func blockOrder(seed int64, block, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	source := rand.NewPCG(uint64(seed), uint64(block))
	for i := n - 1; i > 0; i-- {
		j, _ := bits.Mul64(source.Uint64(), uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}
