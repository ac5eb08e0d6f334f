package ipvs

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func freshSpec(services ...proto.IPVSService) proto.IPVSFreshSpec {
	return proto.IPVSFreshSpec{Services: services, Sysctl: map[string]string{SysctlPrefix + "conntrack": "0", SysctlPrefix + "sync_threshold": "3\t50"}, EmptyWithinMS: 1000}
}

func TestFreshFollowsTheContract(t *testing.T) {
	h, m := modelHandle(t)
	mustApply(t, h, service("rr", "30", "31", "32"))
	m.packet(key, 0, 5)
	m.tick()
	m.calls = nil
	st, err := h.Fresh(context.Background(), freshSpec(service("sed", "31", "32", "30")))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"sysctl expire_nodest_conn=1", "flush", "del udp 198.18.0.101:53",
		"sysctl conntrack=0", "sysctl expire_nodest_conn=0", "sysctl sync_threshold=3 50",
		"new udp 198.18.0.101:53 sed", "add 198.18.0.30:53 w1", "add 198.18.0.32:53 w1", "add 198.18.0.31:53 w1"}
	if diff := cmp.Diff(want, m.calls); diff != "" {
		t.Error(diff)
	}
	if st.RowsFound != 1 || st.Baseline != (proto.IPVSTotals{Conns: 1, InPackets: 5, InBytes: 300}) {
		t.Errorf("rows %d, baseline %+v", st.RowsFound, st.Baseline)
	}
	if !slices.Equal(order(st.Services[0]), []string{"31", "32", "30"}) {
		t.Errorf("order %v", order(st.Services[0]))
	}
}

func TestFreshKeepsTheTreatmentsNodest(t *testing.T) {
	h, m := modelHandle(t)
	spec := freshSpec(service("rr", "30"))
	spec.Sysctl[nodest] = "1"
	if _, err := h.Fresh(context.Background(), spec); err != nil || m.sys[nodest] != "1" {
		t.Errorf("error %v, expire_nodest_conn %s, want 1", err, m.sys[nodest])
	}
}

// Packets that the estimator had not seen when their service was deleted must
// not turn up in the next run.
func TestFreshWaitsForTheCountersBeforeItDeletes(t *testing.T) {
	h, m := modelHandle(t)
	if _, err := h.Fresh(context.Background(), freshSpec(service("rr", "30"))); err != nil {
		t.Fatal(err)
	}
	m.packet(key, 0, 7) // no tick: nobody waited
	st, err := h.Fresh(context.Background(), freshSpec(service("rr", "30")))
	if err != nil {
		t.Fatal(err)
	}
	m.packet(key, 0, 2)
	got, err := h.Settled(context.Background(), proto.IPVSSettleSpec{Baseline: st.Baseline, WithinMS: 4000})
	if err != nil || !got.Settled || got.Totals.InPackets != 2 || got.Services[0].Destinations[0].Stats.InPackets != 2 {
		t.Errorf("error %v, settled %v, %+v", err, got.Settled, got.Services)
	}
}

func TestFreshRefusesATableThatStays(t *testing.T) {
	h, m := modelHandle(t)
	m.table = []proto.IPVSConn{{Protocol: "udp", Client: addrPort("198.18.0.128:40000"), Virtual: addrPort("198.18.0.101:53"), Dest: addrPort("198.18.0.99:53"), State: "UDP", Expires: 100}}
	spec := freshSpec(service("rr", "30"))
	spec.EmptyWithinMS = 1
	_, err := h.Fresh(context.Background(), spec)
	var stays *TableNotEmptyError
	if !errors.As(err, &stays) || stays.Rows != 1 {
		t.Fatalf("got %v", err)
	}
	if m.sys[nodest] != "0" {
		t.Error("expire_nodest_conn was not given back")
	}
}

func TestFreshRefuses(t *testing.T) {
	a, b := service("rr", "30"), service("rr", "31")
	b.VIP = b.VIP.Next()
	a.Timeouts.UDP, b.Timeouts.UDP = 10, 20
	for name, spec := range map[string]proto.IPVSFreshSpec{
		"timeouts that disagree": freshSpec(a, b),
		"one key twice":          freshSpec(service("rr", "30"), service("sed", "30")),
		"a foreign sysctl":       {Sysctl: map[string]string{"net.ipv4.ip_forward": "1"}},
		"an unknown sysctl":      {Sysctl: map[string]string{SysctlPrefix + "nonsense": "1"}},
		"a path":                 {Sysctl: map[string]string{SysctlPrefix + "../../x": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := modelHandle(t)
			if _, err := h.Fresh(context.Background(), spec); !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSettledWaitsForBothSums(t *testing.T) {
	h, m := modelHandle(t)
	st, err := h.Fresh(context.Background(), freshSpec(service("rr", "30", "31")))
	if err != nil {
		t.Fatal(err)
	}
	m.packet(key, 1, 1000)
	got, err := h.Settled(context.Background(), proto.IPVSSettleSpec{Baseline: st.Baseline, WithinMS: 60000})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Settled || got.Totals.InPackets != 1000 || len(got.Conns) != 1 || got.Services[0].Stats.InPackets != 1000 {
		t.Errorf("%+v", got)
	}
}

func TestSettledSaysWhenItHasNot(t *testing.T) {
	h, m := modelHandle(t)
	st, err := h.Fresh(context.Background(), freshSpec(service("rr", "30", "31")))
	if err != nil {
		t.Fatal(err)
	}
	m.packet(key, 0, 3)
	if err := m.delDestination(key, m.list[0].dests[0].d); err != nil {
		t.Fatal(err)
	}
	got, err := h.Settled(context.Background(), proto.IPVSSettleSpec{Baseline: st.Baseline, WithinMS: 1})
	if err != nil || got.Settled {
		t.Errorf("error %v, settled %v", err, got.Settled)
	}
}

func TestCancelledContextEndsTheWait(t *testing.T) {
	h, m := modelHandle(t)
	mustApply(t, h, service("rr", "30"))
	m.packet(key, 0, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.Settled(ctx, proto.IPVSSettleSpec{WithinMS: 60000}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
