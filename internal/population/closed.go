package population

import "math"

// The closed forms take each flow for a Poisson process. Its entry is made by a
// query that finds none, and ends when no query has come for the timeout, so at
// any time later than that it is there unless the last timeout was silent.

// entries are the expected rows of the table, seconds after an empty one.
func entries(flows []alike, timeout, after float64) float64 {
	n := 0.0
	for _, f := range flows {
		n += f.count * -math.Expm1(-f.rate*min(timeout, after))
	}
	return n
}

// decisions are the expected choices of the scheduler from an empty table on.
func decisions(flows []alike, timeout, duration float64) float64 {
	n := 0.0
	for _, f := range flows {
		n += f.count * (-math.Expm1(-f.rate*min(timeout, duration)) + f.rate*max(0, duration-timeout)*math.Exp(-f.rate*timeout))
	}
	return n
}

// weight is what one choice moves: the queries that follow it, as the one that
// carries an average query sees them. The queries of an entry are geometric.
func weight(flows []alike, timeout, duration float64) float64 {
	sum, all := 0.0, 0.0
	for _, f := range flows {
		stays := -math.Expm1(-f.rate * timeout) // chance that a query meets the entry of the one before
		queries := f.rate * duration
		sum += f.count * queries * min((1+stays)*math.Exp(f.rate*timeout), queries+1)
		all += f.count * queries
	}
	if all == 0 {
		return 0
	}
	return sum / all
}

// concentration is the part of the most unequal division: 1 when one group asks
// all, 1/n when n ask alike.
func concentration(groups []alike) float64 {
	square, all := 0.0, 0.0
	for _, g := range groups {
		square += g.count * g.rate * g.rate
		all += g.count * g.rate
	}
	return square / (all * all)
}

// dropped are the expected queries of a flow that its entry leads nowhere after
// its backend was removed. The entry ends a timeout after the last query before
// the removal, of which age seconds can have passed; window is how long the
// backend stays away.
func dropped(rate, timeout, age, window float64) float64 {
	age, window = min(age, timeout), min(window, timeout)
	long := min(age, timeout-window) // entries younger than that outlive the window
	n := rate * window * -math.Expm1(-rate*long)
	if age > long {
		n += tail(rate, timeout, long, age)
	}
	return n
}

// tail is the integral of rate·exp(-rate·x)·rate·(timeout-x) from a to b.
func tail(rate, timeout, a, b float64) float64 {
	f := func(x float64) float64 { return math.Exp(-rate*x) * (1 - rate*(timeout-x)) }
	return f(b) - f(a)
}

// Steps of a timeout and timeouts that are looked ahead.
const (
	steps   = 50
	horizon = 100
)

// held is the part of a flow's queries that an entry from before time 0 still
// decides, by steps of the timeout. It falls as entries end: at t those whose
// last query was at t minus the timeout, with silence since.
func held(rate, timeout float64) []float64 {
	out := make([]float64, steps*horizon+1)
	ends := rate * math.Exp(-rate*timeout) * timeout / steps
	out[0] = -math.Expm1(-rate * timeout)
	for i := 1; i < len(out); i++ {
		alive := 1.0 // before time 0 every query made or kept an entry
		if i > steps {
			alive = (out[i-steps] + out[i-steps-1]) / 2
		}
		out[i] = max(0, out[i-1]-ends*alive)
	}
	return out
}

// obeyed are the seconds until so large a part of the queries follows weights
// that were changed when the table was long full; nil when it takes more than
// 100 timeouts.
func obeyed(flows []alike, timeout float64, parts ...float64) []*float64 {
	mass := map[int]float64{} // by rate, 10 classes for each factor of e
	all := 0.0
	for _, f := range flows {
		// Above 20 queries a timeout no entry ends, below one in 100 hardly any has two.
		mass[int(math.Round(10*math.Log(min(20, max(0.01, f.rate*timeout)))))] += f.rate * f.count
		all += f.rate * f.count
	}
	still := make([]float64, steps*horizon+1)
	for class := minKey(mass); class <= maxKey(mass); class++ {
		if mass[class] == 0 {
			continue
		}
		for i, h := range held(math.Exp(float64(class)/10)/timeout, timeout) {
			still[i] += mass[class] / all * h
		}
	}
	out := make([]*float64, len(parts))
	for k, part := range parts {
		for i, h := range still {
			if 1-h >= part {
				t := float64(i) * timeout / steps
				out[k] = &t
				break
			}
		}
	}
	return out
}

func minKey(m map[int]float64) int {
	out := math.MaxInt
	for k := range m {
		out = min(out, k)
	}
	return out
}

func maxKey(m map[int]float64) int {
	out := math.MinInt
	for k := range m {
		out = max(out, k)
	}
	return out
}
