package ipvsmodel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// service is a service with its destinations, head of the kernel's list first.
type service struct {
	key    Key
	spec   Service
	port   uint16
	mask   uint32
	dests  []*dest
	sched  scheduler
	choose func(*flow) *dest // sched.schedule, bound once

	conns, packets uint64
}

func host(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func addrKey(p Protocol, vip uint32, port uint16) uint64 {
	return uint64(vip)<<32 | uint64(port)<<16 | uint64(p)
}

func (k Key) check() error {
	if k.Mark == 0 && !k.VIP.Addr().Is4() {
		return fmt.Errorf("address %v %w: IPv4 only", k.VIP, ErrUnknown)
	}
	if k.Mark == 0 && k.Protocol != TCP && k.Protocol != UDP {
		return fmt.Errorf("protocol %d %w", k.Protocol, ErrUnknown)
	}
	return nil
}

func (m *Model) service(k Key) (*service, error) {
	i := slices.IndexFunc(m.services, func(s *service) bool { return s.key == k })
	if i < 0 {
		return nil, fmt.Errorf("service %v %w", k, ErrMissing)
	}
	return m.services[i], nil
}

// AddService makes a service without destinations.
func (m *Model) AddService(k Key, spec Service) error {
	if err := k.check(); err != nil {
		return err
	}
	if _, err := m.service(k); err == nil {
		return fmt.Errorf("service %v %w", k, ErrExists)
	}
	s := &service{key: k}
	if k.Mark == 0 {
		s.port = k.VIP.Port()
	}
	if err := m.dress(s, spec); err != nil {
		return err
	}
	m.services = append(m.services, s)
	if k.Mark != 0 {
		m.byMark[k.Mark] = s
	} else {
		m.byAddr[addrKey(k.Protocol, host(k.VIP.Addr()), s.port)] = s
	}
	return nil
}

// EditService changes a service. Its scheduler forgets what it knows only if
// it is another one than before (ip_vs_ctl.c, ip_vs_edit_service).
func (m *Model) EditService(k Key, spec Service) error {
	s, err := m.service(k)
	if err != nil {
		return err
	}
	return m.dress(s, spec)
}

func (m *Model) dress(s *service, spec Service) error {
	mask := uint32(0xffffffff)
	if spec.Netmask.IsValid() {
		if !spec.Netmask.Is4() {
			return fmt.Errorf("netmask %v %w: IPv4 only", spec.Netmask, ErrUnknown)
		}
		mask = host(spec.Netmask)
	}
	if s.sched == nil || s.spec.Scheduler != spec.Scheduler {
		build, ok := schedulers[spec.Scheduler]
		if !ok {
			return fmt.Errorf("scheduler %q %w", spec.Scheduler, ErrUnknown)
		}
		s.unbind()
		s.sched = build(m, s)
		s.choose = s.sched.schedule
	}
	s.spec, s.mask = spec, mask
	return nil
}

func (s *service) unbind() {
	if c, ok := s.sched.(collector); ok {
		c.drop()
	}
	s.sched = nil
}

// DeleteService takes a service away. Its destinations go to the trash, the
// entries stay.
func (m *Model) DeleteService(k Key) error {
	s, err := m.service(k)
	if err != nil {
		return err
	}
	m.services = slices.DeleteFunc(m.services, func(o *service) bool { return o == s })
	if k.Mark != 0 {
		delete(m.byMark, k.Mark)
	} else {
		delete(m.byAddr, addrKey(k.Protocol, host(k.VIP.Addr()), s.port))
	}
	s.unbind()
	for _, d := range s.dests {
		m.discard(d)
	}
	s.dests = nil
	return nil
}

// Clear is ipvsadm -C: all services go. Entries stay until they expire.
func (m *Model) Clear() {
	for len(m.services) > 0 {
		_ = m.DeleteService(m.services[0].key) // it is there
	}
}

func checkDestination(d Destination) error {
	switch {
	case !d.Address.Addr().Is4():
		return fmt.Errorf("address %v %w: IPv4 only", d.Address, ErrUnknown)
	case d.Weight < 0:
		return fmt.Errorf("weight %d %w", d.Weight, ErrRange)
	case d.Upper < 0 || d.Lower < 0 || d.Lower > d.Upper:
		return fmt.Errorf("thresholds %d and %d: one %w", d.Upper, d.Lower, ErrRange)
	}
	return nil
}

func (s *service) find(a netip.AddrPort) *dest {
	for _, d := range s.dests {
		if d.spec.Address == a {
			return d
		}
	}
	return nil
}

// AddDestination puts a destination at the head of a service's list. One that
// is still in the trash comes back with its entries.
func (m *Model) AddDestination(k Key, spec Destination) error {
	s, err := m.service(k)
	if err != nil {
		return err
	}
	if err := checkDestination(spec); err != nil {
		return err
	}
	if s.find(spec.Address) != nil {
		return fmt.Errorf("destination %v %w", spec.Address, ErrExists)
	}
	d := m.recycle(k, spec.Address)
	if d == nil {
		d = &dest{key: k, addr: host(spec.Address.Addr())}
	}
	if d.svc != s { // counters belong to one life of a service
		d.conns, d.packets = 0, 0
	}
	d.svc = s
	m.set(d, spec, true)
	s.dests = append([]*dest{d}, s.dests...)
	s.number()
	s.sched.added(d)
	return nil
}

// EditDestination changes a destination; even an edit that changes nothing
// sends wrr back to the head of its list.
func (m *Model) EditDestination(k Key, spec Destination) error {
	s, err := m.service(k)
	if err != nil {
		return err
	}
	if err := checkDestination(spec); err != nil {
		return err
	}
	d := s.find(spec.Address)
	if d == nil {
		return fmt.Errorf("destination %v %w", spec.Address, ErrMissing)
	}
	m.set(d, spec, false)
	s.sched.updated(d)
	return nil
}

// DeleteDestination takes a destination out of its list, into the trash.
func (m *Model) DeleteDestination(k Key, a netip.AddrPort) error {
	s, err := m.service(k)
	if err != nil {
		return err
	}
	d := s.find(a)
	if d == nil {
		return fmt.Errorf("destination %v %w", a, ErrMissing)
	}
	s.dests = slices.Delete(slices.Clone(s.dests), d.pos, d.pos+1)
	at := d.pos
	s.number()
	d.available = false
	s.sched.removed(d, at)
	m.discard(d)
	return nil
}

func (s *service) number() {
	for i, d := range s.dests {
		d.pos = i
	}
}
