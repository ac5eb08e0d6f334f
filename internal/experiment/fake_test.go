package experiment

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/load"
	"github.com/lvslab/lvslab/internal/topo"
)

// fakeLab is a lab in memory that behaves as proto says: an IPVS with round
// robin and list heads, backends that count, clients whose captures are real
// pcap files. Faults are switched on by its fields.
type fakeLab struct {
	lost    int           // echoes of a series
	slower  time.Duration // how much every answer takes longer
	unlucky int           // queries under a VIP that get no answer, from the first on
	t       *testing.T
	top     *lang.Topology
	layout  *topo.Layout

	mu       sync.Mutex
	services []proto.IPVSService
	next     map[netip.Addr]int   // rr's pointer of each VIP
	entries  map[flow]int         // index of the destination
	totals   proto.IPVSTotals     // live, never reset
	sysctl   map[string]string    // of the director
	tunnelRx map[addr.Noun]uint64 // packets out of the tunnel
	// fallbackRx are packets on tunl0.
	fallbackRx map[addr.Noun]uint64
	nicRx      map[addr.Noun]uint64 // IP packets into the card
	named      map[addr.Noun]*proto.NamedCounters
	rpDrops    map[addr.Noun]uint64
	captures   map[addr.Noun]map[string]*fakeCapture
	files      map[string][]byte // client and path
	klog       map[addr.Noun][]proto.KernelLine
	kernels    map[addr.Noun]string // what the images are said to have
	image      addr.Noun            // that the director boots, the zero noun for the declared one
	port       uint16
	clock      time.Time
	ops        []string // "node op", in the order in which they began

	// Faults.
	fail      func(node addr.Noun, op string, n int) error // n-th call of that op on that node, from 1
	packet    func(n int) fate                             // what happens to the n-th query of the load, from 0
	vipGone   bool                                         // the director does not hold the VIP
	refuse    addr.Noun                                    // gets ICMP for each query of its own
	via       addr.Noun                                    // a router between the clients and the others
	identify  bool                                         // the load asks for the server's identity
	thief     addr.Noun                                    // holds the VIP on the client's network
	onLoad    func()                                       // called when a load begins
	dropped   uint64                                       // of every capture
	cheat     func(*proto.IPVSStats)                       // changes a settled reading
	readBack  func(n int, st *proto.IPVSFreshState)        // changes what the n-th ipvs.fresh reads back
	broken    map[addr.Noun]string                         // backend → what is wrong with it
	onRenew   func(n int) error                            // called when machines are made anew, n from 1
	renewals  int
	callCount map[string]int
	exit      int                 // of dnsperf
	record    func([]load.Asked)  // changes what the agent's generator writes down
	status    string              // of dnsperf, after its report
	output    func(string) string // changes what dnsperf prints
	// reading changes the k-th reading of a node's counters, k from 1.
	reading    func(n addr.Noun, k int, set *proto.CounterSet)
	cutCapture int    // bytes that a capture lacks at its end
	cutLoad    string // why the agent's generator ended early
	// onLoadSpec is called with what the agent's generator is asked for.
	onLoadSpec func(proto.DNSLoadSpec)

	ahead   map[addr.Noun]time.Duration            // of the guests' clocks before the host's
	late    func(n addr.Noun, k int) time.Duration // how late a client begins its k-th load, from 1
	watches map[addr.Noun]map[string]*fakeWatch    // for first packets

	sightings fakeSightings
}

type flow struct {
	client netip.AddrPort
	vip    netip.Addr
}

// fate is how far a query gets, and how its answer looks.
type fate struct {
	lostEgress  bool // by netem on the client's own card, before the capture
	stranger    bool // the answer comes from a MAC that is not the lab's
	lostBefore  bool // between client and director
	lostTunnel  bool
	lostBackend bool // arrives, but named never sees it
	mute        bool // named counts it and does not answer
	lostReturn  bool
	nameless    bool // the answer does not tell its server's identity
	duplicate   bool
	source      netip.Addr // of the answer, invalid = the VIP
	rcode       int
	late        time.Duration
}

func newFakeLab(t *testing.T, top *lang.Topology) *fakeLab {
	layout, err := topo.Lay(top, "00000000000000000000000000000001")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeLab{
		t: t, top: top, layout: layout, next: map[netip.Addr]int{}, entries: map[flow]int{}, sysctl: map[string]string{},
		tunnelRx: map[addr.Noun]uint64{}, nicRx: map[addr.Noun]uint64{}, fallbackRx: map[addr.Noun]uint64{}, named: map[addr.Noun]*proto.NamedCounters{},
		rpDrops: map[addr.Noun]uint64{}, captures: map[addr.Noun]map[string]*fakeCapture{}, files: map[string][]byte{},
		klog: map[addr.Noun][]proto.KernelLine{}, port: 33000, callCount: map[string]int{}, broken: map[addr.Noun]string{},
		clock: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), totals: proto.IPVSTotals{Conns: 17, InPackets: 400, InBytes: 20000},
	}
	for _, m := range top.Machines {
		f.named[m.Noun] = &proto.NamedCounters{Requests: 5, Responses: 5}
	}
	return f
}

// lab is the fake as the run loop sees it.
func (f *fakeLab) lab() *Lab {
	return &Lab{Topology: f.top, Layout: f.layout, Kernels: f.kernels, Renew: f.renew, Node: func(n addr.Noun) client.Caller {
		if _, ok := f.top.Machine(n); !ok {
			return nil
		}
		return fakeNode{f, n}
	}}
}

type fakeNode struct {
	f *fakeLab
	n addr.Noun
}

// Call carries out a batch and stops at the first error.
func (c fakeNode) Call(ctx context.Context, calls []proto.Envelope) ([]proto.Result, error) {
	var out []proto.Result
	for _, e := range calls {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		v, err := c.f.handle(ctx, c.n, e)
		var inside *proto.Error
		switch {
		case errors.As(err, &inside):
			return append(out, proto.Result{Error: inside}), nil
		case err != nil:
			return out, err
		}
		raw, err := json.Marshal(v)
		if err != nil {
			c.f.t.Errorf("%s %s: %v", c.n, e.Op, err)
		}
		out = append(out, proto.Result{Value: raw})
	}
	return out, nil
}

func args[A any](t *testing.T, e proto.Envelope, _ A) A {
	var a A
	if err := json.Unmarshal(e.Args, &a); err != nil {
		t.Errorf("%s: %v", e.Op, err)
	}
	return a
}

func guestError(code, op, message string) error {
	return &proto.Error{Code: code, Op: op, Message: message}
}

func (f *fakeLab) handle(ctx context.Context, n addr.Noun, e proto.Envelope) (any, error) {
	f.mu.Lock()
	f.ops = append(f.ops, n.String()+" "+e.Op)
	f.callCount[n.String()+e.Op]++
	count := f.callCount[n.String()+e.Op]
	f.mu.Unlock()
	if f.fail != nil {
		if err := f.fail(n, e.Op, count); err != nil {
			return nil, err
		}
	}
	if (e.Op == proto.DNSPerf.Op || e.Op == proto.DNSLoad.Op) && f.onLoad != nil {
		f.onLoad()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e.Op {
	case proto.Ping.Op:
		a := args(f.t, e, proto.PingSpec{})
		return proto.PingResult{Sent: max(1, a.Count), Received: max(0, a.Count-f.lost), RTTUS: 300}, nil
	case proto.NeighRead.Op:
		a := args(f.t, e, proto.NeighRef{})
		return proto.Neigh{Address: a.Address, MAC: f.neighbour(a.Address), State: "reachable"}, nil
	case proto.Query.Op:
		return f.query(n, args(f.t, e, proto.QuerySpec{}))
	case proto.IPVSFresh.Op:
		return f.fresh(args(f.t, e, proto.IPVSFreshSpec{}))
	case proto.IPVSSettled.Op:
		return f.settled(args(f.t, e, proto.IPVSSettleSpec{})), nil
	case proto.Counters.Op:
		return f.counters(n, args(f.t, e, proto.CountersSpec{})), nil
	case proto.SysctlRead.Op:
		return map[string]string{"kernel.osrelease": f.kernel()}, nil
	case proto.KernelLog.Op:
		return f.kernelLog(n, args(f.t, e, proto.KernelLogSpec{}).Since), nil
	case proto.TunnelRead.Op:
		return f.tunnel(n), nil
	case proto.NamedStats.Op:
		return *f.named[n], nil
	case proto.LinkRead.Op:
		return f.link(n, args(f.t, e, proto.LinkRef{}).Name)
	case proto.ARPAsk.Op:
		return f.arp(args(f.t, e, proto.ARPAskSpec{})), nil
	case proto.IPVSRead.Op:
		return cloneServices(f.services), nil
	case proto.IPVSConns.Op:
		return f.rows(), nil
	case proto.NamedRead.Op:
		return proto.NamedState{Running: true, ServerID: n.String(), Listen: f.listens(n)}, nil
	case proto.FileWrite.Op:
		a := args(f.t, e, proto.FileBody{})
		f.files[n.String()+a.Path] = a.Data
		return proto.None{}, nil
	case proto.CaptureStart.Op:
		return proto.None{}, f.captureStart(n, args(f.t, e, proto.CaptureSpec{}))
	case proto.CaptureStop.Op:
		return f.captureStop(n, args(f.t, e, proto.CaptureRef{}))
	case proto.ClockRead.Op:
		return proto.ClockNow{UnixNS: time.Now().Add(f.ahead[n]).UnixNano()}, nil
	case proto.ArrivalsStart.Op:
		return proto.None{}, f.watchStart(n, args(f.t, e, proto.ArrivalsSpec{}))
	case proto.ArrivalsStop.Op:
		return f.watchStop(n, args(f.t, e, proto.ArrivalsRef{}))
	case proto.SightingsStart.Op:
		f.sightingsStart(n)
		return proto.None{}, nil
	case proto.SightingsStop.Op:
		return f.sightingsStop(n)
	case proto.DNSPerf.Op:
		return f.dnsperf(n, args(f.t, e, proto.DNSPerfSpec{}))
	case proto.DNSLoad.Op:
		return f.dnsload(n, args(f.t, e, proto.DNSLoadSpec{}))
	}
	return nil, guestError(proto.CodeUnsupported, e.Op, "the fake has no such call")
}

func (f *fakeLab) mac(n addr.Noun) string { return f.layout.Machines[n].NICs[0].MAC }

// neighbour is whose MAC an address has.
func (f *fakeLab) neighbour(a netip.Addr) string {
	for _, s := range f.top.Services {
		if slices.Contains(s.VIPs, a) {
			if !f.thief.IsZero() {
				return f.mac(f.thief)
			}
			return f.mac(s.Director)
		}
	}
	for _, m := range f.top.Machines {
		if slices.Contains(m.NICs[0].Addresses, a) {
			return f.mac(m.Noun)
		}
	}
	return ""
}

func (f *fakeLab) fresh(spec proto.IPVSFreshSpec) (any, error) {
	state := proto.IPVSFreshState{Sysctl: maps.Clone(spec.Sysctl), RowsFound: len(f.entries), Baseline: f.totals}
	f.entries, f.next, f.services = map[flow]int{}, map[netip.Addr]int{}, nil
	f.sysctl = spec.Sysctl
	for _, s := range spec.Services {
		s.Destinations = slices.Clone(s.Destinations)
		f.services = append(f.services, s)
	}
	state.Services = cloneServices(f.services)
	if f.readBack != nil {
		f.readBack(f.callCount[f.top.Services[0].Director.String()+proto.IPVSFresh.Op], &state)
	}
	return state, nil
}

// cloneServices keeps later packets out of what is handed over.
func cloneServices(list []proto.IPVSService) []proto.IPVSService {
	out := slices.Clone(list)
	for i := range out {
		out[i].Destinations = slices.Clone(out[i].Destinations)
	}
	return out
}

func (f *fakeLab) settled(spec proto.IPVSSettleSpec) proto.IPVSStats {
	st := proto.IPVSStats{Settled: true, WaitedMS: 1200, Services: cloneServices(f.services), Totals: proto.IPVSTotals{
		Conns: f.totals.Conns - spec.Baseline.Conns, InPackets: f.totals.InPackets - spec.Baseline.InPackets, InBytes: f.totals.InBytes - spec.Baseline.InBytes,
	}}
	st.Conns = f.rows()
	if f.cheat != nil {
		f.cheat(&st)
	}
	return st
}

// rows is the connection table.
func (f *fakeLab) rows() []proto.IPVSConn {
	var out []proto.IPVSConn
	for fl, i := range f.entries {
		s := f.serviceAt(fl.vip)
		d := s.Destinations[i]
		out = append(out, proto.IPVSConn{
			Protocol: s.Protocol, Client: fl.client, Virtual: netip.AddrPortFrom(fl.vip, s.Port),
			Dest: netip.AddrPortFrom(d.Address, d.Port), State: "UDP", Expires: 299,
		})
	}
	return out
}

func (f *fakeLab) serviceAt(vip netip.Addr) *proto.IPVSService {
	for i := range f.services {
		if f.services[i].VIP == vip {
			return &f.services[i]
		}
	}
	return nil
}

// schedule does what IPVS does with a packet of a flow: -1 = nobody.
func (f *fakeLab) schedule(fl flow) int {
	s := f.serviceAt(fl.vip)
	if s == nil {
		return -1
	}
	i, known := f.entries[fl]
	if !known || s.OnePacket {
		i = 0
		if s.Scheduler == "rr" || s.Scheduler == "wrr" {
			i = f.next[fl.vip]
			f.next[fl.vip] = (i + 1) % len(s.Destinations)
		}
		i = hashed(s, fl, i)
		if !s.OnePacket {
			f.entries[fl] = i
		}
		s.Destinations[i].Stats.Conns++
		s.Stats.Conns++
		f.totals.Conns++
	}
	s.Destinations[i].Stats.InPackets++
	s.Stats.InPackets++
	s.Destinations[i].Stats.InBytes += 60
	f.totals.InPackets++
	f.totals.InBytes += 60
	return i
}

// hashed is the place that dh and sh choose, i for another scheduler.
func hashed(s *proto.IPVSService, fl flow, i int) int {
	of := map[string]netip.Addr{"dh": fl.vip, "sh": fl.client.Addr()}[s.Scheduler]
	if !of.IsValid() {
		return i
	}
	return int(ipvsmodel.Hash32(binary.BigEndian.Uint32(of.AsSlice()), 8)) % len(s.Destinations)
}

func (f *fakeLab) backendOf(address netip.Addr) addr.Noun {
	for _, m := range f.top.Machines {
		if m.Address() == address {
			return m.Noun
		}
	}
	return addr.Noun{}
}

// count returns how often an op was called on nodes whose name begins so.
func (f *fakeLab) count(node, op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, o := range f.ops {
		if strings.HasPrefix(o, node) && strings.HasSuffix(o, " "+op) {
			n++
		}
	}
	return n
}
