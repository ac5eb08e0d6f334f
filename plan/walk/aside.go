package walk

// putAside finds the steps that may wait for all others: those that the
// options name, without what the others need. A deletion never waits: it may
// make the room that another step waits for.
func (w *walker) putAside() {
	w.aside, w.others = map[step]bool{}, w.graph.Len()
	if w.Aside == nil {
		return
	}
	needed := map[step]bool{}
	for _, n := range w.graph.Nodes() {
		if n.drop || !w.Aside(w.changes[n.addr]) {
			w.need(n, needed)
		}
	}
	for _, n := range w.graph.Nodes() {
		if !needed[n] {
			w.aside[n] = true
			w.others--
		}
	}
}

// need marks a step and all that it waits for.
func (w *walker) need(n step, needed map[step]bool) {
	if needed[n] {
		return
	}
	needed[n] = true
	for _, m := range w.graph.Needs(n) {
		w.need(m, needed)
	}
}

// enqueue makes a step ready that waits for no other one.
func (w *walker) enqueue(n step) {
	if w.aside[n] && w.others > 0 {
		w.held = append(w.held, n)
		return
	}
	w.ready = append(w.ready, n)
}
