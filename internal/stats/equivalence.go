package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// TOSTResult is a paired test of equivalence by two one-sided t tests.
type TOSTResult struct {
	N              int
	Mean, SD       float64 // of the differences
	DF             int     // n − 1
	TLower, TUpper float64 // against −margin and +margin
	PLower, PUpper float64
	// P is the larger of the two: equivalence is shown at level α when P ≤ α.
	P float64
	// Low and High are the interval of level 1 − 2α that lies inside ±margin
	// exactly when P ≤ α (Berger and Hsu, Statistical Science 11, 1996).
	Low, High float64
}

// TOST tests whether paired differences (log ratios) are closer to zero than a
// margin that the user states beforehand: ln 1.05 for "within 5 %". The test
// is Schuirmann's (Journal of Pharmacokinetics and Biopharmaceutics 15, 1987)
// on the differences, so it assumes that they are roughly normal. A
// non-significant difference is no equivalence: this test is what shows one.
func TOST(d []float64, margin, alpha float64) (TOSTResult, error) {
	n := len(d)
	switch {
	case n < 2:
		return TOSTResult{}, errors.New("equivalence: at least two pairs are needed")
	case !(margin > 0) || math.IsInf(margin, 0):
		return TOSTResult{}, fmt.Errorf("equivalence: the margin must be above 0, not %v", margin)
	case !(alpha > 0 && alpha < 0.5):
		return TOSTResult{}, fmt.Errorf("equivalence: alpha must lie between 0 and 0.5, not %v", alpha)
	}
	mean, sd := stat.MeanStdDev(d, nil)
	return tostOf(n, mean, sd, margin, alpha), nil
}

func tostOf(n int, mean, sd, margin, alpha float64) TOSTResult {
	se := sd / math.Sqrt(float64(n))
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
	r := TOSTResult{N: n, Mean: mean, SD: sd, DF: n - 1}
	r.TLower, r.TUpper = quotient(mean+margin, se), quotient(mean-margin, se)
	r.PLower, r.PUpper = t.CDF(-r.TLower), t.CDF(r.TUpper)
	r.P = math.Max(r.PLower, r.PUpper)
	half := -t.Quantile(alpha) * se
	r.Low, r.High = mean-half, mean+half
	return r
}

// quotient is a/b where b may be 0: differences that are all the same are
// infinitely many errors away from the margin.
func quotient(a, b float64) float64 {
	if b == 0 && a == 0 {
		return 0
	}
	return a / b
}
