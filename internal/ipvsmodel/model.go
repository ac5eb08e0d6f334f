package ipvsmodel

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Model is IPVS in one network namespace on one CPU. It is not safe for use by
// several goroutines.
type Model struct {
	kernel Kernel
	random *rand.Rand
	sysctl sysctls

	now    int64 // ns
	wake   int64 // nothing is due before
	queues []queue
	table  table

	services []*service // in the order in which they were added
	byAddr   map[uint64]*service
	byMark   map[uint32]*service

	trash   []*dest // newest first
	trashAt int64
	sweepAt int64
	doomed  []int32 // expire once the packet in hand is decided
	hand    flow    // that packet; kept here so that it costs no allocation

	tcpStates [tcpLast]int64
	udp       int64
}

type sysctls struct {
	expireNodest    bool
	expireQuiescent bool
	sloppyTCP       bool
	reuseMode       int
	lblcExpiration  int64
	lblcrExpiration int64
}

// New returns an empty IPVS of a kernel, with the kernel's default timeouts and
// sysctls. seed is of what the kernel draws at random: twos.
func New(k Kernel, seed uint64) *Model {
	m := &Model{
		kernel: k, random: rand.New(rand.NewPCG(seed, 0)), wake: never,
		table: newTable(), byAddr: map[uint64]*service{}, byMark: map[uint32]*service{},
		trashAt: never, sweepAt: never, udp: 300 * second,
		sysctl: sysctls{reuseMode: 1, lblcExpiration: 24 * 3600 * second, lblcrExpiration: 24 * 3600 * second},
	}
	for s, t := range tcpTimeouts {
		m.tcpStates[s] = int64(t)
	}
	return m
}

// Advance lets time pass up to at, counted from the model's start. Time that
// has passed does not come back: an earlier at changes nothing.
func (m *Model) Advance(at time.Duration) {
	if t := int64(at); t > m.now {
		m.advance(t)
	}
}

func (m *Model) wakeBy(t int64) { m.wake = min(m.wake, t) }

// advance runs every timer that ends before t, in order. An entry whose timer
// ends at t itself is still there: the kernel's timers are never early.
func (m *Model) advance(t int64) {
	for t > m.wake {
		due, q := m.next()
		if due >= t {
			m.wake = due
			break
		}
		m.now = max(m.now, due)
		switch {
		case q >= 0:
			m.expire(m.queues[q].head)
		case due == m.trashAt:
			m.emptyTrash()
		case due == m.sweepAt:
			m.sweep()
		default:
			m.collect(due)
		}
	}
	m.now = t
}

// next finds the timer that ends first; q is its queue, -1 for another kind.
func (m *Model) next() (due int64, q int) {
	due, q = min(m.trashAt, m.sweepAt, m.collectAt()), -1
	for i := range m.queues {
		if head := m.queues[i].head; head != 0 {
			if e := m.table.slots[head].expires; e < due {
				due, q = e, i
			}
		}
	}
	return due, q
}

// collectAt is when the next cache of lblc or lblcr is looked through.
func (m *Model) collectAt() int64 {
	at := int64(never)
	for _, s := range m.services {
		if c, ok := s.sched.(collector); ok {
			at = min(at, c.nextCollection())
		}
	}
	return at
}

func (m *Model) collect(due int64) {
	for _, s := range m.services {
		if c, ok := s.sched.(collector); ok && c.nextCollection() == due {
			c.collect(m)
		}
	}
}

// SetTimeouts is ipvsadm --set: entries keep the timer that they have and take
// the new one with their next packet.
func (m *Model) SetTimeouts(t Timeouts) {
	if t.TCP > 0 {
		m.tcpStates[tcpEstablished] = int64(t.TCP)
	}
	if t.TCPFin > 0 {
		m.tcpStates[tcpFinWait] = int64(t.TCPFin)
	}
	if t.UDP > 0 {
		m.udp = int64(t.UDP)
	}
}

// SetSysctl sets one of net.ipv4.vs by its short name; the expirations of lblc
// and lblcr are in seconds, as the file shows them. Those that change nothing
// here are [ErrUnknown].
func (m *Model) SetSysctl(name string, value int) error {
	switch name {
	case "expire_nodest_conn":
		m.sysctl.expireNodest = value != 0
	case "expire_quiescent_template":
		m.sysctl.expireQuiescent = value != 0
	case "sloppy_tcp":
		m.sysctl.sloppyTCP = value != 0
	case "conn_reuse_mode":
		m.sysctl.reuseMode = value
	case "lblc_expiration":
		m.sysctl.lblcExpiration = int64(value) * second
	case "lblcr_expiration":
		m.sysctl.lblcrExpiration = int64(value) * second
	default:
		return fmt.Errorf("sysctl %s %w", name, ErrUnknown)
	}
	return nil
}
