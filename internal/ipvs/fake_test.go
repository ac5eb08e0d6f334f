package ipvs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// model behaves as the kernel does where it surprises: destinations are added
// at the head, removed ones wait in a trash and come back with counters zeroed
// at the last estimate, counters lag until tick, entries stay when a service goes.
type model struct {
	list   []*modelService
	trash  map[string]*modelDest
	cfg    proto.IPVSTimeouts
	table  []proto.IPVSConn
	live   proto.IPVSTotals
	sys    map[string]string
	lacks  map[string]bool // schedulers
	calls  []string
	closed bool
	// loseWrites makes every destination write report success and do nothing.
	loseWrites bool
	// reverse makes the kernel append instead of adding at the head.
	reverse bool
}

type modelService struct {
	s     proto.IPVSService
	seen  proto.IPVSCounters // by the estimator
	real  proto.IPVSCounters
	dests []*modelDest
}

type modelDest struct {
	d                proto.IPVSDestination
	real, seen, zero proto.IPVSCounters
}

func newModel() *model {
	return &model{trash: map[string]*modelDest{}, cfg: proto.IPVSTimeouts{TCP: 900, TCPFin: 120, UDP: 300},
		sys: map[string]string{nodest: "0", SysctlPrefix + "conntrack": "0", SysctlPrefix + "sync_threshold": "3 50"}, lacks: map[string]bool{}}
}

func (m *model) note(format string, args ...any) {
	m.calls = append(m.calls, fmt.Sprintf(format, args...))
}

func (m *model) get(k proto.IPVSKey) *modelService {
	for _, s := range m.list {
		if s.s.IPVSKey == k {
			return s
		}
	}
	return nil
}

func (m *model) services() ([]proto.IPVSService, error) {
	var out []proto.IPVSService
	for _, s := range m.list {
		c := s.s
		c.Destinations, c.Stats, c.Timeouts = nil, s.seen, proto.IPVSTimeouts{}
		out = append(out, c)
	}
	return out, nil
}

func (m *model) destinations(k proto.IPVSKey) ([]proto.IPVSDestination, error) {
	var out []proto.IPVSDestination
	if s := m.get(k); s != nil {
		for _, d := range s.dests {
			c := d.d
			c.Stats = proto.IPVSCounters{Conns: d.seen.Conns - d.zero.Conns, InPackets: d.seen.InPackets - d.zero.InPackets, InBytes: d.seen.InBytes - d.zero.InBytes}
			out = append(out, c)
		}
	}
	return out, nil
}

func (m *model) newService(s proto.IPVSService) error {
	m.note("new %s %s", Name(s.IPVSKey), s.Scheduler)
	if m.get(s.IPVSKey) != nil {
		return fmt.Errorf("file exists")
	}
	m.list = append(m.list, &modelService{s: s})
	return nil
}

func (m *model) setService(s proto.IPVSService) error {
	m.note("set %s %s", Name(s.IPVSKey), s.Scheduler)
	m.get(s.IPVSKey).s = s
	return nil
}

func (m *model) delService(k proto.IPVSKey) error {
	m.note("del %s", Name(k))
	s := m.get(k)
	for _, d := range s.dests {
		m.bin(k, d)
	}
	m.list = slices.DeleteFunc(m.list, func(o *modelService) bool { return o == s })
	return nil
}

func (m *model) bin(k proto.IPVSKey, d *modelDest) {
	m.trash[Name(k)+destName(d.d)] = d
	if m.sys[nodest] == "1" {
		m.table = slices.DeleteFunc(m.table, func(c proto.IPVSConn) bool { return c.Dest.Addr() == d.d.Address })
	}
}

func (m *model) flush() error {
	m.note("flush")
	for len(m.list) > 0 {
		_ = m.delService(m.list[0].s.IPVSKey)
	}
	return nil
}

func (m *model) newDestination(k proto.IPVSKey, d proto.IPVSDestination) error {
	m.note("add %s w%d", destName(d), d.Weight)
	if m.loseWrites {
		return nil
	}
	s := m.get(k)
	md := &modelDest{}
	if old := m.trash[Name(k)+destName(d)]; old != nil {
		md = old
		md.zero = md.seen // ip_vs_zero_stats takes the estimator's stale sum
		delete(m.trash, Name(k)+destName(d))
	}
	md.d = d
	if m.reverse {
		s.dests = append(s.dests, md)
	} else {
		s.dests = slices.Insert(s.dests, 0, md)
	}
	return nil
}

func (m *model) setDestination(k proto.IPVSKey, d proto.IPVSDestination) error {
	m.note("chg %s w%d", destName(d), d.Weight)
	if m.loseWrites {
		return nil
	}
	for _, o := range m.get(k).dests {
		if sameDest(o.d, d) {
			o.d = d
			return nil
		}
	}
	return fmt.Errorf("no such file or directory")
}

func (m *model) delDestination(k proto.IPVSKey, d proto.IPVSDestination) error {
	m.note("rem %s", destName(d))
	s := m.get(k)
	s.dests = slices.DeleteFunc(s.dests, func(o *modelDest) bool {
		if sameDest(o.d, d) {
			m.bin(k, o)
			return true
		}
		return false
	})
	return nil
}

func (m *model) timeouts() (proto.IPVSTimeouts, error) { return m.cfg, nil }

func (m *model) setTimeouts(t proto.IPVSTimeouts) error {
	m.note("timeouts %v", t)
	m.cfg = t
	return nil
}

func (m *model) conns() ([]proto.IPVSConn, error)    { return slices.Clone(m.table), nil }
func (m *model) totals() (proto.IPVSTotals, error)   { return m.live, nil }
func (m *model) sysctls() (map[string]string, error) { return maps.Clone(m.sys), nil }
func (m *model) close()                              { m.closed = true }
func (m *model) loadScheduler(_ context.Context, name string) error {
	if m.lacks[name] {
		return &MissingModuleError{Modules: []string{schedulerModule(name)}}
	}
	return nil
}

func (m *model) setSysctl(name, value string) error {
	if _, ok := m.sys[name]; !ok {
		return fmt.Errorf("%w: this kernel has no sysctl %s", ErrInvalid, name)
	}
	m.note("sysctl %s=%s", strings.TrimPrefix(name, SysctlPrefix), value)
	m.sys[name] = value
	return nil
}

// packet sends n packets of one flow to the i-th destination.
func (m *model) packet(k proto.IPVSKey, i, n int) {
	s := m.get(k)
	d := s.dests[i]
	for _, c := range []*proto.IPVSCounters{&s.real, &d.real} {
		c.Conns++
		c.InPackets += uint64(n)
		c.InBytes += uint64(60 * n)
	}
	m.live.Conns++
	m.live.InPackets += uint64(n)
	m.live.InBytes += uint64(60 * n)
	m.table = append(m.table, proto.IPVSConn{Protocol: "udp", Client: addrPort("198.18.0.128:40000"), Virtual: addrPort("198.18.0.101:53"), Dest: addrPort(destName(d.d)), State: "UDP", Expires: 299})
}

// tick lets the estimators of services and living destinations catch up.
func (m *model) tick() {
	for _, s := range m.list {
		s.seen = s.real
		for _, d := range s.dests {
			d.seen = d.real
		}
	}
}

// modelHandle returns a handle on a model. Each wait is over at once and lets
// the model's clock go on; the estimators tick every 40 waits of 50 ms.
func modelHandle(t *testing.T) (*Handle, *model) {
	t.Helper()
	m := newModel()
	h := newHandle(m)
	var clock time.Duration
	h.wait = func(ctx context.Context, d time.Duration) error {
		if (clock+d)/(2*time.Second) > clock/(2*time.Second) {
			m.tick()
		}
		clock += d
		return ctx.Err()
	}
	t.Cleanup(h.Close)
	return h, m
}
