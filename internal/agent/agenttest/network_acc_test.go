package agenttest

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

const (
	macA, macB = "52:54:00:00:00:0a", "52:54:00:00:00:0b"
	zoneText   = "$TTL 60\n@ IN SOA ns root 7 60 60 60 60\n@ IN NS ns\nns IN A 192.0.2.1\nhost1 IN A 192.0.2.2\n"
)

var (
	addrA = netip.MustParseAddr("198.18.0.10")
	addrB = netip.MustParseAddr("198.18.0.30")
	vip   = netip.MustParseAddr("198.18.0.100")
)

// pair boots two guests on one wire and addresses them.
func pair(ctx context.Context, t *testing.T) (a, b *client.Conn) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "w")
	va := Boot(t, "client.c", Wire{MAC: macA, Socket: socket, Listen: true})
	waitFile(t, socket)
	vb := Boot(t, "backend.ns[0]", Wire{MAC: macB, Socket: socket})
	a, b = va.Dial(t, proto.EnginePort), vb.Dial(t, proto.EnginePort)
	link := func(c client.Caller, mac string, addresses ...netip.Prefix) {
		timed(t, "link.apply", func() {
			st := must(client.Do(ctx, c, proto.LinkApply, proto.LinkSpec{MAC: mac, Name: "lan", MTU: 1400, Addresses: addresses}))(t)
			if !st.Up || st.MTU != 1400 || st.Name != "lan" || len(st.Addresses) != len(addresses) {
				t.Errorf("link: %+v", st)
			}
		})
	}
	second, lone := netip.MustParsePrefix("198.18.0.11/24"), netip.PrefixFrom(netip.MustParseAddr("198.18.0.99"), 32)
	link(a, macA, netip.PrefixFrom(addrA, 24), second, lone)
	link(a, macA, netip.PrefixFrom(addrA, 24), lone, second)
	link(a, macA, netip.PrefixFrom(addrA, 24))
	link(b, macB, netip.PrefixFrom(addrB, 24))
	return a, b
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func do[A, R any](ctx context.Context, t *testing.T, c client.Caller, call proto.Call[A, R], args A) R {
	t.Helper()
	var r R
	timed(t, call.Op, func() { r = must(client.Do(ctx, c, call, args))(t) })
	return r
}

func refused(t *testing.T, err error, code, subject string) {
	t.Helper()
	var e *proto.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Subject+e.Message, subject) {
		t.Errorf("error %v, want code %s about %q", err, code, subject)
	} else {
		t.Logf("refused: %v", e)
	}
}

func TestAccNetwork(t *testing.T) {
	ctx := acceptance(t)
	a, b := pair(ctx, t)
	t.Run("neighbours", func(t *testing.T) {
		do(ctx, t, a, proto.Ping, proto.PingSpec{Address: addrB, From: addrA, TimeoutMS: 5000})
		if n := do(ctx, t, a, proto.NeighRead, proto.NeighRef{Address: addrB}); n.MAC != macB {
			t.Errorf("neighbour %+v", n)
		}
		_, err := client.Do(ctx, a, proto.Ping, proto.PingSpec{Address: netip.MustParseAddr("198.18.0.77"), TimeoutMS: 400})
		refused(t, err, proto.CodeTimeout, "198.18.0.77")
		_, err = client.Do(ctx, a, proto.NeighRead, proto.NeighRef{Address: netip.MustParseAddr("198.18.0.78")})
		refused(t, err, proto.CodeNotFound, "198.18.0.78")
	})
	t.Run("arp", func(t *testing.T) {
		ask := proto.ARPAskSpec{Dev: "lan", From: addrA, Address: addrB, Fences: []netip.Addr{addrB}}
		if got := do(ctx, t, a, proto.ARPAsk, ask); len(got.MACs) != 1 || got.MACs[0] != macB || len(got.Silent) != 0 {
			t.Errorf("who has %s: %+v", addrB, got)
		}
		ask.Address = netip.MustParseAddr("198.18.0.79")
		ask.Fences = append(ask.Fences, ask.Address)
		if got := do(ctx, t, a, proto.ARPAsk, ask); len(got.MACs) != 0 || len(got.Silent) != 1 {
			t.Errorf("who has what nobody has: %+v", got)
		}
	})
	t.Run("sysctl", func(t *testing.T) {
		want := map[string]string{"net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.lan.arp_announce": "2", "net.ipv4.ip_forward": "1",
			"net.ipv4.tcp_rmem": "4096 131072 6291456"}
		do(ctx, t, b, proto.SysctlApply, want)
		have := do(ctx, t, b, proto.SysctlRead, []string{"net.ipv4.conf.all.arp_ignore", "net.ipv4.tcp_rmem", "net.nothing"})
		if len(have) != 2 || have["net.ipv4.tcp_rmem"] != want["net.ipv4.tcp_rmem"] {
			t.Errorf("sysctl.read: %v", have)
		}
		_, err := client.Do(ctx, b, proto.SysctlApply, map[string]string{"net.nothing": "1"})
		refused(t, err, proto.CodeNotFound, "net.nothing")
		_, err = client.Do(ctx, b, proto.SysctlApply, map[string]string{"net.ipv4.ip_default_ttl": "1000"})
		refused(t, err, proto.CodeInvalid, "net.ipv4.ip_default_ttl")
	})
	t.Run("loopback", func(t *testing.T) {
		lo := proto.LinkSpec{Name: "lo", Addresses: []netip.Prefix{netip.PrefixFrom(vip, 32)}}
		if st := do(ctx, t, b, proto.LinkApply, lo); len(st.Addresses) != 1 || !st.Up {
			t.Errorf("lo: %+v", st)
		}
		do(ctx, t, b, proto.LinkDelete, proto.LinkRef{Name: "lo"})
		do(ctx, t, b, proto.Ping, proto.PingSpec{Address: netip.MustParseAddr("127.0.0.1"), TimeoutMS: 3000})
		if st := do(ctx, t, b, proto.LinkRead, proto.LinkRef{Name: "lo"}); len(st.Addresses) != 0 || !st.Up {
			t.Errorf("lo after its deletion: %+v", st)
		}
		_, err := client.Do(ctx, b, proto.LinkApply, proto.LinkSpec{Name: "wan"})
		refused(t, err, proto.CodeInvalid, "wan")
	})
	t.Run("netem", func(t *testing.T) { netem(ctx, t, a) })
	t.Run("routes", func(t *testing.T) {
		r := proto.RouteSpec{To: netip.MustParsePrefix("198.19.0.0/16"), Via: addrB, Dev: "lan"}
		if got := do(ctx, t, a, proto.RouteApply, r); got != r {
			t.Errorf("route %+v, want %+v", got, r)
		}
		do(ctx, t, a, proto.RouteDelete, r)
		_, err := client.Do(ctx, a, proto.RouteRead, r)
		refused(t, err, proto.CodeNotFound, "198.19.0.0/16")
	})
	for _, kind := range []string{"ipip", "gre", "gue"} {
		t.Run(kind, func(t *testing.T) { tunnelPath(ctx, t, a, b, kind) })
	}
	t.Run("IPv6 when asked for", func(t *testing.T) {
		const off = "net.ipv6.conf.lan.disable_ipv6"
		if have := do(ctx, t, a, proto.SysctlRead, []string{off}); have[off] != "1" {
			t.Errorf("a card without an IPv6 address speaks IPv6: %v", have)
		}
		six := func(c client.Caller, mac string, v4 netip.Addr, v6 string) {
			want := []netip.Prefix{netip.PrefixFrom(v4, 24), netip.MustParsePrefix(v6)}
			if st := do(ctx, t, c, proto.LinkApply, proto.LinkSpec{MAC: mac, Name: "lan", Addresses: want}); len(st.Addresses) != 2 {
				t.Errorf("%+v", st)
			}
		}
		six(a, macA, addrA, "2001:db8::a/64")
		six(b, macB, addrB, "2001:db8::b/64")
		do(ctx, t, a, proto.Ping, proto.PingSpec{Address: netip.MustParseAddr("2001:db8::b"), TimeoutMS: 5000})
	})
	t.Run("kernel log", func(t *testing.T) {
		lines := do(ctx, t, b, proto.KernelLog, proto.KernelLogSpec{})
		if len(lines) < 100 {
			t.Errorf("%d kernel messages", len(lines))
		}
		last := lines[len(lines)-1].Seq
		if rest := do(ctx, t, b, proto.KernelLog, proto.KernelLogSpec{Since: last}); len(rest) != 0 {
			t.Errorf("messages after the last one: %v", rest)
		}
		if i := do(ctx, t, b, proto.Info, proto.None{}); i.Node != "backend.ns[0]" || len(i.Tools) != 2 || i.KlogSeq != last || i.MemFree == 0 {
			t.Errorf("info: %+v", i)
		}
	})
}

func netem(ctx context.Context, t *testing.T, a client.Caller) {
	spec := proto.NetemSpec{Dev: "lan", DelayUS: 30000, JitterUS: 1001, LossPct: 0.07, DuplicatPct: 0.1, ReorderPct: 0.3, RateBits: 80_000_000, Limit: 500}
	if got := do(ctx, t, a, proto.NetemApply, spec); got != spec {
		t.Errorf("netem %+v, want %+v", got, spec)
	}
	if r := do(ctx, t, a, proto.Ping, proto.PingSpec{Address: addrB, TimeoutMS: 3000}); r.RTTUS < 25000 {
		t.Errorf("round trip %d µs with a delay of 30 ms", r.RTTUS)
	}
	if got := do(ctx, t, a, proto.NetemApply, proto.NetemSpec{Dev: "lan"}); got != (proto.NetemSpec{Dev: "lan"}) {
		t.Errorf("netem after removal: %+v", got)
	}
	_, err := client.Do(ctx, a, proto.NetemApply, proto.NetemSpec{Dev: "lan", JitterUS: 5})
	refused(t, err, proto.CodeInvalid, "jitter")
	_, err = client.Do(ctx, a, proto.NetemRead, proto.LinkRef{Name: "wan"})
	refused(t, err, proto.CodeNotFound, "wan")
}

// tunnelPath asks b's named under the VIP through a tunnel: the way of LVS-TUN
// with a route in place of the director.
func tunnelPath(ctx context.Context, t *testing.T, a, b client.Caller, kind string) {
	spec := proto.TunnelSpec{Name: "t-" + kind, Type: kind, Local: addrB, Remote: addrA, Addresses: []netip.Prefix{netip.PrefixFrom(vip, 32)}}
	back := proto.TunnelSpec{Name: "t-" + kind, Type: kind, Local: addrA, Remote: addrB}
	if kind == "gue" {
		spec.Port, back.Port = 6080, 6080
	}
	st := do(ctx, t, b, proto.TunnelApply, spec)
	if st.FallbackUp || !st.Up || st.MTU == 0 || len(st.Addresses) != 1 {
		t.Errorf("tunnel: %+v", st)
	}
	do(ctx, t, b, proto.TunnelApply, spec) // once more: nothing changes
	do(ctx, t, a, proto.TunnelApply, back)
	do(ctx, t, a, proto.RouteApply, proto.RouteSpec{To: netip.PrefixFrom(vip, 32), Dev: back.Name})
	named := do(ctx, t, b, proto.NamedApply, proto.NamedSpec{ServerID: "backend.ns[0]",
		Zones: []proto.ZoneFile{{Name: "lab.test", Text: zoneText}}, Listen: []netip.Addr{addrB, vip}})
	if !named.Running || named.Serials["lab.test"] != 7 || len(named.Listen) != 2 {
		t.Errorf("named: %+v", named)
	}
	before := do(ctx, t, b, proto.Counters, proto.CountersSpec{Tunnels: []string{spec.Name}, Named: true})
	q := do(ctx, t, a, proto.Query, proto.QuerySpec{Server: vip, From: addrA, Name: "host1.lab.test", Type: "A", NSID: true, TimeoutMS: 3000})
	if q.Rcode != "NOERROR" || q.NSID != "backend.ns[0]" || q.Source != vip || len(q.Answers) != 1 || q.Answers[0] != "192.0.2.2" {
		t.Errorf("answer %+v", q)
	}
	id := do(ctx, t, a, proto.Query, proto.QuerySpec{Server: vip, From: addrA, Name: "id.server", Type: "TXT", Class: "CH", TimeoutMS: 3000})
	if len(id.Answers) != 1 || id.Answers[0] != `"backend.ns[0]"` {
		t.Errorf("id.server: %+v", id)
	}
	tcp := do(ctx, t, a, proto.Query, proto.QuerySpec{Server: vip, From: addrA, Name: "nothing.lab.test", Type: "AAAA", TCP: true, TimeoutMS: 3000})
	if tcp.Rcode != "NXDOMAIN" {
		t.Errorf("over TCP: %+v", tcp)
	}
	after := do(ctx, t, b, proto.Counters, proto.CountersSpec{Tunnels: []string{spec.Name}, Named: true})
	if rx := after.Links[spec.Name].RxPackets - before.Links[spec.Name].RxPackets; rx < 3 {
		t.Errorf("%d packets came out of the tunnel", rx)
	}
	if after.Named.Requests-before.Named.Requests != 3 || after.Named.RequestsTCP-before.Named.RequestsTCP != 1 {
		t.Errorf("named counted %+v, before %+v", after.Named, before.Named)
	}
	do(ctx, t, b, proto.TunnelDelete, proto.LinkRef{Name: spec.Name})
	do(ctx, t, a, proto.TunnelDelete, proto.LinkRef{Name: spec.Name})
	if q := do(ctx, t, a, proto.Query, proto.QuerySpec{Server: addrB, Port: 5353, Name: "x", Type: "A", TimeoutMS: 3000}); !q.Refused {
		t.Errorf("a closed port answered %+v", q)
	}
}

func TestAccNamed(t *testing.T) {
	ctx := acceptance(t)
	c := Boot(t, "backend.ns[1]").Dial(t, proto.EnginePort)
	lo := netip.MustParseAddr("127.0.0.1")
	zone := func(name, more string) proto.ZoneFile { return proto.ZoneFile{Name: name, Text: zoneText + more} }
	apply := func(zones ...proto.ZoneFile) (proto.NamedState, error) {
		var st proto.NamedState
		var err error
		timed(t, "named.apply", func() {
			st, err = client.Do(ctx, c, proto.NamedApply, proto.NamedSpec{ServerID: `backend.ns["b"]`, Zones: zones, Listen: []netip.Addr{lo}})
		})
		return st, err
	}
	_, err := client.Do(ctx, c, proto.NamedStats, proto.None{})
	refused(t, err, proto.CodeNotFound, "named")
	_, err = apply(zone("bad.test", "broken IN A 1.2.3\n"))
	refused(t, err, proto.CodeInvalid, "bad.test.zone:6: near '1.2.3': bad dotted quad (line 6: broken IN A 1.2.3)")
	st := must(apply(zone("lab.test", "")))(t)
	if len(st.Zones) != 1 || st.Version == "" {
		t.Errorf("%+v", st)
	}
	first := st.PID
	st = must(apply(zone("lab.test", ""), zone("0/25.2.0.192.in-addr.arpa", "1 IN PTR host1.lab.test.\n")))(t)
	if st.PID != first || len(st.Zones) != 2 {
		t.Errorf("after a reload: %+v", st)
	}
	st = must(apply(zone("lab.test", "")))(t)
	if same := must(apply(zone("lab.test", "")))(t); same.PID != st.PID || same.Zones["lab.test"] != st.Zones["lab.test"] {
		t.Errorf("%+v became %+v", st, same)
	}
	_, err = apply(zone("lab.test", "lab.test. IN CNAME x\n"))
	refused(t, err, proto.CodeInvalid, "lab.test")
	q := do(ctx, t, c, proto.Query, proto.QuerySpec{Server: lo, Name: "hostname.bind", Type: "TXT", Class: "CH"})
	if len(q.Answers) != 1 || q.Answers[0] != `"backend.ns[\"b\"]"` {
		t.Errorf("hostname.bind: %+v", q)
	}
	do(ctx, t, c, proto.NamedStop, proto.None{})
	if st := do(ctx, t, c, proto.NamedRead, proto.None{}); st.Running {
		t.Errorf("runs after stop: %+v", st)
	}
}
