package stats

import "math"

// JainBound is the highest value that [JainWeighted] can have when c whole
// decisions are shared out among the weights: 20 decisions over three equal
// backends are 7, 7 and 6 at best, and their index is 0.9950, not 1. For equal
// weights that is a formula; else all divisions are tried, up to a million of
// them, and beyond that a good one is improved for as long as it can be. ok is
// false when it is not defined: no decision, or no positive weight.
func JainBound(decisions int, weight []float64) (bound float64, ok bool) {
	var w []float64
	equal := true
	for _, v := range weight {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return 0, false
		}
		if v > 0 {
			w = append(w, v)
			equal = equal && v == w[0]
		}
	}
	switch {
	case decisions < 1 || len(w) == 0:
		return 0, false
	case equal:
		x := make([]float64, len(w))
		for i := range x {
			x[i] = float64((decisions + i) / len(w)) // each within 1 of the others
		}
		return indexOf(x, w), true
	case compositions(decisions, len(w)) <= maxOutcomes:
		return highest(decisions, w), true
	}
	return improved(decisions, w), true
}

// highest tries all divisions.
func highest(decisions int, w []float64) float64 {
	best := 0.0
	last := len(w) - 1
	var walk func(i, left int, sum, squares float64)
	walk = func(i, left int, sum, squares float64) {
		if i == last {
			v := float64(left) / w[i]
			sum, squares = sum+v, squares+v*v
			best = max(best, sum*sum/squares)
			return
		}
		for c := range left + 1 {
			v := float64(c) / w[i]
			walk(i+1, left-c, sum+v, squares+v*v)
		}
	}
	walk(0, decisions, 0, 0)
	return best / float64(len(w))
}

// improved starts near the shares, puts each decision that is left where the
// index is highest, and then moves single ones.
func improved(decisions int, w []float64) float64 {
	x := make([]float64, len(w))
	for range decisions - wholeParts(x, w, decisions) {
		x[bestPlace(x, w)]++
	}
	best := indexOf(x, w)
	for {
		from, to, v := bestMove(x, w)
		if v <= best+1e-15 {
			return best
		}
		x[from]--
		x[to]++
		best = v
	}
}

// wholeParts gives everybody the whole part of their share, less one, and
// returns how much that is.
func wholeParts(x, w []float64, decisions int) int {
	total, given := 0.0, 0
	for _, v := range w {
		total += v
	}
	for i, v := range w {
		x[i] = max(0, math.Floor(float64(decisions)*v/total)-1)
		given += int(x[i])
	}
	return given
}

func bestPlace(x, w []float64) int {
	best, at := -1.0, 0
	for i := range x {
		x[i]++
		if v := indexOf(x, w); v > best+1e-15 {
			best, at = v, i
		}
		x[i]--
	}
	return at
}

func bestMove(x, w []float64) (from, to int, best float64) {
	for i := range x {
		if x[i] == 0 {
			continue
		}
		x[i]--
		for j := range x {
			x[j]++
			if v := indexOf(x, w); i != j && v > best {
				from, to, best = i, j, v
			}
			x[j]--
		}
		x[i]++
	}
	return from, to, best
}

// indexOf is Jain's index of x per weight, 0 when all are 0.
func indexOf(x, w []float64) float64 {
	var sum, squares float64
	for i := range x {
		v := x[i] / w[i]
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(x)) * squares)
}
