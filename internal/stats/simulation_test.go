package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// studies simulates studies in blocks and counts those in which at least one
// pair is claimed to differ. Times are log-normal: a block effect that all
// treatments share, and noise with standard deviation sd of each run. The
// first treatment takes e^shift times as long as the others.
func studies(n, blocks, treatments int, sd, shift float64, seed uint64) (any, first int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range n {
		times := make([][]float64, treatments)
		for range blocks {
			block := rng.NormFloat64()
			for j := range times {
				v := block + sd*rng.NormFloat64()
				if j == 0 {
					v += shift
				}
				times[j] = append(times[j], math.Exp(v))
			}
		}
		var ps []float64
		for i := range times {
			for j := range i {
				d, err := LogRatios(times[i], times[j])
				if err != nil {
					panic(err)
				}
				ps = append(ps, SignFlip(d, 0, 0).P)
			}
		}
		claimed := false
		for _, p := range Holm(ps) {
			claimed = claimed || p <= 0.05
		}
		if claimed {
			any++
		}
		if ps[0] <= 0.05/float64(len(ps)) {
			first++
		}
	}
	return any, first
}

// tolerance is three standard errors of a count of n with probability p.
func tolerance(n int, p float64) float64 { return 3 * math.Sqrt(float64(n)*p*(1-p)) }

// TestThousandStudiesOfNothing: all treatments are the same one. A claim that
// any two differ may come in at most 5 % of the studies.
func TestThousandStudiesOfNothing(t *testing.T) {
	const n = 1000
	for _, c := range []struct{ blocks, treatments int }{{6, 2}, {12, 2}, {10, 3}, {10, 4}} {
		got, _ := studies(n, c.blocks, c.treatments, 0.3, 0, 2026)
		if limit := 0.05*n + tolerance(n, 0.05); float64(got) > limit {
			t.Errorf("%d blocks of %d treatments: %d of %d studies claim a difference, at most %.0f may", c.blocks, c.treatments, got, n, limit)
		}
		t.Logf("%d blocks of %d treatments: %d of %d", c.blocks, c.treatments, got, n)
	}
}

// TestLevelIsExact needs no simulation: when nothing differs, every pattern of
// signs is as likely as the other, so the share of patterns with p ≤ α is the
// error probability itself.
func TestLevelIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 20 {
		size := make([]float64, 10)
		for i := range size {
			size[i] = math.Exp(rng.NormFloat64())
		}
		claims, d := 0, make([]float64, len(size))
		for pattern := range 1 << len(size) {
			for i, v := range size {
				if pattern>>i&1 == 1 {
					v = -v
				}
				d[i] = v
			}
			if SignFlip(d, 0, 0).P <= 0.05 {
				claims++
			}
		}
		if share := float64(claims) / float64(int(1)<<len(size)); share > 0.05 || share < 0.03 {
			t.Errorf("the test errs with probability %v", share)
		}
	}
}

// TestPlantedEffectIsFound: an effect of the size that DetectableRatio names is
// found as often as it says.
func TestPlantedEffectIsFound(t *testing.T) {
	const n, sd = 1000, 0.1
	for _, c := range []struct{ blocks, treatments int }{{12, 2}, {11, 3}} {
		pairs := c.treatments * (c.treatments - 1) / 2
		for _, power := range []float64{0.8, 0.5} {
			// A log ratio of two runs varies √2 as much as one run.
			shift := math.Log(DetectableRatio(c.blocks, pairs, sd*math.Sqrt2, 0.05, power))
			_, got := studies(n, c.blocks, c.treatments, sd, shift, 7)
			if math.Abs(float64(got)-power*n) > tolerance(n, power)+0.03*n {
				t.Errorf("%d blocks of %d treatments: found in %d of %d, computed %.0f", c.blocks, c.treatments, got, n, power*n)
			}
			t.Logf("%d blocks of %d treatments, effect ×%.3f: found in %d of %d, computed %.0f", c.blocks, c.treatments, math.Exp(shift), got, n, power*n)
		}
	}
}

// TestEquivalenceIsNotClaimedAtTheMargin: two treatments that differ by just
// the margin are called equal in at most 5 % of the studies, and equal ones as
// often as EquivalenceRatio says.
func TestEquivalenceIsNotClaimedAtTheMargin(t *testing.T) {
	const n, blocks, sd = 1000, 12, 0.1
	rng := rand.New(rand.NewPCG(3, 3))
	margin := math.Log(EquivalenceRatio(blocks, sd, 0.05, 0.8))
	count := func(shift float64) int {
		claims, d := 0, make([]float64, blocks)
		for range n {
			for i := range d {
				d[i] = shift + sd*rng.NormFloat64()
			}
			r, err := TOST(d, margin, 0.05)
			if err != nil {
				t.Fatal(err)
			}
			if r.P <= 0.05 {
				claims++
			}
		}
		return claims
	}
	if got := count(margin); float64(got) > 0.05*n+tolerance(n, 0.05) {
		t.Errorf("at the margin %d of %d are called equal", got, n)
	}
	if got := count(0); math.Abs(float64(got)-0.8*n) > tolerance(n, 0.8)+0.02*n {
		t.Errorf("%d of %d equal pairs are found to be equal, computed %.0f", got, n, 0.8*n)
	}
}
