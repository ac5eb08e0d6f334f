package ipvsmodel

// Of lblc and lblcr (ip_vs_lblc.c, ip_vs_lblcr.c): the size of the cache, how
// often it is looked through, and what is stale when it is too full.
const (
	placeBits     = 10
	placesAtMost  = 16 << placeBits
	placeInterval = 60 * second
	placeStale    = 6 * 60 * second
	placesFull    = 30 // each so many looks, all that is unused too long goes
)

// place is what the cache knows of one destination address.
type place struct {
	addr    uint32
	set     []*dest // newest first; lblc has one
	lastUse int64
	lastMod int64
}

// places is the cache of both schedulers.
type places struct {
	buckets [1 << placeBits][]*place
	entries int
	rover   int
	looks   int
	next    int64
	expiry  *int64
}

func newPlaces(m *Model, expiry *int64) *places {
	p := &places{looks: 1, next: m.now + placeInterval, expiry: expiry}
	m.wakeBy(p.next)
	return p
}

func (p *places) get(addr uint32) *place {
	for _, e := range p.buckets[Hash32(addr, placeBits)] {
		if e.addr == addr {
			return e
		}
	}
	return nil
}

func (p *places) put(addr uint32, d *dest, now int64) {
	if p.entries >= placesAtMost*3/2 {
		return
	}
	d.refs++
	b := &p.buckets[Hash32(addr, placeBits)]
	*b = append([]*place{{addr: addr, set: []*dest{d}, lastUse: now, lastMod: now}}, *b...)
	p.entries++
}

func (e *place) release() {
	for _, d := range e.set {
		d.refs--
	}
}

// prune takes what is unused since before out of a bucket, and says how many.
func (p *places) prune(i int, before int64) int {
	kept := p.buckets[i][:0]
	gone := 0
	for _, e := range p.buckets[i] {
		if e.lastUse > before {
			kept = append(kept, e)
			continue
		}
		e.release()
		gone++
	}
	p.buckets[i] = kept
	p.entries -= gone
	return gone
}

func (p *places) remove(addr uint32) {
	i := Hash32(addr, placeBits)
	for k, e := range p.buckets[i] {
		if e.addr == addr {
			e.release()
			p.buckets[i] = append(p.buckets[i][:k:k], p.buckets[i][k+1:]...)
			p.entries--
			return
		}
	}
}

func (p *places) nextCollection() int64 { return p.next }

// collect is the timer of the cache.
func (p *places) collect(m *Model) {
	p.next = m.now + placeInterval
	switch {
	case p.looks%placesFull == 0:
		for range p.buckets {
			p.rover = (p.rover + 1) % len(p.buckets)
			p.prune(p.rover, m.now-*p.expiry)
		}
		p.looks = 1
	case p.entries <= placesAtMost:
		p.looks++
	default:
		goal := min((p.entries-placesAtMost)*4/3, placesAtMost/2)
		for range p.buckets {
			p.rover = (p.rover + 1) % len(p.buckets)
			if goal -= p.prune(p.rover, m.now-placeStale); goal <= 0 {
				break
			}
		}
	}
}

func (p *places) drop() {
	for i := range p.buckets {
		p.prune(i, never)
	}
}

// strained: a destination has more active connections than weight while
// another has less than half of its own. Never so with UDP.
func (s *service) strained(d *dest) bool {
	if d.active <= d.weight {
		return false
	}
	for _, o := range s.dests {
		if o.active*2 < o.weight {
			return true
		}
	}
	return false
}

// locality is lblc: a destination address keeps the backend that wlc gave it.
type locality struct {
	stateless
	*service
	*places
	model *Model
}

func newLocality(m *Model, s *service) scheduler {
	return &locality{service: s, model: m, places: newPlaces(m, &m.sysctl.lblcExpiration)}
}

func (l *locality) schedule(f *flow) *dest {
	e := l.get(f.vaddr)
	if e != nil {
		e.lastUse = l.model.now
		if d := e.set[0]; d.available && d.weight > 0 && !l.strained(d) {
			return d
		}
	}
	d := leastOf(l.dests, l.model.overhead)
	if d == nil || e != nil && e.set[0] == d {
		return d
	}
	if e != nil {
		l.remove(f.vaddr)
	}
	l.put(f.vaddr, d, l.model.now)
	return d
}

// replication is lblcr: a destination address keeps a set of backends, which
// grows while they are strained and loses the busiest one in time.
type replication struct {
	stateless
	*service
	*places
	model *Model
}

func newReplication(m *Model, s *service) scheduler {
	return &replication{service: s, model: m, places: newPlaces(m, &m.sysctl.lblcrExpiration)}
}

func (r *replication) schedule(f *flow) *dest {
	e := r.get(f.vaddr)
	if e == nil {
		d := leastOf(r.dests, r.model.overhead)
		if d != nil {
			r.put(f.vaddr, d, r.model.now)
		}
		return d
	}
	e.lastUse = r.model.now
	d := r.least(e)
	if len(e.set) > 1 && r.model.now > e.lastMod+*r.expiry {
		r.trim(e)
	}
	if d != nil && !r.strained(d) {
		return d
	}
	if d = leastOf(r.dests, r.model.overhead); d != nil {
		r.grow(e, d)
	}
	return d
}

// least is the least loaded of the set that is still in the list.
func (r *replication) least(e *place) *dest {
	var least *dest
	best := 0
	for _, d := range e.set {
		if !d.available || !d.usable() {
			continue
		}
		if c := r.model.overhead(d); least == nil || best*d.weight > c*least.weight {
			least, best = d, c
		}
	}
	return least
}

// trim takes the most loaded one out of the set.
func (r *replication) trim(e *place) {
	var most *dest
	at, worst := 0, 0
	for i, d := range e.set {
		if d.weight == 0 {
			continue
		}
		if c := r.model.overhead(d); most == nil || worst*d.weight < c*most.weight {
			most, worst, at = d, c, i
		}
	}
	if most == nil {
		return
	}
	most.refs--
	e.set = append(e.set[:at:at], e.set[at+1:]...)
	e.lastMod = r.model.now
}

func (r *replication) grow(e *place, d *dest) {
	for _, o := range e.set {
		if o == d {
			return
		}
	}
	d.refs++
	e.set = append([]*dest{d}, e.set...)
	e.lastMod = r.model.now
}
