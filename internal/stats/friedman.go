package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// FriedmanResult is Friedman's test of blocks × treatments.
type FriedmanResult struct {
	Q     float64 // statistic, corrected for ties; 0 when all ranks are tied
	DF    int     // treatments − 1
	PChi2 float64 // from the χ² approximation, poor for few blocks
	// P is the probability, under permutation inside each block, of a statistic
	// at least as large. Exact over all permutations, or estimated from
	// Permutations random ones with (hits + 1) / (permutations + 1).
	P            float64
	Exact        bool
	Permutations int
}

// maxExact is the largest number of arrangements that are enumerated: 1 296 is
// five blocks of three treatments; 200 000 take some 10 ms.
const maxExact = 200_000

// Friedman tests whether treatments differ, blocks[i][j] being the value of
// treatment j in block i. The statistic is the tie-corrected one of Conover
// (Practical Nonparametric Statistics, 3rd ed., 5.8). resamples and seed are
// used when the arrangements are too many to enumerate.
func Friedman(blocks [][]float64, resamples int, seed uint64) (FriedmanResult, error) {
	n := len(blocks)
	if n < 2 || len(blocks[0]) < 2 {
		return FriedmanResult{}, errors.New("friedman: at least two blocks of two treatments are needed")
	}
	k := len(blocks[0])
	ranks := make([][]float64, n)
	for i, b := range blocks {
		if len(b) != k {
			return FriedmanResult{}, fmt.Errorf("friedman: block %d has %d treatments instead of %d", i+1, len(b), k)
		}
		ranks[i] = Ranks(b)
	}
	res := FriedmanResult{DF: k - 1, P: 1, PChi2: 1}
	sums := make([]float64, k)
	var squares float64
	for _, r := range ranks {
		for j, v := range r {
			sums[j] += v
			squares += v * v
		}
	}
	centre := float64(n*k) * float64(k+1) * float64(k+1) / 4 // Σ of mean ranks squared
	if squares-centre < 1e-12 {
		res.Exact = true // all tied in every block: nothing to permute
		return res, nil
	}
	scatter := between(sums, n)
	res.Q = float64(k-1) * scatter / (squares - centre)
	res.PChi2 = distuv.ChiSquared{K: float64(res.DF)}.Survival(res.Q)
	if count := arrangements(n, k); count <= maxExact {
		res.P, res.Permutations, res.Exact = exactFriedman(ranks, scatter), count, true
		return res, nil
	}
	if resamples < 1 {
		return FriedmanResult{}, errors.New("friedman: resamples must be positive")
	}
	res.P, res.Permutations = sampledFriedman(ranks, scatter, resamples, seed), resamples
	return res, nil
}

// between is Σ(rank sum of treatment − its expectation)²: it orders
// arrangements as Q does, because the ranks inside a block stay the same set.
func between(sums []float64, n int) float64 {
	mean := float64(n) * float64(len(sums)+1) / 2
	var s float64
	for _, v := range sums {
		s += (v - mean) * (v - mean)
	}
	return s
}

// arrangements is (k!)^(n−1), since permuting all blocks alike changes
// nothing; above maxExact it stops counting.
func arrangements(n, k int) int {
	fact := 1
	for i := 2; i <= k; i++ {
		if fact *= i; fact > maxExact {
			return maxExact + 1
		}
	}
	count := 1
	for range n - 1 {
		if count *= fact; count > maxExact {
			return maxExact + 1
		}
	}
	return count
}

func exactFriedman(ranks [][]float64, observed float64) float64 {
	perms := permutations(len(ranks[0]))
	sums := append([]float64{}, ranks[0]...)
	hits, total := 0, 0
	var walk func(block int)
	walk = func(block int) {
		if block == len(ranks) {
			total++
			if between(sums, len(ranks)) >= observed-1e-9 {
				hits++
			}
			return
		}
		for _, p := range perms {
			for j, from := range p {
				sums[j] += ranks[block][from]
			}
			walk(block + 1)
			for j, from := range p {
				sums[j] -= ranks[block][from]
			}
		}
	}
	walk(1)
	return float64(hits) / float64(total)
}

func sampledFriedman(ranks [][]float64, observed float64, resamples int, seed uint64) float64 {
	rng := rand.New(rand.NewPCG(seed, 0x667269656c64)) // second word: a stream of its own
	k := len(ranks[0])
	sums, row := make([]float64, k), make([]float64, k)
	hits := 0
	for range resamples {
		clear(sums)
		for _, r := range ranks {
			copy(row, r)
			rng.Shuffle(k, func(i, j int) { row[i], row[j] = row[j], row[i] })
			for j, v := range row {
				sums[j] += v
			}
		}
		if between(sums, len(ranks)) >= observed-1e-9 {
			hits++
		}
	}
	return float64(hits+1) / float64(resamples+1)
}

// permutations lists all orders of 0…k−1.
func permutations(k int) [][]int {
	if k == 0 {
		return [][]int{{}}
	}
	var out [][]int
	for _, p := range permutations(k - 1) {
		for i := 0; i <= len(p); i++ {
			q := append(append(append([]int{}, p[:i]...), k-1), p[i:]...)
			out = append(out, q)
		}
	}
	return out
}

// LogRatios returns ln(a[i]/b[i]) for paired values; values that are not
// positive are an error, because a ratio of them says nothing.
func LogRatios(a, b []float64) ([]float64, error) {
	if len(a) != len(b) {
		return nil, fmt.Errorf("log ratios: %d and %d values are not pairs", len(a), len(b))
	}
	out := make([]float64, len(a))
	for i := range a {
		if !(a[i] > 0 && b[i] > 0) || math.IsInf(a[i], 0) || math.IsInf(b[i], 0) {
			return nil, fmt.Errorf("log ratios: pair %d, %v and %v, has no ratio", i+1, a[i], b[i])
		}
		out[i] = math.Log(a[i] / b[i])
	}
	return out, nil
}
