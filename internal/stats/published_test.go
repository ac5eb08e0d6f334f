package stats

import (
	"math"
	"testing"
)

// Each routine against a worked example that somebody else has published.

func TestMultinomialPublished(t *testing.T) {
	// Two categories are the binomial test. Mendel's peas in Conover, Practical
	// Nonparametric Statistics (1971), p. 97; R's help page of binom.test gives
	// p = 0.3825 for 682 of 925 against 3/4.
	got, err := Multinomial([]int{682, 243}, []float64{3, 1}, 0, 0)
	if err != nil || !got.Exact || got.Outcomes != 926 {
		t.Fatalf("%+v, %v", got, err)
	}
	near(t, "Mendel, two kinds", got.P, 0.3825, 0.00005)
	// Four kinds 9:3:3:1: the vignette of R's package XNomial gives 0.9382 for
	// ordering by probability, over 28 956 759 outcomes. Too many for us, so
	// this is the sampled p.
	got, err = Multinomial([]int{315, 108, 101, 32}, []float64{9, 3, 3, 1}, 5000, 1)
	if err != nil || got.Exact || got.Resamples != 5000 {
		t.Fatalf("%+v, %v", got, err)
	}
	near(t, "Mendel, four kinds", got.P, 0.9382, 0.012) // 3.5 standard errors
}

func TestSignFlipPublished(t *testing.T) {
	// Darwin's maize, differences in eighths of an inch, with which Fisher (The
	// Design of Experiments, 1935, section 21) introduced the test: 863 of the
	// 32 768 sign patterns reach the sum 314, so 5.267 % are as extreme.
	maize := []float64{49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48}
	got := SignFlip(maize, 0, 0)
	near(t, "mean", got.Mean, 314.0/15, 1e-12)
	near(t, "p", got.P, 2*863.0/32768, 1e-12)
}

func TestFriedmanPublished(t *testing.T) {
	// Rounding first base: Hollander and Wolfe (1973), p. 140; R's help page of
	// friedman.test gives χ² = 11.143 on 2 degrees of freedom, p = 0.003805.
	// There are ties.
	times := [][]float64{
		{5.40, 5.50, 5.55}, {5.85, 5.70, 5.75}, {5.20, 5.60, 5.50}, {5.55, 5.50, 5.40}, {5.90, 5.85, 5.70},
		{5.45, 5.55, 5.60}, {5.40, 5.40, 5.35}, {5.45, 5.50, 5.35}, {5.25, 5.15, 5.00}, {5.85, 5.80, 5.70},
		{5.25, 5.20, 5.10}, {5.65, 5.55, 5.45}, {5.60, 5.35, 5.45}, {5.05, 5.00, 4.95}, {5.50, 5.50, 5.40},
		{5.45, 5.55, 5.50}, {5.55, 5.55, 5.35}, {5.45, 5.50, 5.55}, {5.50, 5.45, 5.25}, {5.65, 5.60, 5.40},
		{5.70, 5.65, 5.55}, {6.30, 6.30, 6.25},
	}
	got, err := Friedman(times, 5000, 1)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "statistic", got.Q, 11.143, 0.0005)
	near(t, "p of χ²", got.PChi2, 0.003805, 0.0000005)
	near(t, "p by permutation", got.P, got.PChi2, 0.003) // 22 blocks: the approximation is good
}

func TestHodgesLehmannPublished(t *testing.T) {
	// Depression scores: Hollander and Wolfe, Nonparametric Statistical Methods,
	// examples 3.1 to 3.4: estimate −0.46, interval (−0.786, −0.010) at 1 − 0.039.
	before := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	after := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	d := make([]float64, len(before))
	for i := range d {
		d[i] = after[i] - before[i]
	}
	got := HodgesLehmann(d, 0.95)
	near(t, "estimate", got.Estimate, -0.46, 0.0005)
	near(t, "low", got.Low, -0.786, 0.0005)
	near(t, "high", got.High, -0.010, 0.0005)
	near(t, "level", got.Level, 1-0.039, 0.0005)
}

func TestHolmPublished(t *testing.T) {
	// R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm").
	got := Holm([]float64{0.01, 0.02, 0.03, 0.04, 0.05})
	for i, want := range []float64{0.05, 0.08, 0.09, 0.09, 0.09} {
		near(t, "adjusted", got[i], want, 1e-12)
	}
}

func TestTOSTPublished(t *testing.T) {
	// Student's sleep data. R: t.test(..., paired = TRUE) gives mean 1.58,
	// t = 4.0621 on 9 degrees of freedom, 95 % interval 0.7001142 to 2.4598858.
	// By duality a margin at the end of the interval gives p = 0.025.
	sleep := []float64{1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4}
	got, err := TOST(sleep, 2.4598858, 0.025)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean", got.Mean, 1.58, 1e-12)
	near(t, "t at margin 0", got.Mean/(got.SD/math.Sqrt(10)), 4.0621, 0.00005)
	near(t, "low", got.Low, 0.7001142, 5e-8)
	near(t, "high", got.High, 2.4598858, 5e-8)
	near(t, "p", got.P, 0.025, 1e-7)
	if got.P != got.PUpper || got.PLower > 0.001 {
		t.Errorf("the wrong side decides: %+v", got)
	}
	// Lakens (2017), in the help page of R's TOSTpaired: n = 65, means 5.83 and
	// 5.75, deviations 1.17 and 1.29, correlation 0.75, bounds ±0.4 of the
	// deviation of the differences. t is then 0.4·√65 = 3.225 on either side of
	// 0.08/(0.877/√65) = 0.735.
	sd := math.Sqrt(1.17*1.17 + 1.29*1.29 - 2*0.75*1.17*1.29)
	r := tostOf(65, 0.08, sd, 0.4*sd, 0.05)
	near(t, "lower t", r.TLower, 0.7355+3.2249, 0.0001)
	near(t, "upper t", r.TUpper, 0.7355-3.2249, 0.0001)
	near(t, "p", r.P, 0.0077, 0.0001)
}

func TestPowerPublished(t *testing.T) {
	// R: power.t.test(n = 20, delta = 1) of two samples gives 0.8689528: a
	// noncentral t with 38 degrees of freedom and noncentrality √10.
	near(t, "two samples of 20", tPower(math.Sqrt(10), 38, criticalT(38, 0.025)), 0.8689528, 1e-6)
	// Pairs at 0.5 deviations: G*Power's and Cohen's 34 for a power of 0.8;
	// R: power.t.test(delta = 0.5, power = 0.8, type = "paired") says 33.37.
	if a, b := Power(33, 0.5, 0.05), Power(34, 0.5, 0.05); a >= 0.8 || b < 0.8 {
		t.Errorf("power at 33 and 34 pairs: %v and %v", a, b)
	}
	near(t, "34 pairs", Power(34, 0.5, 0.05), 0.8078, 0.0001)
}

func TestDriftPublished(t *testing.T) {
	// One treatment is Kendall's S. His table (Rank Correlation Methods, appendix
	// table 1) for n = 5: P(S ≥ 8) = 0.042, P(S ≥ 10) = 0.0083; n = 8:
	// P(S ≥ 16) = 0.031.
	series := func(x ...float64) [][]float64 {
		var out [][]float64
		for _, v := range x {
			out = append(out, []float64{v})
		}
		return out
	}
	for _, c := range []struct {
		name   string
		blocks [][]float64
		tau, p float64
	}{
		{"S = 10", series(1, 2, 3, 4, 5), 1, 2 * 0.0083},
		{"S = −8", series(5, 4, 3, 1, 2), -0.8, 2 * 0.0417},
		{"S = 16 of 28", series(1, 2, 3, 4, 8, 7, 6, 5), 16.0 / 28, 2 * 0.031},
		{"level", series(7, 7, 7, 7), 0, 1},
	} {
		got, err := Drift(c.blocks, 0, 0)
		if err != nil || !got.Exact {
			t.Fatalf("%s: %+v, %v", c.name, got, err)
		}
		near(t, c.name+" tau", got.Tau, c.tau, 1e-12)
		near(t, c.name+" p", got.P, c.p, 0.0012) // two tails of three decimals
	}
}

func TestRankSumPublished(t *testing.T) {
	// Permeability of a membrane: Hollander and Wolfe (1973), p. 69; R's help page
	// of wilcox.test gives W = 35 and a one-sided p of 0.1272.
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	got := RankSum(x, y, 0, 0)
	if !got.Exact || got.W != 35 {
		t.Errorf("%+v", got)
	}
	near(t, "p", got.P, 2*0.1272, 0.0001)
	if got = RankSum(nil, y, 0, 0); got.P != 1 {
		t.Errorf("an empty sample: %+v", got)
	}
	if got = RankSum([]float64{1, 1}, []float64{1, 1}, 0, 0); got.P != 1 {
		t.Errorf("all tied: %+v", got)
	}
	var low, high []float64
	for i := range 20 {
		low, high = append(low, float64(i)), append(high, float64(100+i))
	}
	if got = RankSum(low, high, 999, 1); got.Exact || got.P != 1.0/1000 {
		t.Errorf("sampled: %+v", got)
	}
}
