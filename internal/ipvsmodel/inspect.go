package ipvsmodel

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Entry is a row of the connection table, as /proc/net/ip_vs_conn has it.
type Entry struct {
	Protocol    Protocol // 0 for the template of a service with a mark
	Client, VIP netip.AddrPort
	Backend     netip.AddrPort
	State       string        // UDP, NONE or ASSURED for a template, else the state of TCP
	Expires     time.Duration // from now
	Template    bool
}

// Entries returns the table, in no order of meaning. One-packet entries are
// never in it.
func (m *Model) Entries() []Entry {
	var out []Entry
	for i := range m.table.slots {
		e := &m.table.slots[i]
		if e.dest == nil || e.hidden {
			continue
		}
		row := Entry{
			Protocol: Protocol(e.ports), Template: e.template,
			Client:  netip.AddrPortFrom(address(uint32(e.addrs>>32)), uint16(e.ports>>48)),
			VIP:     netip.AddrPortFrom(address(uint32(e.addrs)), uint16(e.ports>>32)),
			Backend: netip.AddrPortFrom(e.dest.spec.Address.Addr(), e.dport), Expires: time.Duration(e.expires - m.now), State: "UDP",
		}
		switch {
		case e.template:
			row.State = "NONE"
			if e.assured {
				row.State = "ASSURED"
			}
		case row.Protocol == TCP:
			row.State = tcpNames[e.state]
		}
		out = append(out, row)
	}
	return out
}

func address(x uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], x)
	return netip.AddrFrom4(b)
}

// Live is the number of entries, those that nobody can find any more included.
func (m *Model) Live() int { return m.table.count }

// Count is what the kernel counts of a destination.
type Count struct {
	Destination
	// Active, Inactive and Persistent are entries.
	Active, Inactive, Persistent int
	Overloaded                   bool
	// Connections and Packets count since the destination is in this service.
	Connections, Packets uint64
}

// Counts returns the destinations of a service, head of the list first.
func (m *Model) Counts(k Key) ([]Count, error) {
	s, err := m.service(k)
	if err != nil {
		return nil, err
	}
	var out []Count
	for _, d := range s.dests {
		out = append(out, Count{
			Destination: d.spec, Active: d.active, Inactive: max(0, d.total-d.active), Persistent: d.persistent,
			Overloaded: d.overload, Connections: d.conns, Packets: d.packets,
		})
	}
	return out, nil
}
