package experiment

import (
	"math/bits"
	"math/rand/v2"
)

// row returns the order of n treatments in a block, from 1: row by row from
// Williams squares, or shuffled by itself. A Williams square (Australian Journal of
// Scientific Research A 2, 1949) puts every treatment once into every place, and
// after each other one equally often: what a run leaves to the next one is then
// spread evenly. An odd n needs two squares for that, one the mirror of the other,
// and a single one left over is even in places only.
//
// As with the shuffle the draw is part of the artifact's contract. A square is
// drawn from the seed and its number alone: labels and rows are permuted, the
// two squares of an odd n with the same labels.
func row(squares bool, seed int64, block, n int) []int {
	if !squares {
		return blockOrder(seed, block, n)
	}
	return williams(seed, (block-1)/n, n)[(block-1)%n]
}

// Squares reports whether a study that begins with so many blocks of n treatments
// lays them out in Williams squares: when they are whole ones.
func Squares(blocks, n int) bool { return n > 1 && blocks > 0 && blocks%n == 0 }

// The second words of the seeds of labels and rows. Those of single blocks are
// the blocks' numbers, which end far below.
const (
	labelStream = 1 << 40
	rowStream   = 2 << 40
)

// williams is square number square (from 0), one row a block.
func williams(seed int64, square, n int) [][]int {
	set, mirrored := square, false
	if n%2 == 1 {
		set, mirrored = square/2, square%2 == 1
	}
	labels := permuted(rand.NewPCG(uint64(seed), labelStream+uint64(set)), n)
	rows := permuted(rand.NewPCG(uint64(seed), rowStream+uint64(square)), n)
	out := make([][]int, n)
	for i, shift := range rows {
		row := make([]int, n)
		for place := range n {
			// 0, 1, n−1, 2, n−2, …: neighbours differ by every amount once.
			step := (place + 1) / 2
			if place%2 == 0 {
				step = (n - step) % n
			}
			at := place
			if mirrored {
				at = n - 1 - place
			}
			row[at] = labels[(step+shift)%n]
		}
		out[i] = row
	}
	return out
}

// permuted is 0…n−1 in the order that a source draws: a Fisher-Yates shuffle
// from the last place down, whose index below i is the high word of the product
// of the next 64 bits and i.
func permuted(source *rand.PCG, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j, _ := bits.Mul64(source.Uint64(), uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}
