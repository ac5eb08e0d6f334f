package ipvsmodel

// weightedRoundRobin is wrr: it walks the list with a falling bar, and whoever
// weighs as much as the bar is chosen (ip_vs_wrr.c).
type weightedRoundRobin struct {
	*service
	at   int // place of the latest choice, -1 = before the head
	bar  int
	top  int // the highest bar
	step int // by which the bar falls, the weights' greatest common divisor
}

func newWeightedRoundRobin(_ *Model, s *service) scheduler {
	w := &weightedRoundRobin{service: s}
	w.measure()
	w.bar = w.top
	return w
}

func (w *weightedRoundRobin) measure() {
	w.at, w.step = -1, max(1, gcdOf(w.dests, (*dest).currentWeight))
	heaviest := 0
	for _, d := range w.dests {
		heaviest = max(heaviest, d.weight)
	}
	w.top = heaviest - (w.step - 1)
}

func (w *weightedRoundRobin) changed() {
	w.measure()
	if w.bar > w.top || w.bar == 0 {
		w.bar = w.top
	} else if w.step > 1 {
		w.bar = w.bar/w.step*w.step + 1
	}
}

func (w *weightedRoundRobin) added(*dest)        { w.changed() }
func (w *weightedRoundRobin) removed(*dest, int) { w.changed() }
func (w *weightedRoundRobin) updated(*dest)      { w.changed() }

func (w *weightedRoundRobin) schedule(*flow) *dest {
	if w.top == 0 {
		return nil
	}
	begun, i, stop := w.at, w.at, -1
	lowest, again := false, false
	for {
		for i++; i < len(w.dests); i++ {
			d := w.dests[i]
			if !d.overload && d.weight >= w.bar {
				w.at = i
				return d
			}
			if i == stop {
				w.at = i
				return nil
			}
		}
		i = -1
		if w.bar -= w.step; w.bar <= 0 {
			w.bar = w.top
			// Everybody has been asked under the lowest bar.
			if lowest || begun < 0 {
				w.at = -1
				return nil
			}
			again = true
		}
		lowest = w.bar <= w.step
		if lowest && again {
			stop = begun
		}
	}
}

func (d *dest) currentWeight() int { return d.weight }
func (d *dest) placedWeight() int  { return d.lastWeight }

// gcdOf is the greatest common divisor of the weights above 0, 0 without any.
func gcdOf(list []*dest, weight func(*dest) int) int {
	g := 0
	for _, d := range list {
		for a, b := weight(d), g; a > 0; {
			a, b = b%a, a
			g = b
		}
	}
	return g
}
