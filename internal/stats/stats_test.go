package stats

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestQuantile(t *testing.T) {
	// R: quantile(c(1,3,4,10), p) with its default type 7.
	x := []float64{10, 1, 4, 3}
	for _, c := range []struct{ p, want float64 }{{0, 1}, {0.25, 2.5}, {0.5, 3.5}, {0.75, 5.5}, {0.95, 9.1}, {1, 10}} {
		near(t, "quantile", Quantile(x, c.p), c.want, 1e-12)
	}
	if x[0] != 10 {
		t.Error("the sample was reordered")
	}
	near(t, "one value", Quantile([]float64{7}, 0.99), 7, 0)
	for _, p := range []float64{-0.1, 1.1, math.NaN()} {
		near(t, "quantile out of range", Quantile(x, p), math.NaN(), 0)
	}
	near(t, "empty", Quantile(nil, 0.5), math.NaN(), 0)
}

func TestSummarise(t *testing.T) {
	// Mean 5, sum of squared deviations 32: the sample SD is √(32/7).
	s := Summarise([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	near(t, "mean", s.Mean, 5, 1e-12)
	near(t, "sd", s.SD, math.Sqrt(32.0/7), 1e-12)
	near(t, "median", s.Median, 4.5, 1e-12)
	near(t, "q1", s.Q1, 4, 1e-12)
	near(t, "q3", s.Q3, 5.5, 1e-12)
	if s.N != 8 || s.Min != 2 || s.Max != 9 {
		t.Errorf("got %+v", s)
	}
	near(t, "sd of one", Summarise([]float64{3}).SD, math.NaN(), 0)
	near(t, "mean of none", Summarise(nil).Mean, math.NaN(), 0)
}

func TestJain(t *testing.T) {
	cases := []struct {
		name string
		x    []float64
		want float64
		ok   bool
	}{
		{"even", []float64{5, 5, 5}, 1, true},
		{"one of three", []float64{0, 1000, 0}, 1.0 / 3, true},
		{"20 sockets over 3", []float64{350, 350, 300}, 1e6 / (3 * (2*350*350 + 300*300)), true},
		{"nothing", []float64{0, 0}, 0, false},
		{"empty", nil, 0, false},
		{"negative", []float64{1, -1}, 0, false},
	}
	for _, c := range cases {
		got, ok := Jain(c.x)
		if ok != c.ok {
			t.Errorf("%s: ok = %v", c.name, ok)
		}
		near(t, c.name, got, c.want, 1e-12)
	}
	j, _ := Jain([]float64{350, 350, 300})
	near(t, "as in the reference", j, 0.9950, 0.00005)
}

func TestJainWeighted(t *testing.T) {
	j, ok := JainWeighted([]float64{30, 20, 10}, []float64{3, 2, 1})
	near(t, "to the weights", j, 1, 1e-12)
	if !ok {
		t.Error("not defined")
	}
	j, _ = JainWeighted([]float64{20, 20, 0}, []float64{1, 1, 0})
	near(t, "quiesced one has nothing", j, 1, 1e-12)
	if _, ok = JainWeighted([]float64{20, 20, 1}, []float64{1, 1, 0}); ok {
		t.Error("answers of a quiesced backend must not be fair")
	}
	if _, ok = JainWeighted([]float64{1}, []float64{1, 1}); ok {
		t.Error("lengths differ")
	}
}

func TestRanks(t *testing.T) {
	got := Ranks([]float64{3, 1, 3, 2, 3})
	for i, want := range []float64{4, 1, 4, 2, 4} {
		near(t, "rank", got[i], want, 0)
	}
}

// The exact null distribution for three treatments is in Friedman's own paper
// (JASA 32, 1937, table V) and in Siegel's table N.
func TestFriedmanExactTables(t *testing.T) {
	rank := func(rows ...[3]float64) [][]float64 {
		var out [][]float64
		for _, r := range rows {
			out = append(out, []float64{r[0], r[1], r[2]})
		}
		return out
	}
	cases := []struct {
		name   string
		blocks [][]float64
		q, p   float64
	}{
		{"n=3, Q=6", rank([3]float64{1, 2, 3}, [3]float64{1, 2, 3}, [3]float64{1, 2, 3}), 6, 0.028},
		{"n=4, Q=8", rank([3]float64{1, 2, 3}, [3]float64{1, 2, 3}, [3]float64{1, 2, 3}, [3]float64{1, 2, 3}), 8, 0.0046},
		{"n=4, Q=6.5", rank([3]float64{1, 2, 3}, [3]float64{1, 2, 3}, [3]float64{1, 2, 3}, [3]float64{1, 3, 2}), 6.5, 0.042},
		{"n=3, Q=2", rank([3]float64{1, 2, 3}, [3]float64{1, 3, 2}, [3]float64{2, 3, 1}), 8.0 / 3, 0.361},
		{"n=3, Q=0", rank([3]float64{1, 2, 3}, [3]float64{2, 3, 1}, [3]float64{3, 1, 2}), 0, 1},
	}
	for _, c := range cases {
		got, err := Friedman(c.blocks, 0, 0)
		if err != nil || !got.Exact {
			t.Fatalf("%s: %+v, %v", c.name, got, err)
		}
		near(t, c.name+" statistic", got.Q, c.q, 1e-9)
		near(t, c.name+" p", got.P, c.p, 0.0006)
	}
}

func TestFriedmanTies(t *testing.T) {
	// Conover's tie-corrected statistic by hand: ranks (1.5 1.5 3), (1 2.5 2.5),
	// sums 2.5 4 5.5; (k−1)·Σ(R−4)²/(Σr²−24) = 2·4.5/3 = 3.
	got, err := Friedman([][]float64{{1, 1, 2}, {1, 2, 2}}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "Q", got.Q, 3, 1e-9)
	same, err := Friedman([][]float64{{1, 1}, {2, 2}}, 0, 0)
	if err != nil || same.P != 1 || same.Q != 0 {
		t.Errorf("all tied: %+v, %v", same, err)
	}
}

func TestFriedmanSampledAgreesWithExact(t *testing.T) {
	blocks := [][]float64{{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 3, 2}}
	exact, err := Friedman(blocks, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ranks := make([][]float64, len(blocks))
	sums := make([]float64, 3)
	for i, b := range blocks {
		ranks[i] = Ranks(b)
		for j, r := range ranks[i] {
			sums[j] += r
		}
	}
	near(t, "sampled p", sampledFriedman(ranks, between(sums, 4), 50000, 7), exact.P, 0.004)
}

func TestFriedmanLarge(t *testing.T) {
	// Ten treatments, five blocks: sampled, reproducible from the seed, and for
	// a perfect order as small as the sample allows.
	var blocks [][]float64
	for range 5 {
		row := make([]float64, 10)
		for j := range row {
			row[j] = float64(j)
		}
		blocks = append(blocks, row)
	}
	a, err := Friedman(blocks, 2000, 2026)
	if err != nil || a.Exact || a.Permutations != 2000 {
		t.Fatalf("%+v, %v", a, err)
	}
	near(t, "Q", a.Q, 45, 1e-9)
	near(t, "P", a.P, 1.0/2001, 1e-12)
	near(t, "χ²₉ tail of 45", a.PChi2, 9.1e-7, 5e-8)
	b, _ := Friedman(blocks, 2000, 2026)
	if a != b {
		t.Error("the same seed gave another result")
	}
	for _, bad := range [][][]float64{nil, {{1, 2}}, {{1}, {2}}, {{1, 2}, {1}}} {
		if _, err := Friedman(bad, 10, 1); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestSignFlip(t *testing.T) {
	cases := []struct {
		name string
		d    []float64
		want float64
	}{
		{"five of one sign", []float64{1, 2, 3, 4, 5}, 0.0625},
		{"six of one sign", []float64{-1, -2, -3, -4, -5, -6}, 0.03125},
		// |sum| of 1+2−3 is 0: every pattern reaches it.
		{"balanced", []float64{1, 2, -3}, 1},
		// Patterns of ±1±2±4 with |sum| ≥ 5: 7, 5 and their negatives of 8.
		{"one against", []float64{-1, 2, 4}, 0.5},
		{"none", nil, 1},
		{"zeros", []float64{0, 0}, 1},
	}
	for _, c := range cases {
		got := SignFlip(c.d, 0, 0)
		near(t, c.name, got.P, c.want, 1e-12)
	}
	big := make([]float64, 30)
	for i := range big {
		big[i] = 1
	}
	got := SignFlip(big, 999, 1)
	if got.Exact || got.P != 1.0/1000 {
		t.Errorf("sampled: %+v", got)
	}
}

func TestWhatBlocksCanShow(t *testing.T) {
	near(t, "n=5", SmallestP(5), 0.0625, 0)
	near(t, "n=0", SmallestP(0), 1, 0)
	near(t, "n=1", SmallestP(1), 1, 0)
	// 45 pairs need 11 blocks, nine against a control 9, a single one 6.
	for m, want := range map[int]int{45: 11, 9: 9, 1: 6, 0: 0} {
		if got := PairsNeeded(m, 0.05); got != want {
			t.Errorf("PairsNeeded(%d) = %d, want %d", m, got, want)
		}
	}
}

func TestHolm(t *testing.T) {
	// Worked by hand: 0.005·4, 0.01·3, 0.03·2, 0.04·1 made monotone.
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, "adjusted", got[i], want, 1e-12)
	}
	near(t, "capped", Holm([]float64{0.6, 0.9})[0], 1, 0)
}

func TestHodgesLehmann(t *testing.T) {
	// Five differences: the widest interval covers 1 − 2/32 = 93.75 %, so 95 %
	// is out of reach and it says so.
	s := HodgesLehmann([]float64{1, 2, 3, 4, 10}, 0.95)
	near(t, "estimate", s.Estimate, 3, 1e-12)
	near(t, "low", s.Low, 1, 0)
	near(t, "high", s.High, 10, 0)
	near(t, "level", s.Level, 0.9375, 1e-12)
	// Ten differences: the critical value of T at 5 % two-sided is 8
	// (Wilcoxon's table): P(T ≤ 8) = 25/1024, so eight averages are cut.
	d := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	s = HodgesLehmann(d, 0.95)
	near(t, "level", s.Level, 1-50.0/1024, 1e-12)
	near(t, "estimate", s.Estimate, 5.5, 1e-12)
	near(t, "symmetric", s.Low+s.High, 11, 1e-12)
	near(t, "low", s.Low, 3, 1e-12) // 9th of 1, 1.5, 2, 2, 2.5, 2.5, 3, 3, 3, 3.5 …
	near(t, "none", HodgesLehmann(nil, 0.95).Estimate, math.NaN(), 0)
}

func TestLogRatios(t *testing.T) {
	got, err := LogRatios([]float64{2, 1}, []float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "ln 2", got[0], math.Ln2, 1e-12)
	for _, bad := range [][2][]float64{{{0}, {1}}, {{1}, {-1}}, {{1}, {1, 2}}, {{math.NaN()}, {1}}} {
		if _, err := LogRatios(bad[0], bad[1]); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Float64Range(-100, 100), 1, 9).Draw(t, "d")
		p := SignFlip(d, 0, 0).P
		if p < SmallestP(len(d))-1e-12 || p > 1 {
			t.Fatalf("p = %v outside [%v, 1]", p, SmallestP(len(d)))
		}
		s := HodgesLehmann(d, 0.9)
		if s.Low > s.Estimate || s.Estimate > s.High {
			t.Fatalf("%+v is not ordered", s)
		}
		x := rapid.SliceOfN(rapid.Float64Range(0.001, 1000), 1, 8).Draw(t, "x")
		if j, ok := Jain(x); !ok || j < 1/float64(len(x))-1e-9 || j > 1+1e-9 {
			t.Fatalf("jain %v of %v", j, x)
		}
		adjusted := Holm([]float64{p, p / 2, 1})
		if adjusted[0] < p || adjusted[2] < 1 {
			t.Fatalf("%v is below what was adjusted", adjusted)
		}
	})
}
