package replay

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

const (
	// reading is how long after the last packet the table may have been read.
	reading = 20 * time.Second
	// shown is the grain of the timers that the kernel shows, whole seconds, and
	// what a tick and the two clocks add.
	shown = time.Second + 250*time.Millisecond
)

// rowKey is what a row is found by.
type rowKey struct {
	protocol    string
	client, vip netip.AddrPort
}

// MarkTemplate says whether a row is a template of persistence of a service by
// mark: its address is the mark, and it has no ports (ip_vs_core.c,
// ip_vs_sched_persist).
func MarkTemplate(c proto.IPVSConn, mark uint32) bool {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], mark)
	return mark != 0 && c.Client.Port() == 0 && c.Virtual == netip.AddrPortFrom(netip.AddrFrom4(b), 0)
}

// rows compares the table of connections with the model's: every row's client,
// VIP, backend and state, and its timer against those of the client's others. One
// moment of reading must explain all timers of one client. A row may be missing that can have ended
// since the last packet. What /proc/net/ip_vs_conn does not show, the flags of
// an entry, is not compared.
func (t *track) rows() {
	have := map[rowKey]proto.IPVSConn{}
	for _, c := range t.in.Conns {
		have[rowKey{c.Protocol, c.Client, c.Virtual}] = c
	}
	compared, differ := 0, 0
	wrong := func(format string, args ...any) {
		if differ++; differ == 1 {
			t.rowText = "in the table of connections " + fmt.Sprintf(format, args...)
		}
	}
	clocks := t.clocks()
	for _, e := range t.model.Entries() {
		k := rowKey{e.Protocol.String(), e.Client, e.VIP}
		c, ok := have[k]
		delete(have, k)
		switch {
		case !ok && e.Expires < reading:
			continue // it has ended since
		case !ok:
			wrong("the row of %s to %s is missing, by the model %s has it", e.Client, e.VIP, t.name(e.Backend.Addr()))
		case c.Dest != e.Backend:
			wrong("%s to %s is at %s, by the model at %s", e.Client, e.VIP, t.name(c.Dest.Addr()), t.name(e.Backend.Addr()))
		case c.State != e.State:
			wrong("%s to %s is in state %s, by the model %s", e.Client, e.VIP, c.State, e.State)
		case !e.Template && !clocks(k).fits(e.Expires-time.Duration(c.Expires)*time.Second):
			wrong("%s to %s has %d s left, by the model %.1f s when the last packet came, which no moment explains together with the other rows",
				e.Client, e.VIP, c.Expires, e.Expires.Seconds())
		}
		compared++
	}
	for _, c := range t.in.Conns { // in the kernel's order
		k := rowKey{c.Protocol, c.Client, c.Virtual}
		if _, left := have[k]; !left {
			continue
		}
		if t.expired && time.Duration(c.Expires)*time.Second < ipvsmodel.Late(t.longest()) {
			continue // the model ends entries on time, the kernel up to a slot late
		}
		compared++
		wrong("the row of %s to %s at %s is none of the model's", c.Client, c.Virtual, t.name(c.Dest.Addr()))
	}
	t.out.Rows, t.out.RowsDiffer = &compared, &differ
}

// clocks returns the span of the client that a row belongs to: clients have clocks
// of their own, each of which must explain its rows.
func (t *track) clocks() func(rowKey) *span {
	var all span
	if t.in.Clients < 2 {
		return func(rowKey) *span { return &all }
	}
	spans, owners := map[netip.Addr]*span{}, map[rowKey]netip.Addr{}
	for i := range t.in.Packets {
		p := &t.in.Packets[i]
		owner := p.Client.Addr()
		if p.Own.IsValid() {
			owner = p.Own
		}
		owners[rowKey{p.Protocol, p.Client, p.VIP}] = owner
	}
	return func(k rowKey) *span {
		owner := owners[k]
		if spans[owner] == nil {
			spans[owner] = &span{}
		}
		return spans[owner]
	}
}

// longest is the longest timeout that an entry may have.
func (t *track) longest() time.Duration {
	s := t.in.Before[0].Timeouts
	return seconds(max(s.TCP, s.TCPFin, s.UDP))
}

// span holds the times between the last packet and the reading that rows tell.
type span struct {
	begun    bool
	low, top time.Duration
}

// fits adds a row's; false when it cannot be of the same moment as the others.
func (s *span) fits(d time.Duration) bool {
	if d < -shown || d > reading {
		return false
	}
	low, top := d, d
	if s.begun {
		low, top = min(s.low, d), max(s.top, d)
	}
	if top-low > shown {
		return false
	}
	s.begun, s.low, s.top = true, low, top
	return true
}
