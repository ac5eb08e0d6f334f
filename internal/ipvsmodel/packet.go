package ipvsmodel

import "time"

// flow is what schedulers may look at.
type flow struct {
	caddr, vaddr uint32
	cport, vport uint16
	proto        Protocol
	mark         uint32
	flags        Flags
}

// Packet lets a packet arrive at a time and says what becomes of it
// (ip_vs_core.c, ip_vs_in_hook). Packets come in the order of their times;
// both addresses are IPv4, anything else panics.
func (m *Model) Packet(at time.Duration, p *Packet) Decision {
	if t := int64(at); t > m.now {
		if t > m.wake {
			m.advance(t)
		}
		m.now = t
	}
	if len(m.services) == 0 {
		// Without any service the kernel takes its hooks away (ip_vs_ctl.c,
		// ip_vs_unregister_hooks): not even an entry is looked for.
		return Decision{Why: NoService}
	}
	f := &m.hand
	*f = flow{
		caddr: host(p.Client.Addr()), vaddr: host(p.VIP.Addr()), cport: p.Client.Port(), vport: p.VIP.Port(),
		proto: p.Protocol, mark: p.Mark, flags: p.Flags,
	}
	addrs, ports := flowKey(f.caddr, f.vaddr, f.cport, f.vport, uint32(f.proto))
	i := m.table.find(addrs, ports)
	if p.Reply {
		return m.reply(i, f)
	}
	if i != 0 && f.proto == TCP && f.flags&SYN != 0 && m.startsAnew(i) {
		m.expireNow(i)
		i = 0
	}
	if i != 0 {
		d := m.table.slots[i].dest
		if d.available {
			d.packets++
			d.svc.packets++
			m.transit(i, f, false)
			return Decision{d.spec.Address, ByEntry}
		}
		if !m.sysctl.expireNodest {
			return Decision{Why: Gone}
		}
		m.expireNow(i)
	}
	out := m.start(f, addrs, ports)
	m.bury()
	return out
}

// start asks for a destination for a flow that has no entry.
func (m *Model) start(f *flow, addrs, ports uint64) Decision {
	if f.proto == TCP && (f.flags&RST != 0 || f.flags&SYN == 0 && !m.sysctl.sloppyTCP) {
		return Decision{Why: NotAStart}
	}
	s := m.lookup(f)
	if s == nil {
		return Decision{Why: NoService}
	}
	var d *dest
	why, control := ByScheduler, int32(0)
	switch {
	case s.spec.Persistence > 0:
		d, control, why = m.persist(s, f)
	case s.key.Mark != 0 || s.port == f.vport: // all ports need persistence
		d = s.choose(f)
	}
	if d == nil {
		return Decision{Why: NoDestination}
	}
	m.bind(d, false)
	d.conns++
	s.conns++
	if d.available {
		d.packets++
		d.svc.packets++
	}
	if s.spec.OnePacket && f.proto == UDP {
		// No row, and it ends with the packet: the next one finds no trace.
		m.unbind(d, false, false)
		return Decision{d.spec.Address, why}
	}
	i := m.table.add(addrs, ports)
	e := &m.table.slots[i]
	e.dest, e.dport, e.noOutput = d, s.portAt(d, f.vport), d.spec.Forward != Masquerade
	if e.control = control; control != 0 {
		m.table.slots[control].controls++
	}
	m.transit(i, f, false)
	return Decision{d.spec.Address, why}
}

// portAt is the port that a flow to vport has at its destination. One without a
// port takes every packet at the port that it was sent to; and so does each of a
// persistent service of all ports or of a mark, whatever port it has itself
// (ip_vs_core.c, ip_vs_schedule and ip_vs_sched_persist).
func (s *service) portAt(d *dest, vport uint16) uint16 {
	own := d.spec.Address.Port()
	if own == 0 || s.spec.Persistence > 0 && vport != s.port {
		return vport
	}
	return own
}

// lookup finds the service of a packet: by its mark first.
func (m *Model) lookup(f *flow) *service {
	if f.mark != 0 {
		if s := m.byMark[f.mark]; s != nil {
			return s
		}
	}
	if s := m.byAddr[addrKey(f.proto, f.vaddr, f.vport)]; s != nil {
		return s
	}
	return m.byAddr[addrKey(f.proto, f.vaddr, 0)] // of all ports
}

// transit moves an entry's state by a packet and restarts its timer.
func (m *Model) transit(i int32, f *flow, reply bool) {
	e := &m.table.slots[i]
	if f.proto == TCP {
		m.tcpTransit(e, f.flags, reply)
	} else {
		e.timeout = m.udp
		if reply {
			m.assure(e)
		}
	}
	m.arm(i)
}

// assure marks the template of an entry as one that has carried something.
func (m *Model) assure(e *entry) {
	if e.control != 0 {
		m.table.slots[e.control].assured = true
	}
}

// reply is the other half of a masqueraded flow.
func (m *Model) reply(i int32, f *flow) Decision {
	if i == 0 || m.table.slots[i].dest.spec.Forward != Masquerade {
		return Decision{Why: NoService}
	}
	m.transit(i, f, true)
	return Decision{m.table.slots[i].dest.spec.Address, ByEntry}
}

// startsAnew says whether a SYN may not use the entry of its port.
func (m *Model) startsAnew(i int32) bool {
	e := &m.table.slots[i]
	if m.sysctl.expireNodest && e.dest.weight == 0 {
		return true
	}
	if m.sysctl.reuseMode == 0 || e.control != 0 {
		return false
	}
	return e.state == tcpTimeWait || e.state == tcpClose ||
		m.sysctl.reuseMode&2 != 0 && e.state == tcpFinWait && e.noOutput
}

// expireNow ends an entry's timer. The kernel runs it after the packet in
// hand, so the scheduler still counts the entry.
func (m *Model) expireNow(i int32) {
	m.table.hide(i)
	m.doomed = append(m.doomed, i)
}

func (m *Model) bury() {
	for _, i := range m.doomed {
		m.expire(i)
	}
	m.doomed = m.doomed[:0]
}

// persist finds the client's template or makes one (ip_vs_core.c,
// ip_vs_sched_persist).
func (m *Model) persist(s *service, f *flow) (*dest, int32, Why) {
	proto, vaddr, vport := uint32(f.proto), f.vaddr, uint16(0)
	if f.vport == s.port {
		vport = f.vport
	} else if s.key.Mark != 0 {
		proto, vaddr = 0, s.key.Mark
	}
	addrs, ports := flowKey(f.caddr&s.mask, vaddr, 0, vport, proto|templateKind)
	i, why := m.table.find(addrs, ports), ByTemplate
	if i != 0 {
		d := m.table.slots[i].dest
		if !d.available || m.sysctl.expireQuiescent && d.weight == 0 {
			m.table.hide(i) // the kernel renames it and lets its timer run
			i = 0
		}
	}
	if i == 0 {
		d := s.choose(f)
		if d == nil {
			return nil, 0, NoDestination
		}
		i, why = m.table.add(addrs, ports), ByScheduler
		e := &m.table.slots[i]
		e.dest, e.template, e.timeout = d, true, int64(s.spec.Persistence)
		if f.vport == s.port {
			e.dport = d.spec.Address.Port()
		}
		m.bind(d, true)
	}
	m.arm(i)
	return m.table.slots[i].dest, i, why
}
