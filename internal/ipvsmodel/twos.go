package ipvsmodel

// twoChoices is twos: of two destinations drawn by weight the less loaded one
// (ip_vs_twos.c).
type twoChoices struct {
	stateless
	*service
	model *Model
}

func (t *twoChoices) schedule(*flow) *dest {
	total := 0
	for _, d := range t.dests {
		if d.usable() {
			total += d.weight
		}
	}
	if total == 0 {
		return nil
	}
	// Both ends of 0 … total are drawn, so the first has a ticket too many.
	a := t.holder(t.model.random.IntN(total + 1))
	b := t.holder(t.model.random.IntN(total + 1))
	return lighter(a, b, t.model.overhead(a), t.model.overhead(b))
}

// holder is whose ticket that is.
func (t *twoChoices) holder(ticket int) *dest {
	for _, d := range t.dests {
		if !d.usable() {
			continue
		}
		if ticket -= d.weight; ticket <= 0 {
			return d
		}
	}
	return nil
}

// lighter is the second choice if it is less loaded for its weight. The
// kernel multiplies 32-bit numbers here.
func lighter(a, b *dest, loadA, loadB int) *dest {
	if int32(b.weight)*int32(loadA) > int32(a.weight)*int32(loadB) {
		return b
	}
	return a
}

// TwosChances returns the exact chance of each destination to be the next
// choice of twos. loads are the overheads, both lists are in list order, and
// a weight of 0 is never chosen.
func TwosChances(weights, loads []int) []float64 {
	total, first := 0, -1
	for i, w := range weights {
		total += w
		if w > 0 && first < 0 {
			first = i
		}
	}
	out := make([]float64, len(weights))
	if first < 0 {
		return out
	}
	ticket := func(i int) float64 {
		t := weights[i]
		if i == first {
			t++
		}
		return float64(t) / float64(total+1)
	}
	for i := range weights {
		for j := range weights {
			if weights[i] == 0 || weights[j] == 0 {
				continue
			}
			won := i
			if int32(weights[j])*int32(loads[i]) > int32(weights[i])*int32(loads[j]) {
				won = j
			}
			out[won] += ticket(i) * ticket(j)
		}
	}
	return out
}
