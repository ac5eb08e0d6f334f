package stats

import "math"

// JainBound is the highest value that [JainWeighted] can have when c whole
// decisions are shared out among the weights: 20 decisions over three equal
// backends are 7, 7 and 6 at best, and their index is 0.9950, not 1. For equal
// weights that is a formula; else all divisions are tried, up to a million of
// them, and beyond that good ones are improved for as long as that helps. ok is
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

// improved starts from the shares, rounded at several scales, so that their sum
// may be too large or too small; puts that right where it costs least, and then
// moves single decisions for as long as it helps.
func improved(decisions int, w []float64) float64 {
	total := 0.0
	for _, v := range w {
		total += v
	}
	best := 0.0
	x := make([]float64, len(w))
	for percent := 70; percent <= 130; percent++ {
		sum := 0
		for i, v := range w {
			x[i] = math.Round(float64(decisions) * v / total * float64(percent) / 100)
			sum += int(x[i])
		}
		for ; sum < decisions; sum++ {
			x[bestStep(x, w, 1)]++
		}
		for ; sum > decisions; sum-- {
			x[bestStep(x, w, -1)]--
		}
		best = max(best, climbed(x, w))
	}
	return best
}

// climbed moves single decisions until none helps.
func climbed(x, w []float64) float64 {
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

// bestStep is where one decision more (1) or less (−1) leaves the index highest.
func bestStep(x, w []float64, step float64) int {
	best, at := -1.0, 0
	for i := range x {
		if x[i]+step < 0 {
			continue
		}
		x[i] += step
		if v := indexOf(x, w); v > best+1e-15 {
			best, at = v, i
		}
		x[i] -= step
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
