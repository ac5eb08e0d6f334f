package conformance

import (
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvs"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// kernel is the running IPVS as a target of scripts. What fails in a method that
// cannot say so is kept in err.
type kernel struct {
	space *space
	raw   *ipvs.Raw
	now   time.Duration         // of the script
	ports map[netip.Addr]uint16 // of the destinations, which differ by address
	err   error
}

var _ ipvsmodel.Target = (*kernel)(nil)

// newKernel puts the calling thread into a namespace of its own; see [newSpace].
func newKernel() (*kernel, error) {
	s, err := newSpace()
	if err != nil {
		return nil, err
	}
	raw, err := ipvs.OpenRaw()
	if err != nil {
		return nil, err
	}
	return &kernel{space: s, raw: raw, ports: map[netip.Addr]uint16{}}, nil
}

func (k *kernel) close() {
	k.raw.Close()
	k.space.close()
}

func (k *kernel) note(err error) { k.err = errors.Join(k.err, err) }

func wireKey(k ipvsmodel.Key) proto.IPVSKey {
	if k.Mark != 0 {
		return proto.IPVSKey{FWMark: k.Mark}
	}
	return proto.IPVSKey{Protocol: k.Protocol.String(), VIP: k.VIP.Addr(), Port: k.VIP.Port()}
}

func wireService(k ipvsmodel.Key, s ipvsmodel.Service) proto.IPVSService {
	out := proto.IPVSService{IPVSKey: wireKey(k), Scheduler: s.Scheduler, OnePacket: s.OnePacket,
		Persistence: int(s.Persistence / time.Second), Netmask: 32}
	if s.Netmask.IsValid() {
		out.Netmask = 0
		for _, b := range s.Netmask.As4() {
			for ; b != 0; b <<= 1 {
				out.Netmask++
			}
		}
	}
	for name, on := range map[string]bool{"sh-port": s.SHPort, "sh-fallback": s.SHFallback, "mh-port": s.MHPort, "mh-fallback": s.MHFallback} {
		if on {
			out.Flags = append(out.Flags, name)
		}
	}
	return out
}

func wireDestination(d ipvsmodel.Destination) proto.IPVSDestination {
	return proto.IPVSDestination{Address: d.Address.Addr(), Port: d.Address.Port(), Weight: d.Weight, Upper: d.Upper, Lower: d.Lower,
		Forward: [...]string{ipvsmodel.Tunnel: "tunnel", ipvsmodel.Direct: "direct", ipvsmodel.Masquerade: "masquerade"}[d.Forward]}
}

func (k *kernel) AddService(key ipvsmodel.Key, s ipvsmodel.Service) error {
	return k.raw.AddService(wireService(key, s))
}

func (k *kernel) EditService(key ipvsmodel.Key, s ipvsmodel.Service) error {
	return k.raw.EditService(wireService(key, s))
}

func (k *kernel) DeleteService(key ipvsmodel.Key) error { return k.raw.DeleteService(wireKey(key)) }

func (k *kernel) Clear() { k.note(k.raw.Flush()) }

func (k *kernel) AddDestination(key ipvsmodel.Key, d ipvsmodel.Destination) error {
	k.ports[d.Address.Addr()] = d.Address.Port()
	if err := k.space.know(d.Address.Addr()); err != nil {
		return err
	}
	return k.raw.AddDestination(wireKey(key), wireDestination(d))
}

func (k *kernel) EditDestination(key ipvsmodel.Key, d ipvsmodel.Destination) error {
	return k.raw.EditDestination(wireKey(key), wireDestination(d))
}

func (k *kernel) DeleteDestination(key ipvsmodel.Key, a netip.AddrPort) error {
	return k.raw.DeleteDestination(wireKey(key), wireDestination(ipvsmodel.Destination{Address: a}))
}

func (k *kernel) SetTimeouts(t ipvsmodel.Timeouts) {
	k.note(k.raw.SetTimeouts(proto.IPVSTimeouts{TCP: int(t.TCP / time.Second), TCPFin: int(t.TCPFin / time.Second), UDP: int(t.UDP / time.Second)}))
}

func (k *kernel) SetSysctl(name string, value int) error {
	return k.raw.SetSysctl(name, strconv.Itoa(value))
}

// slack is for the kernel's work queues, which run some jiffies late.
const slack = 20 * time.Millisecond

// Advance sleeps for as long as the script waits. What the events before took
// does not count: a script's own clock stands still in them.
func (k *kernel) Advance(at time.Duration) {
	turn.Unlock()
	time.Sleep(at - k.now + slack)
	turn.Lock()
	k.now = at
}

// turn is held by the one replay that does something; the others wait until time
// has gone by for them. A packet that leaves does so at once on a machine that has
// nothing else to do, which is how one that does not leave is known ([patience]).
var turn sync.Mutex

// Packet says [ipvsmodel.NoDestination] of every packet that goes to none:
// nothing that leaves tells the reasons apart.
func (k *kernel) Packet(_ time.Duration, p *ipvsmodel.Packet) ipvsmodel.Decision {
	to, left, err := k.space.pass(p)
	k.note(err)
	if !left {
		return ipvsmodel.Decision{Why: ipvsmodel.NoDestination}
	}
	return ipvsmodel.Decision{Backend: netip.AddrPortFrom(to, k.ports[to]), Why: ipvsmodel.ByScheduler}
}

func (k *kernel) Entries() []ipvsmodel.Entry {
	rows, err := k.raw.Conns()
	k.note(err)
	out := make([]ipvsmodel.Entry, 0, len(rows))
	for _, r := range rows {
		if r.Client.Port() == 0 && r.Virtual.Port() == 0xffff {
			// A template that is out of use: the kernel renames it and lets its
			// timer run (ip_vs_conn.c, ip_vs_check_template); the model hides it.
			continue
		}
		e := ipvsmodel.Entry{Client: r.Client, VIP: r.Virtual, Backend: r.Dest, State: r.State, Template: r.Client.Port() == 0,
			Expires: time.Duration(r.Expires) * time.Second}
		switch r.Protocol {
		case "tcp", "TCP":
			e.Protocol = ipvsmodel.TCP
		case "udp", "UDP":
			e.Protocol = ipvsmodel.UDP
		}
		out = append(out, e)
	}
	return out
}

// Counts has no connections and packets: netlink tells those as the estimator
// has last summed them, up to 2 s ago.
func (k *kernel) Counts(key ipvsmodel.Key) ([]ipvsmodel.Count, error) {
	list, err := k.raw.Destinations(wireKey(key))
	var out []ipvsmodel.Count
	for _, d := range list {
		c := ipvsmodel.Count{Active: d.Active, Inactive: d.Inactive, Persistent: d.Persistent}
		c.Address, c.Weight = netip.AddrPortFrom(d.Address, d.Port), d.Weight
		out = append(out, c)
	}
	return out, err
}
