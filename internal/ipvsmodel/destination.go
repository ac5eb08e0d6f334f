package ipvsmodel

import (
	"math"
	"net/netip"
)

// dest is a destination with its counters.
type dest struct {
	spec Destination
	addr uint32
	key  Key      // of the service that it was made for
	svc  *service // the one that it is bound to, perhaps deleted

	weight     int
	lastWeight int // the latest that was not 0; mh places by it
	upper      int
	lower      int // as given
	lowerVal   int // in force
	overload   bool
	available  bool // in a service's list, not in the trash
	pos        int  // place in that list

	active, total, persistent int
	refs                      int   // entries, templates and caches that point here
	idle                      int64 // when the trash first saw it unused, 0 = not yet

	conns, packets uint64
}

// overhead is what the least-connection schedulers compare
// (include/net/ip_vs.h, ip_vs_dest_conn_overhead).
func (m *Model) overhead(d *dest) int {
	if m.kernel.Before2026 {
		return d.active<<8 + d.total - d.active
	}
	return d.active<<8 + d.total
}

// usable: weighted and not overloaded, what most schedulers ask for.
func (d *dest) usable() bool { return d.weight > 0 && !d.overload }

// set takes over what an add or an edit says.
func (m *Model) set(d *dest, s Destination, add bool) {
	if add || s.Weight != 0 {
		d.lastWeight = s.Weight
	}
	d.weight, d.available = s.Weight, true
	d.spec = s
	if m.kernel.Before2026 {
		if s.Upper == 0 || s.Upper > d.upper {
			d.overload = false
		}
		d.upper, d.lower, d.lowerVal = s.Upper, s.Lower, s.Lower
		return
	}
	if d.upper == s.Upper && d.lower == s.Lower {
		return
	}
	d.upper, d.lower, d.lowerVal = s.Upper, s.Lower, s.Lower
	if s.Lower == 0 {
		d.lowerVal = s.Upper - s.Upper>>2
	}
	d.judge(0)
}

// judge sets or clears the overload flag: after an entry more (1), one less
// (-1) or a change of the thresholds (0). ip_vs_ctl.c, since 2026.
func (d *dest) judge(change int) {
	set, keep := d.upper, d.lowerVal
	if change > 0 {
		set = d.lowerVal
	}
	if change < 0 {
		keep = d.upper
	}
	switch {
	case d.upper == 0:
		d.overload = false
	case d.total >= set:
		d.overload = true
	case d.total < keep:
		d.overload = false
	}
}

// bind counts a new entry. Every one begins as inactive, whatever its protocol
// (ip_vs_ctl.c, __ip_vs_update_dest); only TCP's states make one active.
func (m *Model) bind(d *dest, template bool) {
	d.refs++
	switch {
	case template:
		d.persistent++
	default:
		d.total++
	}
	if m.kernel.Before2026 {
		if d.upper != 0 && d.total >= d.upper {
			d.overload = true
		}
	} else if !template && d.total == d.upper {
		d.judge(1)
	}
}

// unbind takes an entry out of the counts.
func (m *Model) unbind(d *dest, template, active bool) {
	d.refs--
	before := d.total
	switch {
	case template:
		d.persistent--
	default:
		d.total--
		if active {
			d.active--
		}
	}
	if !m.kernel.Before2026 {
		if !template && before == d.lowerVal {
			d.judge(-1)
		}
		return
	}
	switch {
	case d.lower != 0:
		d.overload = d.overload && d.total >= d.lower
	case d.upper != 0:
		d.overload = d.overload && d.total*4 >= d.upper*3
	default:
		d.overload = false
	}
}

// The trash is looked through each minute; what is unused for two is freed
// (include/net/ip_vs.h, IP_VS_DEST_TRASH_PERIOD).
const (
	trashPeriod = 120 * second
	trashLook   = 60 * second
)

// discard moves a destination that left its list into the trash, where it
// lives as long as something points to it. Added again, it comes back with
// its counters and its entries.
func (m *Model) discard(d *dest) {
	if len(m.trash) == 0 {
		m.trashAt = m.now + trashLook
		m.wakeBy(m.trashAt)
	}
	d.available, d.idle = false, 0
	m.trash = append([]*dest{d}, m.trash...)
	if m.sysctl.expireNodest {
		// The kernel's worker runs a jiffy later: 4 ms at Debian's HZ=250.
		m.sweepAt = m.now + 4*millisecond
		m.wakeBy(m.sweepAt)
	}
}

// recycle takes a destination of the same service and address out of the trash.
func (m *Model) recycle(k Key, a netip.AddrPort) *dest {
	for i, d := range m.trash {
		if d.key == k && d.spec.Address == a {
			m.trash = append(m.trash[:i:i], m.trash[i+1:]...)
			return d
		}
	}
	return nil
}

// emptyTrash is the trash's timer.
func (m *Model) emptyTrash() {
	kept := m.trash[:0]
	for _, d := range m.trash {
		switch {
		case d.refs > 0:
		case d.idle == 0:
			d.idle = max(1, m.now)
		case m.now >= d.idle+trashPeriod:
			continue
		}
		kept = append(kept, d)
	}
	m.trash = kept
	m.trashAt = never
	if len(kept) > 0 {
		m.trashAt = m.now + trashLook
	}
}

// never is a time that does not come.
const never = math.MaxInt64
