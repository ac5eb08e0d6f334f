package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Power is the probability that a two-sided paired t test at level alpha finds
// a true mean difference of effect standard deviations of the differences in n
// pairs. The sign-flip test has nearly the same power where n allows it to
// reach alpha at all (Lehmann and Romano, Testing Statistical Hypotheses,
// 15.2); where it does not, Power is 0.
func Power(n int, effect, alpha float64) float64 {
	if n < 2 || !(alpha > 0) || SmallestP(n) > alpha {
		return 0
	}
	return tPower(effect*math.Sqrt(float64(n)), float64(n-1), criticalT(float64(n-1), alpha/2))
}

// criticalT is what a t variable exceeds with probability tail.
func criticalT(df, tail float64) float64 {
	return -distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(tail)
}

// tPower is the power of a two-sided t test with noncentrality ncp.
func tPower(ncp, df, critical float64) float64 {
	far := distuv.NoncentralT{Nu: df, Mu: ncp}
	return 1 - far.CDF(critical) + far.CDF(-critical)
}

// DetectableEffect is the smallest true difference, in standard deviations of
// the paired differences, that n pairs find with the given power when the
// smallest of m comparisons is held to Holm's first step alpha/m. +Inf when so
// few pairs cannot find any: see [PairsNeeded].
func DetectableEffect(n, m int, alpha, power float64) float64 {
	level := alpha / float64(max(1, m))
	if n < 2 || SmallestP(n) > level || !(power > 0 && power < 1) {
		return math.Inf(1)
	}
	df, root := float64(n-1), math.Sqrt(float64(n))
	critical := criticalT(df, level/2)
	return smallest(func(effect float64) bool { return tPower(effect*root, df, critical) >= power })
}

// smallest is the smallest positive number that suffices, where every larger one
// does, too; +Inf when none up to a million does.
func smallest(suffices func(float64) bool) float64 {
	low, high := 0.0, 1.0
	for !suffices(high) {
		if high *= 2; high > 1e6 {
			return math.Inf(1)
		}
	}
	for range 50 {
		if mid := (low + high) / 2; suffices(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// DetectableRatio is [DetectableEffect] as a ratio of times, for differences
// that are log ratios with standard deviation sd: 1.25 says that a treatment
// that takes 25 % longer is found. Before a study sd is an assumption, after it
// the observed one.
func DetectableRatio(n, m int, sd, alpha, power float64) float64 {
	return math.Exp(DetectableEffect(n, m, alpha, power) * sd)
}

// EquivalenceRatio is the smallest margin, as a ratio, within which n pairs
// show two equal treatments to be equal with the given power, for log ratios
// with standard deviation sd. +Inf below two pairs. It solves the power of
// [TOST] at a true difference of 0 by the usual approximation with one
// noncentral t, 2·P(T > t) − 1 (Julious, Statistics in Medicine 23, 2004).
func EquivalenceRatio(n int, sd, alpha, power float64) float64 {
	if n < 2 || !(power > 0 && power < 1) || !(alpha > 0) {
		return math.Inf(1)
	}
	df := float64(n - 1)
	critical := criticalT(df, alpha)
	ncp := smallest(func(ncp float64) bool { return 1-2*distuv.NoncentralT{Nu: df, Mu: ncp}.CDF(critical) >= power })
	return math.Exp(ncp * sd / math.Sqrt(float64(n)))
}
