package ipvs

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	cf "github.com/cloudflare/ipvs"
	"github.com/cloudflare/ipvs/netmask"
	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/guesttest"
)

func TestAccInGuest(t *testing.T) { guesttest.Run(t, "^TestGuest") }

var all13 = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"}

// The first test of the guest: ip_vs is not loaded yet. (Asking for its netlink
// family makes the kernel load it by itself.)
func TestGuestPreflight(t *testing.T) {
	guesttest.Inside(t)
	ctx := context.Background()
	var missing *MissingModuleError
	if _, err := Preflight(ctx, nil, proto.IPVSNeeds{Schedulers: []string{"rr", "twos", "nonsense"}}); !errors.As(err, &missing) ||
		!slices.Equal(missing.Modules, []string{"ip_vs_twos", "ip_vs_nonsense"}) {
		t.Errorf("missing schedulers: %v", err)
	}
	began := time.Now()
	info, err := Preflight(ctx, nil, proto.IPVSNeeds{Schedulers: all13, Tunnels: []string{"gue", "gre"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("13 schedulers loaded in %v", time.Since(began))
	if info.Version != "1.2.1" || info.ConnTabSize != 4096 || !slices.Equal(info.Schedulers, all13) {
		t.Errorf("%+v", info)
	}
}

// open returns a handle in the guest's own namespace with no service in it.
func open(t *testing.T) *Handle {
	t.Helper()
	ctx := context.Background()
	if _, err := Preflight(ctx, nil, proto.IPVSNeeds{Schedulers: []string{"rr"}}); err != nil {
		t.Fatal(err)
	}
	h, err := Open(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.k.flush()
		h.Close()
	})
	return h
}

// Everything that can be asked for comes back as asked, and a second apply
// finds nothing to do.
func TestGuestEverySettingIsReadBack(t *testing.T) {
	guesttest.Inside(t)
	h := open(t)
	ctx := context.Background()
	v6 := netip.MustParseAddr("fd00::101")
	for name, s := range map[string]proto.IPVSService{
		"rr":          service("rr", "30", "31", "32"),
		"one packet":  {IPVSKey: key, Scheduler: "wrr", OnePacket: true, Destinations: service("", "31:3", "30:2").Destinations},
		"mh flags":    {IPVSKey: key, Scheduler: "mh", Flags: []string{"mh-port", "mh-fallback"}, Destinations: service("", "30").Destinations},
		"sh flag":     {IPVSKey: key, Scheduler: "sh", Flags: []string{"sh-port"}, Destinations: service("", "30").Destinations},
		"persistence": {IPVSKey: key, Scheduler: "rr", Persistence: 60, Netmask: 24, Destinations: service("", "30").Destinations},
		"persistent":  {IPVSKey: key, Scheduler: "rr", Persistence: 360, Destinations: service("", "30").Destinations},
		"big weight": {IPVSKey: key, Scheduler: "wlc", Destinations: []proto.IPVSDestination{
			{Address: guesttest.Backend(0), Port: 53, Forward: "direct", Weight: 70000, Upper: 1000, Lower: 10}}},
		"tunnels": {IPVSKey: key, Scheduler: "wlc", Destinations: []proto.IPVSDestination{
			{Address: guesttest.Backend(0), Port: 53, Forward: "tunnel", Weight: 1, TunnelType: "gue", TunnelPort: 6080},
			{Address: guesttest.Backend(1), Port: 53, Forward: "tunnel", Weight: 0, TunnelType: "gre"},
			{Address: guesttest.Backend(2), Port: 53, Forward: "tunnel", Weight: 1, TunnelType: "ipip"}}},
		"masquerade": {IPVSKey: proto.IPVSKey{Protocol: "tcp", VIP: key.VIP, Port: 80}, Scheduler: "rr", Destinations: []proto.IPVSDestination{
			{Address: guesttest.Backend(0), Port: 8080, Forward: "masquerade", Weight: 1}}},
		"IPv6 over IPv4": {IPVSKey: proto.IPVSKey{Protocol: "udp", VIP: v6, Port: 53}, Scheduler: "rr", Persistence: 60, Destinations: []proto.IPVSDestination{
			{Address: guesttest.Backend(0), Port: 53, Forward: "tunnel", Weight: 1},
			{Address: netip.MustParseAddr("fd00::30"), Port: 53, Forward: "tunnel", Weight: 1}}},
		"fwmark":      {IPVSKey: proto.IPVSKey{FWMark: 7}, Scheduler: "dh", Destinations: service("", "30", "31").Destinations},
		"fwmark IPv6": {IPVSKey: proto.IPVSKey{FWMark: 7, IPv6: true}, Scheduler: "rr", Destinations: []proto.IPVSDestination{{Address: netip.MustParseAddr("fd00::30"), Port: 53, Forward: "direct", Weight: 1}}},
		"timeouts":    {IPVSKey: key, Scheduler: "rr", Timeouts: proto.IPVSTimeouts{TCP: 901, TCPFin: 121, UDP: 301}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := h.Apply(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			again, err := h.Apply(ctx, s)
			if diff := cmp.Diff(got, again, byValue); err != nil || diff != "" {
				t.Errorf("second apply: %v %s", err, diff)
			}
			if err := h.Delete(ctx, s.IPVSKey); err != nil {
				t.Fatal(err)
			}
			if list, err := h.Services(ctx); err != nil || len(list) != 0 {
				t.Errorf("after delete: %v, %v", list, err)
			}
			if ds, err := h.k.destinations(normalise(s).IPVSKey); err != nil || len(ds) != 0 {
				t.Errorf("destinations of a service that is gone: %v, %v", ds, err)
			}
		})
	}
}

// A service is changed in place from anything to anything.
func TestGuestChangesInPlace(t *testing.T) {
	guesttest.Inside(t)
	h := open(t)
	with := func(s proto.IPVSService, f func(*proto.IPVSService)) proto.IPVSService { f(&s); return s }
	for i, s := range []proto.IPVSService{
		service("rr", "30", "31", "32"),
		service("sed", "30", "31:3", "32"),
		with(service("mh", "32", "31", "30"), func(s *proto.IPVSService) { s.Flags = []string{"mh-port"} }),
		with(service("rr", "32", "31"), func(s *proto.IPVSService) { s.OnePacket = true; s.Persistence = 60; s.Netmask = 20 }),
		with(service("rr", "30", "32", "31"), func(s *proto.IPVSService) {
			s.Destinations[2].TunnelType = "gre"
			s.Destinations[1].Forward = "direct"
		}),
		service("rr", "30", "32", "31"),
		service("rr"),
	} {
		if _, err := h.Apply(context.Background(), s); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
}

// What we wrote is what an independent client of the kernel reads.
func TestGuestAnotherClientAgrees(t *testing.T) {
	guesttest.Inside(t)
	h := open(t)
	s := service("mh", "32:3", "30:1", "31:2")
	s.OnePacket, s.Flags, s.Persistence, s.Netmask = true, []string{"mh-port"}, 60, 24
	s.Destinations[1].TunnelType, s.Destinations[1].TunnelPort = "gue", 6080
	if _, err := h.Apply(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	other, err := cf.New()
	if err != nil {
		t.Fatal(err)
	}
	list, err := other.Services()
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	g := list[0].Service
	if g.Address != key.VIP || g.Port != 53 || g.Protocol != cf.UDP || g.Scheduler != "mh" || g.Timeout != 60 ||
		g.Netmask != netmask.MaskFrom4([4]byte{255, 255, 255, 0}) ||
		g.Flags&(cf.ServicePersistent|cf.ServiceOnePacket|cf.ServiceSchedulerOpt2|cf.ServiceSchedulerOpt1) != cf.ServicePersistent|cf.ServiceOnePacket|cf.ServiceSchedulerOpt2 {
		t.Errorf("%+v", g)
	}
	dests, err := other.Destinations(g)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range dests {
		w := s.Destinations[i]
		if d.Address != w.Address || int(d.Weight) != w.Weight || d.FwdMethod != cf.Tunnel || (w.TunnelType == "gue") != (d.TunnelType == cf.GUE) || d.TunnelPort != w.TunnelPort {
			t.Errorf("destination %d: %+v, want %+v", i, d.Destination, w)
		}
	}
}

// director opens a handle inside the lab's director and closes it at the end.
// All its calls must run in that namespace: procfs and sysctls are per thread.
func director(t *testing.T, lab *guesttest.Lab, f func(*Handle)) {
	t.Helper()
	lab.In("director", func() {
		if _, err := Preflight(context.Background(), nil, proto.IPVSNeeds{Schedulers: all13}); err != nil {
			t.Error(err)
			return
		}
		h, err := Open(context.Background(), nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer h.Close()
		f(h)
	})
}

// ask sends one packet from each of several ports and returns how many were
// answered by each backend. Backends answer with their number.
func ask(t *testing.T, lab *guesttest.Lab, ports, packets int) map[byte]int {
	t.Helper()
	answers := map[byte]int{}
	lab.In("client", func() {
		for range ports {
			c, err := net.Dial("udp", netip.AddrPortFrom(guesttest.VIP, 53).String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close() // at the end: no port comes twice
			for range packets {
				var b [16]byte
				_, _ = c.Write(b[:])
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				if n, err := c.Read(b[:]); err == nil && n == 1 {
					answers[b[0]]++
				}
			}
		}
	})
	return answers
}

// serve answers every packet to the VIP on a backend with its number.
func serve(t *testing.T, lab *guesttest.Lab, backends int) {
	t.Helper()
	for i := range backends {
		lab.In("ns"+string(rune('0'+i)), func() {
			pc, err := net.ListenPacket("udp", netip.AddrPortFrom(guesttest.VIP, 53).String())
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { pc.Close() })
			go func() {
				buf := make([]byte, 2048)
				for {
					_, from, err := pc.ReadFrom(buf)
					if err != nil {
						return
					}
					_, _ = pc.WriteTo([]byte{byte(i)}, from)
				}
			}()
		})
	}
}

func TestGuestFreshAndSettled(t *testing.T) {
	guesttest.Inside(t)
	lab := guesttest.NewLab(t, 3)
	serve(t, lab, 3)
	ctx := context.Background()
	director(t, lab, func(h *Handle) {
		spec := proto.IPVSFreshSpec{Services: []proto.IPVSService{service("rr", "30", "31", "32")}, EmptyWithinMS: 2000,
			Sysctl: map[string]string{SysctlPrefix + "conn_reuse_mode": "1", SysctlPrefix + "run_estimation": "1", SysctlPrefix + "sync_threshold": "3 50"}}
		spec.Services[0].Timeouts = proto.IPVSTimeouts{UDP: 300}
		if _, err := h.Fresh(ctx, spec); err != nil {
			t.Error(err)
			return
		}
		ask(t, lab, 6, 1) // the first exchange also resolves neighbours
		for round, c := range []struct {
			scheduler      string
			ports, packets int
			want           map[byte]int
		}{
			{"rr", 60, 1, map[byte]int{0: 20, 1: 20, 2: 20}},
			{"sed", 30, 1, map[byte]int{0: 30}},
			{"nq", 30, 1, map[byte]int{0: 30}},
			{"rr", 1, 100, map[byte]int{0: 100}},
			{"dh", 30, 1, map[byte]int{2: 30}},
		} {
			// The round before was not awaited: its packets must not leak into this one.
			spec.Services[0].Scheduler = c.scheduler
			began := time.Now()
			fresh, err := h.Fresh(ctx, spec)
			if err != nil {
				t.Errorf("round %d: %v", round, err)
				return
			}
			took := time.Since(began)
			got := ask(t, lab, c.ports, c.packets)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: answers %v, want %v", c.scheduler, got, c.want)
			}
			t.Logf("%s: fresh took %v (table empty after %d ms, %d rows before)", c.scheduler, took.Round(time.Millisecond), fresh.WaitedMS, fresh.RowsFound)
			if round%2 == 1 {
				continue // unsettled on purpose
			}
			st, err := h.Settled(ctx, proto.IPVSSettleSpec{Baseline: fresh.Baseline, WithinMS: 5000})
			if err != nil || !st.Settled {
				t.Errorf("%s: not settled, %v: %+v", c.scheduler, err, st)
				return
			}
			n := uint64(c.ports * c.packets)
			if st.Totals.InPackets != n || st.Totals.Conns != uint64(c.ports) || st.Services[0].Stats.InPackets != n || len(st.Conns) != c.ports {
				t.Errorf("%s: totals %+v, service %+v, %d rows", c.scheduler, st.Totals, st.Services[0].Stats, len(st.Conns))
			}
			for i, d := range st.Services[0].Destinations {
				if d.Stats.InPackets != uint64(c.want[byte(i)]) {
					t.Errorf("%s: destination %d saw %d packets, want %d", c.scheduler, i, d.Stats.InPackets, c.want[byte(i)])
				}
			}
			t.Logf("%s: settled after %d ms", c.scheduler, st.WaitedMS)
		}
	})
}

// Without expire_nodest_conn the entries of a deleted service pin its ports
// again; Fresh must not depend on the setting that the treatment uses.
func TestGuestFreshFlushesAnyTable(t *testing.T) {
	guesttest.Inside(t)
	lab := guesttest.NewLab(t, 2)
	serve(t, lab, 2)
	director(t, lab, func(h *Handle) {
		ctx := context.Background()
		spec := proto.IPVSFreshSpec{Services: []proto.IPVSService{service("rr", "30", "31")}, Sysctl: map[string]string{nodest: "0"}}
		if _, err := h.Fresh(ctx, spec); err != nil {
			t.Error(err)
			return
		}
		ask(t, lab, 500, 1)
		began := time.Now()
		st, err := h.Fresh(ctx, spec)
		if err != nil {
			t.Error(err)
			return
		}
		if st.RowsFound != 500 || st.Sysctl[nodest] != "0" {
			t.Errorf("%d rows found, expire_nodest_conn %s", st.RowsFound, st.Sysctl[nodest])
		}
		t.Logf("500 rows gone after %d ms, all in %v", st.WaitedMS, time.Since(began))
		// Persistence leaves templates, which must go too.
		spec.Services[0].Persistence = 60
		if _, err := h.Fresh(ctx, spec); err != nil {
			t.Error(err)
			return
		}
		ask(t, lab, 4, 1)
		conns, err := h.Conns(ctx)
		if err != nil || len(conns) != 5 {
			t.Errorf("with a template: %v, %v", conns, err)
		}
		spec.Services[0].Persistence = 0
		if st, err := h.Fresh(ctx, spec); err != nil || st.RowsFound != 5 {
			t.Errorf("templates: %d rows found, %v", st.RowsFound, err)
		}
	})
}

// The reason for Fresh's wait: a destination that is deleted before the
// estimator saw its packets brings them into its next life.
func TestGuestTrashCarriesCounters(t *testing.T) {
	guesttest.Inside(t)
	lab := guesttest.NewLab(t, 1)
	serve(t, lab, 1)
	director(t, lab, func(h *Handle) {
		ctx := context.Background()
		spec := proto.IPVSFreshSpec{Services: []proto.IPVSService{service("rr", "30")}}
		fresh, err := h.Fresh(ctx, spec)
		if err != nil {
			t.Error(err)
			return
		}
		ask(t, lab, 1, 20)
		if _, err := h.Settled(ctx, proto.IPVSSettleSpec{Baseline: fresh.Baseline}); err != nil {
			t.Error(err)
			return
		}
		ask(t, lab, 1, 5) // right after a tick: the next one is 2 s away
		if err := h.k.flush(); err != nil {
			t.Error(err)
			return
		}
		if err := h.create(ctx, spec.Services, proto.IPVSTimeouts{}); err != nil {
			t.Error(err)
			return
		}
		time.Sleep(2500 * time.Millisecond)
		list, err := h.Services(ctx)
		if err != nil || list[0].Destinations[0].Stats.InPackets != 5 || list[0].Stats.InPackets != 0 {
			t.Errorf("the kernel has changed: %v, service %+v, destination %+v", err, list[0].Stats, list[0].Destinations[0].Stats)
		}
	})
}
