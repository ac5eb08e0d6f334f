package ipvsmodel

import "math/bits"

const (
	millisecond = int64(1e6)
	second      = int64(1e9)
)

// entry is a row of the connection table. Entries live in one slice and point
// to each other by index, so that a million of them are one allocation.
type entry struct {
	addrs   uint64 // client's address, then the VIP's
	ports   uint64 // client's port, the VIP's port, kind
	dest    *dest
	expires int64
	timeout int64

	chain      int32 // next in the bucket
	prev, next int32 // neighbours in the queue
	queue      int32
	control    int32 // its template, 0 = none
	controls   int32 // entries that it is the template of

	dport    uint16 // of the backend: where a packet of the flow goes to
	state    uint8
	active   bool
	noOutput bool // the director sees the client's half only
	template bool
	assured  bool
	hidden   bool // not to be found any more
}

// kind is what makes a template's key differ from an entry's.
const templateKind = 1 << 8

func flowKey(caddr, vaddr uint32, cport, vport uint16, kind uint32) (addrs, ports uint64) {
	return uint64(caddr)<<32 | uint64(vaddr), uint64(cport)<<48 | uint64(vport)<<32 | uint64(kind)
}

// table is the hash table of entries. Index 0 is nobody.
type table struct {
	slots   []entry
	free    []int32
	buckets []int32
	count   int // hashed and hidden ones
}

func newTable() table { return table{slots: make([]entry, 1), buckets: make([]int32, 64)} }

func (t *table) bucket(addrs, ports uint64) *int32 {
	hi, lo := bits.Mul64(addrs^0x9e3779b97f4a7c15, ports^0xd6e8feb86659fd93)
	return &t.buckets[(hi^lo)&uint64(len(t.buckets)-1)]
}

// find returns the index of the entry with that key, 0 without one.
func (t *table) find(addrs, ports uint64) int32 {
	for i := *t.bucket(addrs, ports); i != 0; i = t.slots[i].chain {
		if e := &t.slots[i]; e.addrs == addrs && e.ports == ports {
			return i
		}
	}
	return 0
}

// add makes an entry of that key. Growth doubles, so it costs nothing per packet.
func (t *table) add(addrs, ports uint64) int32 {
	if t.count >= len(t.buckets) {
		t.grow()
	}
	var i int32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.slots = append(t.slots, entry{})
		i = int32(len(t.slots) - 1)
	}
	b := t.bucket(addrs, ports)
	t.slots[i] = entry{addrs: addrs, ports: ports, chain: *b, queue: -1}
	*b = i
	t.count++
	return i
}

func (t *table) grow() {
	t.buckets = make([]int32, 2*len(t.buckets))
	for i := 1; i < len(t.slots); i++ {
		if e := &t.slots[i]; e.dest != nil && !e.hidden {
			b := t.bucket(e.addrs, e.ports)
			e.chain, *b = *b, int32(i)
		}
	}
}

// hide takes an entry out of the hash: it still counts, but nobody finds it.
func (t *table) hide(i int32) {
	e := &t.slots[i]
	if e.hidden {
		return
	}
	for p := t.bucket(e.addrs, e.ports); *p != 0; p = &t.slots[*p].chain {
		if *p == i {
			*p = e.chain
			break
		}
	}
	e.hidden = true
}

// remove gives the slot of a hidden entry back.
func (t *table) remove(i int32) {
	t.slots[i] = entry{}
	t.free = append(t.free, i)
	t.count--
}

// queue holds the entries that have one timeout, the next to expire first.
// Time does not run backwards, so whoever is armed last expires last: a list
// is always in order, and arming is moving to its end. There are as many
// queues as timeouts, about ten; a wheel could not be cheaper and is not exact.
type queue struct {
	timeout    int64
	head, tail int32
}

// arm restarts the timer of an entry.
func (m *Model) arm(i int32) {
	e := &m.table.slots[i]
	e.expires = m.now + e.timeout
	q := e.queue
	if q < 0 || m.queues[q].timeout != e.timeout {
		m.disarm(i)
		q = m.queueOf(e.timeout)
	} else if m.queues[q].tail == i {
		return
	} else {
		m.disarm(i)
	}
	l := &m.queues[q]
	e.queue, e.prev, e.next = q, l.tail, 0
	if l.tail != 0 {
		m.table.slots[l.tail].next = i
	} else {
		l.head = i
	}
	l.tail = i
	m.wakeBy(e.expires)
}

func (m *Model) disarm(i int32) {
	e := &m.table.slots[i]
	if e.queue < 0 {
		return
	}
	l := &m.queues[e.queue]
	if e.prev != 0 {
		m.table.slots[e.prev].next = e.next
	} else {
		l.head = e.next
	}
	if e.next != 0 {
		m.table.slots[e.next].prev = e.prev
	} else {
		l.tail = e.prev
	}
	e.queue = -1
}

func (m *Model) queueOf(timeout int64) int32 {
	free := int32(-1)
	for i := range m.queues {
		if m.queues[i].timeout == timeout {
			return int32(i)
		}
		if m.queues[i].head == 0 {
			free = int32(i)
		}
	}
	if free >= 0 { // of a timeout that nobody has any more
		m.queues[free].timeout = timeout
		return free
	}
	m.queues = append(m.queues, queue{timeout: timeout})
	return int32(len(m.queues) - 1)
}

// templateLater is how long a template that still has entries is put off when
// its timer ends, again and again (ip_vs_conn.c, ip_vs_conn_expire).
const templateLater = 60 * second

// expire is the end of an entry's timer.
func (m *Model) expire(i int32) {
	e := &m.table.slots[i]
	if e.controls > 0 {
		e.timeout = templateLater
		m.arm(i)
		return
	}
	m.disarm(i)
	m.table.hide(i)
	control, chained := e.control, e.timeout == 0
	m.unbind(e.dest, e.template, e.active)
	m.table.remove(i)
	if control == 0 {
		return
	}
	t := &m.table.slots[control]
	t.controls--
	// A timeout of 0 says that the whole chain is to go.
	if chained && t.controls == 0 && !t.assured {
		m.expire(control)
	}
}

// sweep is the worker that drops the entries of removed destinations while
// expire_nodest_conn is set (ip_vs_conn.c, ip_vs_expire_nodest_conn_flush).
func (m *Model) sweep() {
	m.sweepAt = never
	for i := int32(1); int(i) < len(m.table.slots); i++ {
		e := &m.table.slots[i]
		if e.dest == nil || e.dest.available || e.controls > 0 {
			continue
		}
		control := e.control
		if control != 0 {
			e.timeout = 0
		}
		m.expire(i)
		if control != 0 && m.table.slots[control].dest != nil && m.table.slots[control].controls == 0 {
			m.expire(control)
		}
	}
}
