package ipvs

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

var key = proto.IPVSKey{Protocol: "udp", VIP: netip.MustParseAddr("198.18.0.101"), Port: 53}

// service returns a tunnel service with destinations named by last octet:weight.
func service(scheduler string, dests ...string) proto.IPVSService {
	s := proto.IPVSService{IPVSKey: key, Scheduler: scheduler}
	for _, d := range dests {
		octet, weight, ok := strings.Cut(d, ":")
		w := 1
		if ok {
			w = int(weight[0] - '0')
		}
		s.Destinations = append(s.Destinations, proto.IPVSDestination{
			Address: netip.MustParseAddr("198.18.0." + octet), Port: 53, Forward: "tunnel", Weight: w})
	}
	return s
}

func order(s proto.IPVSService) []string {
	var out []string
	for _, d := range s.Destinations {
		out = append(out, strings.TrimPrefix(d.Address.String(), "198.18.0."))
	}
	return out
}

func mustApply(t *testing.T, h *Handle, s proto.IPVSService) proto.IPVSService {
	t.Helper()
	got, err := h.Apply(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestApplyPutsTheFirstDeclaredAtTheHead(t *testing.T) {
	h, m := modelHandle(t)
	got := mustApply(t, h, service("rr", "30", "31", "32"))
	if want := []string{"30", "31", "32"}; !slices.Equal(order(got), want) {
		t.Errorf("order %v, want %v", order(got), want)
	}
	want := []string{"new udp 198.18.0.101:53 rr", "add 198.18.0.32:53 w1", "add 198.18.0.31:53 w1", "add 198.18.0.30:53 w1"}
	if diff := cmp.Diff(want, m.calls); diff != "" {
		t.Error(diff)
	}
}

func TestApplyChangesOnlyWhatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		to   proto.IPVSService
		want []string
	}{
		"nothing":       {service("rr", "30", "31", "32"), nil},
		"scheduler":     {service("sed", "30", "31", "32"), []string{"set udp 198.18.0.101:53 sed"}},
		"weight":        {service("rr", "30", "31:3", "32"), []string{"chg 198.18.0.31:53 w3"}},
		"new head":      {service("rr", "29", "30", "31", "32"), []string{"add 198.18.0.29:53 w1"}},
		"head away":     {service("rr", "31", "32"), []string{"rem 198.18.0.30:53"}},
		"tail away":     {service("rr", "30", "31"), []string{"rem 198.18.0.32:53"}},
		"swapped heads": {service("rr", "31", "30", "32"), []string{"rem 198.18.0.31:53", "add 198.18.0.31:53 w1"}},
		"new tail":      {service("rr", "30", "31", "32", "33"), []string{"rem 198.18.0.32:53", "rem 198.18.0.31:53", "rem 198.18.0.30:53", "add 198.18.0.33:53 w1", "add 198.18.0.32:53 w1", "add 198.18.0.31:53 w1", "add 198.18.0.30:53 w1"}},
		"none left":     {service("rr"), []string{"rem 198.18.0.32:53", "rem 198.18.0.31:53", "rem 198.18.0.30:53"}},
		"one packet":    {func() proto.IPVSService { s := service("rr", "30", "31", "32"); s.OnePacket = true; return s }(), []string{"set udp 198.18.0.101:53 rr"}},
		"ipip is ''": {func() proto.IPVSService {
			s := service("rr", "30", "31", "32")
			s.Destinations[0].TunnelType = "ipip"
			return s
		}(), nil},
		"4in6 addresses": {func() proto.IPVSService {
			s := service("rr", "30", "31", "32")
			s.VIP = netip.MustParseAddr("::ffff:198.18.0.101")
			return s
		}(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			h, m := modelHandle(t)
			mustApply(t, h, service("rr", "30", "31", "32"))
			m.calls = nil
			got := mustApply(t, h, c.to)
			if diff := cmp.Diff(c.want, m.calls, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if !slices.Equal(order(got), order(c.to)) {
				t.Errorf("order %v, want %v", order(got), order(c.to))
			}
		})
	}
}

// Whatever the list was, after Apply it is the wished one, and a second Apply
// writes nothing.
func TestApplyConverges(t *testing.T) {
	octets := []string{"30", "31", "32", "33", "34", "35"}
	gen := rapid.Custom(func(r *rapid.T) []string {
		list := rapid.Permutation(octets).Draw(r, "order")[:rapid.IntRange(0, len(octets)).Draw(r, "n")]
		out := make([]string, len(list))
		for i, o := range list {
			out[i] = o + ":" + string(rune('0'+rapid.IntRange(0, 4).Draw(r, "weight")))
		}
		return out
	})
	rapid.Check(t, func(r *rapid.T) {
		m := newModel()
		h := newHandle(m)
		for range rapid.IntRange(1, 4).Draw(r, "steps") {
			want := service("rr", gen.Draw(r, "dests")...)
			got, err := h.Apply(context.Background(), want)
			if err != nil {
				r.Fatal(err)
			}
			if err := verify(normalise(want), got); err != nil {
				r.Fatal(err)
			}
			m.calls = nil
			if _, err := h.Apply(context.Background(), want); err != nil || len(m.calls) > 0 {
				r.Fatalf("second apply: %v, wrote %v", err, m.calls)
			}
		}
	})
}

func TestApplyFindsWhatWasNotDone(t *testing.T) {
	var mismatch *MismatchError
	h, m := modelHandle(t)
	m.reverse = true
	_, err := h.Apply(context.Background(), service("rr", "30", "31"))
	if !errors.As(err, &mismatch) || mismatch.Want != "[198.18.0.30:53 198.18.0.31:53]" || mismatch.Got != "[198.18.0.31:53 198.18.0.30:53]" {
		t.Errorf("order not kept: %v", err)
	}
	h, m = modelHandle(t)
	m.loseWrites = true
	if _, err = h.Apply(context.Background(), service("rr", "30")); !errors.As(err, &mismatch) || mismatch.Got != "[]" {
		t.Errorf("lost write: %v", err)
	}
	h, m = modelHandle(t)
	mustApply(t, h, service("rr", "30"))
	m.loseWrites = true
	if _, err = h.Apply(context.Background(), service("rr", "30:5")); !errors.As(err, &mismatch) || mismatch.What != "weight" {
		t.Errorf("lost weight: %v", err)
	}
}

func TestApplyNamesTheMissingScheduler(t *testing.T) {
	h, m := modelHandle(t)
	m.lacks["twos"] = true
	_, err := h.Apply(context.Background(), service("twos", "30"))
	var missing *MissingModuleError
	if !errors.As(err, &missing) || !slices.Equal(missing.Modules, []string{"ip_vs_twos"}) {
		t.Errorf("got %v", err)
	}
}

func TestTimeoutsZeroLeavesThemAlone(t *testing.T) {
	h, m := modelHandle(t)
	s := service("rr", "30")
	s.Timeouts = proto.IPVSTimeouts{UDP: 2}
	got := mustApply(t, h, s)
	want := proto.IPVSTimeouts{TCP: 900, TCPFin: 120, UDP: 2}
	if m.cfg != want || got.Timeouts != want {
		t.Errorf("kernel %v, read %v, want %v", m.cfg, got.Timeouts, want)
	}
}

func TestDelete(t *testing.T) {
	h, _ := modelHandle(t)
	mustApply(t, h, service("rr", "30"))
	if err := h.Delete(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	if err := h.Delete(context.Background(), key); !errors.Is(err, ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
}

func TestValidateRefusesWhatTheKernelWouldMisread(t *testing.T) {
	mod := func(f func(*proto.IPVSService)) proto.IPVSService { s := service("rr", "30", "31"); f(&s); return s }
	for name, s := range map[string]proto.IPVSService{
		"other port through a tunnel": mod(func(s *proto.IPVSService) { s.Destinations[0].Port = 5353 }),
		"IPv6 destination, direct": mod(func(s *proto.IPVSService) {
			s.Destinations[0].Address = netip.MustParseAddr("fd00::1")
			s.Destinations[0].Forward = "direct"
		}),
		"twice":                      mod(func(s *proto.IPVSService) { s.Destinations[1] = s.Destinations[0] }),
		"one_packet over masquerade": mod(func(s *proto.IPVSService) { s.OnePacket = true; s.Destinations[0].Forward = "masquerade" }),
		"one_packet on tcp":          mod(func(s *proto.IPVSService) { s.OnePacket = true; s.Protocol = "tcp" }),
		"no scheduler":               mod(func(s *proto.IPVSService) { s.Scheduler = "" }),
		"mh flag on sh":              mod(func(s *proto.IPVSService) { s.Scheduler = "sh"; s.Flags = []string{"mh-port"} }),
		"unknown flag":               mod(func(s *proto.IPVSService) { s.Flags = []string{"hashed"} }),
		"lower above upper":          mod(func(s *proto.IPVSService) { s.Destinations[0].Upper, s.Destinations[0].Lower = 3, 4 }),
		"gue without port":           mod(func(s *proto.IPVSService) { s.Destinations[0].TunnelType = "gue" }),
		"gre with port":              mod(func(s *proto.IPVSService) { s.Destinations[0].TunnelType, s.Destinations[0].TunnelPort = "gre", 1 }),
		"no VIP":                     mod(func(s *proto.IPVSService) { s.VIP = netip.Addr{} }),
		"unknown forward":            mod(func(s *proto.IPVSService) { s.Destinations[0].Forward = "nat" }),
		"netmask too long":           mod(func(s *proto.IPVSService) { s.Persistence, s.Netmask = 60, 33 }),
		"negative weight":            mod(func(s *proto.IPVSService) { s.Destinations[0].Weight = -1 }),
	} {
		t.Run(name, func(t *testing.T) {
			h, m := modelHandle(t)
			if _, err := h.Apply(context.Background(), s); !errors.Is(err, ErrInvalid) || len(m.calls) > 0 {
				t.Errorf("error %v, kernel was asked %v", err, m.calls)
			}
		})
	}
}

// byValue lets go-cmp compare addresses with ==.
var byValue = cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})
