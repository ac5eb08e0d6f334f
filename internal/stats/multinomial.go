package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// MultinomialResult is an exact test of counts against fixed probabilities.
type MultinomialResult struct {
	// P is the probability of an outcome that is at most as likely as the one
	// observed. Exact over all outcomes, or estimated from Resamples random ones
	// with (hits + 1) / (resamples + 1).
	P         float64
	Exact     bool
	Outcomes  int // enumerated ones, 0 when sampled
	Resamples int // drawn ones, 0 when exact
}

// maxOutcomes is the largest number of outcomes that are enumerated: 501 501
// are 1 000 decisions over three backends, and take some 10 ms.
const maxOutcomes = 1_000_000

// likelyTie is how much more likely than the observed one an outcome may be
// and still count as just as likely: rounding must not decide.
const likelyTie = 1e-7

// Multinomial tests whether independent choices fall on the categories with
// the weights given (they need not add up to 1). It orders the outcomes by
// their probability, as Fisher's exact test does: no χ² approximation, which
// is poor for few choices. A category with weight 0 must be empty, else P is 0.
// resamples and seed are used when the outcomes are too many to enumerate.
//
// The choices must be independent. Decisions of IPVS are that where the kernel
// chooses by a hash of random ports; queries of one socket are not.
func Multinomial(counts []int, weights []float64, resamples int, seed uint64) (MultinomialResult, error) {
	p, err := proportions(weights)
	if err != nil || len(counts) != len(p) {
		return MultinomialResult{}, errors.Join(err, sameLength(len(counts), len(weights)))
	}
	n := 0
	var kept []int
	var logs []float64
	for i, c := range counts {
		switch {
		case c < 0:
			return MultinomialResult{}, fmt.Errorf("multinomial: count %d is negative", i+1)
		case p[i] > 0:
			kept, logs, n = append(kept, c), append(logs, math.Log(p[i])), n+c
		case c > 0:
			return MultinomialResult{P: 0, Exact: true, Outcomes: 1}, nil // what cannot happen did
		}
	}
	factorials := logFactorials(n)
	limit := logProbability(kept, logs, factorials) + likelyTie
	if outcomes := compositions(n, len(kept)); outcomes <= maxOutcomes {
		return MultinomialResult{P: min(1, enumerated(n, logs, factorials, limit)), Exact: true, Outcomes: outcomes}, nil
	}
	if resamples < 1 {
		return MultinomialResult{}, errors.New("multinomial: resamples must be positive")
	}
	return MultinomialResult{P: sampledOutcomes(n, logs, factorials, limit, resamples, seed), Resamples: resamples}, nil
}

func sameLength(counts, weights int) error {
	if counts == weights {
		return nil
	}
	return fmt.Errorf("multinomial: %d counts and %d weights", counts, weights)
}

// proportions makes weights add up to 1.
func proportions(weights []float64) ([]float64, error) {
	sum := 0.0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return nil, fmt.Errorf("multinomial: weight %d is %v", i+1, w)
		}
		sum += w
	}
	if !(sum > 0) {
		return nil, errors.New("multinomial: no category has a weight")
	}
	out := make([]float64, len(weights))
	for i, w := range weights {
		out[i] = w / sum
	}
	return out, nil
}

// logFactorials returns ln 0! … ln n!.
func logFactorials(n int) []float64 {
	out := make([]float64, n+1)
	for i := 2; i <= n; i++ {
		out[i] = out[i-1] + math.Log(float64(i))
	}
	return out
}

// logProbability is ln of the probability of the counts.
func logProbability(counts []int, logs, factorials []float64) float64 {
	v := factorials[len(factorials)-1]
	for i, c := range counts {
		v += float64(c)*logs[i] - factorials[c]
	}
	return v
}

// compositions is C(n+k−1, k−1), the number of ways to share n out among k;
// above maxOutcomes it stops counting.
func compositions(n, k int) int {
	c := 1
	for i := 1; i < k; i++ {
		if c = c * (n + i) / i; c > maxOutcomes {
			return maxOutcomes + 1
		}
	}
	return c
}

// enumerated sums the probabilities of all outcomes up to the limit.
func enumerated(n int, logs, factorials []float64, limit float64) float64 {
	total := 0.0
	var walk func(category, left int, log float64)
	walk = func(category, left int, log float64) {
		if category == len(logs)-1 {
			log += float64(left)*logs[category] - factorials[left]
			if log <= limit {
				total += math.Exp(log)
			}
			return
		}
		for c := 0; c <= left; c++ {
			walk(category+1, left-c, log+float64(c)*logs[category]-factorials[c])
		}
	}
	walk(0, n, factorials[n])
	return total
}

func sampledOutcomes(n int, logs, factorials []float64, limit float64, resamples int, seed uint64) float64 {
	rng := rand.New(rand.NewPCG(seed, 0x6d756c7469)) // second word: a stream of its own
	cumulative := make([]float64, len(logs))
	sum := 0.0
	for i, l := range logs {
		sum += math.Exp(l)
		cumulative[i] = sum
	}
	counts := make([]int, len(logs))
	hits := 0
	for range resamples {
		clear(counts)
		for range n {
			u, i := rng.Float64()*sum, 0
			for i < len(cumulative)-1 && u >= cumulative[i] {
				i++
			}
			counts[i]++
		}
		if logProbability(counts, logs, factorials) <= limit {
			hits++
		}
	}
	return float64(hits+1) / float64(resamples+1)
}
