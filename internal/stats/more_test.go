package stats

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// exactly computes the multinomial p with fractions, without logarithms and
// without an order of its own: another way to the same number.
func exactly(counts []int, weights []int64) float64 {
	total := int64(0)
	for _, w := range weights {
		total += w
	}
	n := 0
	for _, c := range counts {
		n += c
	}
	probability := func(x []int) *big.Rat {
		ways := new(big.Int).MulRange(1, int64(n))
		p := new(big.Rat)
		num, den := big.NewInt(1), big.NewInt(1)
		for i, c := range x {
			ways.Div(ways, new(big.Int).MulRange(1, int64(c)))
			for range c {
				num.Mul(num, big.NewInt(weights[i]))
				den.Mul(den, big.NewInt(total))
			}
		}
		return p.SetFrac(num.Mul(num, ways), den)
	}
	observed, sum := probability(counts), new(big.Rat)
	x := make([]int, len(counts))
	var each func(i, left int)
	each = func(i, left int) {
		if i == len(x)-1 {
			x[i] = left
			if p := probability(x); p.Cmp(observed) <= 0 {
				sum.Add(sum, p)
			}
			return
		}
		for c := range left + 1 {
			x[i] = c
			each(i+1, left-c)
		}
	}
	each(0, n)
	f, _ := sum.Float64()
	return f
}

func TestMultinomialAgainstFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 4).Draw(t, "k")
		counts := rapid.SliceOfN(rapid.IntRange(0, 5), k, k).Draw(t, "counts")
		whole := rapid.SliceOfN(rapid.Int64Range(1, 5), k, k).Draw(t, "weights")
		weights := make([]float64, k)
		for i, w := range whole {
			weights[i] = float64(w)
		}
		got, err := Multinomial(counts, weights, 0, 0)
		if err != nil || !got.Exact {
			t.Fatalf("%+v, %v", got, err)
		}
		if want := exactly(counts, whole); math.Abs(got.P-want) > 1e-9 {
			t.Fatalf("p = %v, want %v", got.P, want)
		}
	})
}

func TestMultinomialEdges(t *testing.T) {
	got, err := Multinomial([]int{5, 1, 0}, []float64{1, 1, 0}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "an empty category without weight", got.P, 2*7.0/64, 1e-12)
	if got, err = Multinomial([]int{5, 1}, []float64{1, 0}, 0, 0); err != nil || got.P != 0 {
		t.Errorf("what cannot happen: %+v, %v", got, err)
	}
	for _, bad := range []struct {
		counts  []int
		weights []float64
	}{{[]int{1}, []float64{1, 1}}, {[]int{-1, 2}, []float64{1, 1}}, {[]int{1, 1}, []float64{0, 0}}, {nil, nil}, {[]int{1}, []float64{math.NaN()}}} {
		if _, err := Multinomial(bad.counts, bad.weights, 10, 1); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	if _, err := Multinomial([]int{500, 500, 500, 500}, []float64{1, 1, 1, 1}, 0, 0); err == nil {
		t.Error("sampling without resamples")
	}
	// Sampled and exact agree.
	exact, _ := Multinomial([]int{18, 32, 10}, []float64{1, 1, 1}, 0, 0)
	logs := []float64{math.Log(1.0 / 3), math.Log(1.0 / 3), math.Log(1.0 / 3)}
	f := logFactorials(60)
	near(t, "sampled", sampledOutcomes(60, logs, f, logProbability([]int{18, 32, 10}, logs, f)+likelyTie, 30000, 3), exact.P, 0.001)
}

func TestJainBound(t *testing.T) {
	for _, c := range []struct {
		decisions int
		weights   []float64
		want      float64
	}{
		{20, []float64{1, 1, 1}, 400.0 / (3 * (49 + 49 + 36))}, // 0.9950, as in the reference
		{1, []float64{1, 1, 1}, 1.0 / 3},
		{60, []float64{3, 2, 1}, 1},
		{3, []float64{1, 1, 1, 0}, 1},
	} {
		got, ok := JainBound(c.decisions, c.weights)
		if !ok {
			t.Errorf("%v: not defined", c)
		}
		near(t, "bound", got, c.want, 1e-12)
	}
	for _, bad := range [][]float64{nil, {0}, {-1, 1}, {math.NaN()}} {
		if _, ok := JainBound(5, bad); ok {
			t.Errorf("%v: defined", bad)
		}
	}
	if _, ok := JainBound(0, []float64{1}); ok {
		t.Error("no decision: defined")
	}
}

func TestJainBoundIsTheHighest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 14).Draw(t, "decisions")
		whole := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 3).Draw(t, "weights")
		w := make([]float64, len(whole))
		for i, v := range whole {
			w[i] = float64(v)
		}
		best, x := 0.0, make([]float64, len(w))
		var each func(i, left int)
		each = func(i, left int) {
			if i == len(x)-1 {
				x[i] = float64(left)
				j, _ := JainWeighted(x, w)
				best = max(best, j)
				return
			}
			for c := range left + 1 {
				x[i] = float64(c)
				each(i+1, left-c)
			}
		}
		each(0, n)
		if got, ok := JainBound(n, w); !ok || math.Abs(got-best) > 1e-9 {
			t.Fatalf("bound %v, the highest of all is %v", got, best)
		}
		// With enough decisions for everybody's share the improved one is it, too.
		total := 0
		for _, v := range whole {
			total += v
		}
		if got := improved(4*total+n, w); got < highest(4*total+n, w)-1e-6 {
			t.Fatalf("improved %v, the highest of all is %v", got, highest(4*total+n, w))
		}
	})
}

func TestTOSTEdges(t *testing.T) {
	same := []float64{0.01, 0.01, 0.01}
	if got, err := TOST(same, 0.02, 0.05); err != nil || got.P != 0 {
		t.Errorf("differences that are all the same and inside: %+v, %v", got, err)
	}
	if got, err := TOST(same, 0.005, 0.05); err != nil || got.P != 1 {
		t.Errorf("all the same and outside: %+v, %v", got, err)
	}
	for _, bad := range []struct {
		d             []float64
		margin, alpha float64
	}{{[]float64{1}, 1, 0.05}, {same, 0, 0.05}, {same, 1, 0}, {same, 1, 0.6}, {same, math.Inf(1), 0.05}} {
		if _, err := TOST(bad.d, bad.margin, bad.alpha); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	rapid.Check(t, func(t *rapid.T) { // the interval and the p say the same
		d := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 12).Draw(t, "d")
		margin := rapid.Float64Range(0.01, 1).Draw(t, "margin")
		r, err := TOST(d, margin, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		if inside := r.Low > -margin && r.High < margin; inside != (r.P < 0.05) && math.Abs(r.P-0.05) > 1e-6 {
			t.Fatalf("inside = %v at p = %v", inside, r.P)
		}
	})
}

func TestDetectable(t *testing.T) {
	// What cannot be found however large it is: five blocks, even for one pair.
	for _, c := range []struct{ n, m int }{{5, 1}, {10, 45}, {1, 1}, {0, 1}} {
		if got := DetectableEffect(c.n, c.m, 0.05, 0.8); !math.IsInf(got, 1) {
			t.Errorf("%d blocks, %d pairs: %v", c.n, c.m, got)
		}
	}
	e := DetectableEffect(20, 45, 0.05, 0.8)
	near(t, "power at the effect", Power(20, e, 0.05/45), 0.8, 1e-9)
	near(t, "ratio", DetectableRatio(20, 45, 0.1, 0.05, 0.8), math.Exp(0.1*e), 1e-12)
	if a, b := DetectableEffect(20, 1, 0.05, 0.8), DetectableEffect(40, 1, 0.05, 0.8); a <= b {
		t.Errorf("more blocks must find smaller effects: %v, %v", a, b)
	}
	// Under emulation times vary by 35 %; 20 blocks then show "equal" only
	// within a factor of about 1.4. The deviation of a log ratio is √2 times that.
	near(t, "equivalence under emulation", EquivalenceRatio(20, 0.35*math.Sqrt2, 0.05, 0.8), 1.4, 0.03)
	if !math.IsInf(EquivalenceRatio(1, 0.1, 0.05, 0.8), 1) {
		t.Error("one pair shows equality")
	}
}

func TestDriftTreatments(t *testing.T) {
	// Two treatments that both rise over three blocks: S = 6, and of the six
	// orders of blocks two are as extreme.
	got, err := Drift([][]float64{{1, 10}, {2, 11}, {3, 12}}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "tau", got.Tau, 1, 1e-12)
	near(t, "p", got.P, 2.0/6, 1e-12)
	// One rises, the other falls: no common trend.
	if got, _ = Drift([][]float64{{1, 12}, {2, 11}, {3, 10}}, 0, 0); got.Tau != 0 || got.P != 1 {
		t.Errorf("%+v", got)
	}
	var rising [][]float64
	for i := range 20 {
		rising = append(rising, []float64{float64(i)})
	}
	if got, err = Drift(rising, 999, 1); err != nil || got.Exact || got.P != 1.0/1000 {
		t.Errorf("sampled: %+v, %v", got, err)
	}
	for _, bad := range [][][]float64{nil, {{1}}, {{}, {}}, {{1}, {1, 2}}} {
		if _, err := Drift(bad, 10, 1); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	if _, err := Drift(rising, 0, 1); err == nil {
		t.Error("sampling without resamples")
	}
}
