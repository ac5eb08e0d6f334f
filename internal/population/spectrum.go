package population

import "math"

// alike are flows that ask equally often. A flow is what has one entry: a
// client's address and port with a VIP.
type alike struct {
	rate  float64 // queries a second of each
	count float64
}

// whole is how many ranks have a bin of their own; those after share bins whose
// last is 2 % further down than their first.
const whole = 1000

// bins calls f with ranges of ranks below n and the rank that stands for each.
func bins(n, edge int, f func(first, count int, middle float64)) {
	for at := 0; at < n; {
		next := at + 1
		if at >= whole {
			next = max(next, at+at/50)
		}
		if next = min(next, n); at < edge && next > edge {
			next = edge
		}
		f(at, next-at, math.Sqrt(float64(at+1)*float64(next))-1)
		at = next
	}
}

// binned are all flows of the crowd.
func (c crowd) binned() []alike {
	if c.sockets > 0 {
		s := float64(c.sockets)
		return c.level(c.clients, s, c.clients, func(_ int, middle float64) float64 { return c.activity(middle) / s })
	}
	each := float64(c.ports * c.vips)
	return c.level(c.addresses, each, c.edge(), func(first int, middle float64) float64 { return c.group(first, middle) / each })
}

// groups are the addresses, each taken for one flow.
func (c crowd) groups() []alike { return c.level(c.addresses, 1, c.edge(), c.group) }

// edge is the first address that has a client less than the ones before.
func (c crowd) edge() int {
	if e := c.clients % c.addresses; e > 0 {
		return e
	}
	return c.addresses
}

// group is the activity behind an address of a bin.
func (c crowd) group(first int, middle float64) float64 {
	return c.sum(int(middle+0.5), c.addresses, c.behind(first))
}

// level bins n ranks with so many flows each, and gives them the crowd's rate.
func (c crowd) level(n int, each float64, edge int, activity func(first int, middle float64) float64) []alike {
	var out []alike
	total := 0.0
	add := func(first, count int, middle float64) {
		a := alike{activity(first, middle), float64(count) * each}
		total += a.rate * a.count
		out = append(out, a)
	}
	if c.skew == 0 { // all alike, but for the edge
		if edge > 0 {
			add(0, edge, 0)
		}
		if edge < n {
			add(edge, n-edge, float64(edge))
		}
	} else {
		bins(n, edge, add)
	}
	for i := range out {
		out[i].rate *= c.rate / total
	}
	return out
}
