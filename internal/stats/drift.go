package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// DriftResult says whether values rise or fall over the blocks of a study.
type DriftResult struct {
	// Tau is the mean of Kendall's tau of the treatments, from −1 (every one
	// falls all the time) to 1.
	Tau float64
	// P is two-sided, under permutation of whole blocks; exact over all orders,
	// or estimated from Permutations random ones.
	P            float64
	Exact        bool
	Permutations int
}

// maxOrders is the largest number of orders of blocks that are enumerated: 8!.
const maxOrders = 40_320

// Drift tests for a trend over the blocks, blocks[i][j] being the value of
// treatment j in the i-th block. Each treatment gives Mann and Kendall's S, and
// their sum is the statistic: the seasonal Kendall test of Hirsch, Slack and
// Smith (Water Resources Research 18, 1982) with treatments for seasons. Its p
// comes from permuting whole blocks, so that values of one block may depend on
// each other.
func Drift(blocks [][]float64, resamples int, seed uint64) (DriftResult, error) {
	n := len(blocks)
	if n < 2 || len(blocks[0]) < 1 {
		return DriftResult{}, errors.New("drift: at least two blocks of one treatment are needed")
	}
	k := len(blocks[0])
	// rises[a][b] is how many treatments rise from block a to block b, less
	// those that fall: the statistic is a sum of these over the pairs in order.
	rises := make([][]int, n)
	for a := range rises {
		rises[a] = make([]int, n)
		if len(blocks[a]) != k {
			return DriftResult{}, fmt.Errorf("drift: block %d has %d treatments instead of %d", a+1, len(blocks[a]), k)
		}
		for b := range a {
			for j := range k {
				rises[b][a] += compare(blocks[b][j], blocks[a][j])
			}
			rises[a][b] = -rises[b][a]
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	observed := sumInOrder(rises, order)
	res := DriftResult{Tau: float64(observed) / float64(k*n*(n-1)/2), Exact: factorial(n) <= maxOrders}
	hits := 0
	count := func() {
		res.Permutations++
		if absolute(sumInOrder(rises, order)) >= absolute(observed) {
			hits++
		}
	}
	if res.Exact {
		eachOrder(order, n, count)
		res.P = float64(hits) / float64(res.Permutations)
		return res, nil
	}
	if resamples < 1 {
		return DriftResult{}, errors.New("drift: resamples must be positive")
	}
	rng := rand.New(rand.NewPCG(seed, 0x6472696674)) // second word: a stream of its own
	for range resamples {
		rng.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
		count()
	}
	res.P = float64(hits+1) / float64(resamples+1)
	return res, nil
}

func compare(before, after float64) int {
	switch {
	case after > before:
		return 1
	case after < before:
		return -1
	}
	return 0
}

func sumInOrder(rises [][]int, order []int) int {
	s := 0
	for i, a := range order {
		for _, b := range order[i+1:] {
			s += rises[a][b]
		}
	}
	return s
}

// eachOrder calls f with every order of the first n places (Heap's algorithm).
func eachOrder(order []int, n int, f func()) {
	if n <= 1 {
		f()
		return
	}
	for i := range n {
		eachOrder(order, n-1, f)
		if n%2 == 0 {
			order[i], order[n-1] = order[n-1], order[i]
		} else {
			order[0], order[n-1] = order[n-1], order[0]
		}
	}
}

func factorial(n int) int {
	f := 1
	for i := 2; i <= n; i++ {
		if f > math.MaxInt/i {
			return math.MaxInt
		}
		f *= i
	}
	return f
}

func absolute(n int) int { return max(n, -n) }
