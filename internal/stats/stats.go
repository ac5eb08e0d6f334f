// Package stats holds the statistics that studies in blocks need: fairness
// indexes, quantiles, exact paired tests with corrections, and how much a
// number of blocks can show at all. It is pure; random numbers come from a seed.
package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Summary describes a sample. SD is the sample standard deviation (n − 1), NaN
// for fewer than two values. Quartiles are those of [Quantile].
type Summary struct {
	N                        int
	Min, Q1, Median, Q3, Max float64
	Mean, SD                 float64
}

// Summarise describes the sample; all its numbers but N are NaN when it is empty.
func Summarise(x []float64) Summary {
	s := Summary{N: len(x), Min: math.NaN(), Max: math.NaN(), Mean: math.NaN(), SD: math.NaN()}
	s.Q1, s.Median, s.Q3 = Quantile(x, 0.25), Quantile(x, 0.5), Quantile(x, 0.75)
	if len(x) == 0 {
		return s
	}
	s.Min, s.Max = slices.Min(x), slices.Max(x)
	s.Mean = stat.Mean(x, nil)
	if len(x) > 1 {
		s.SD = stat.StdDev(x, nil)
	}
	return s
}

// Quantile returns the p-quantile, 0 ≤ p ≤ 1, by linear interpolation between
// order statistics at h = (n − 1)·p: definition 7 of Hyndman and Fan (The
// American Statistician 50, 1996), the default of R and NumPy. gonum has
// definitions 1 and 4 only. The sample need not be sorted; NaN when it is
// empty or p is out of range.
func Quantile(x []float64, p float64) float64 {
	if len(x) == 0 || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(x))
	h := float64(len(s)-1) * p
	i := int(math.Floor(h))
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (h-float64(i))*(s[i+1]-s[i])
}

// Jain returns Jain's fairness index (Σx)² / (n·Σx²): 1 when all are equal,
// 1/n when one has everything (Jain, Chiu, Hawe: DEC-TR-301, 1984). ok is
// false when it is not defined: no values, a negative one, or all zero.
func Jain(x []float64) (index float64, ok bool) {
	var sum, squares float64
	for _, v := range x {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, false
		}
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0, false
	}
	return sum * sum / (float64(len(x)) * squares), true
}

// JainWeighted is [Jain] of x[i]/weight[i] over the entries with a weight above
// 0: 1 when everybody has their share of the weights. Entries without weight
// must not have anything, else ok is false.
func JainWeighted(x, weight []float64) (index float64, ok bool) {
	if len(x) != len(weight) {
		return 0, false
	}
	var per []float64
	for i, w := range weight {
		switch {
		case w > 0:
			per = append(per, x[i]/w)
		case x[i] != 0:
			return 0, false
		}
	}
	return Jain(per)
}

// Ranks returns the ranks of x, from 1; equal values share the mean of theirs.
func Ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	ranks := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return ranks
}
