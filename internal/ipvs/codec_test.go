package ipvs

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func TestNetmaskIsInNetworkOrder(t *testing.T) {
	for _, prefix := range []int{1, 8, 20, 24, 31, 32} {
		code := netmaskCode(unix.AF_INET, prefix)
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], code) // what moby/ipvs puts on the wire
		if want := ^uint32(0) << (32 - prefix); binary.BigEndian.Uint32(b[:]) != want {
			t.Errorf("/%d goes out as %v", prefix, b)
		}
		if got := netmaskPrefix(unix.AF_INET, code); got != prefix {
			t.Errorf("/%d comes back as /%d", prefix, got)
		}
	}
	if netmaskCode(unix.AF_INET, 0) != 0xffffffff || netmaskCode(unix.AF_INET6, 0) != 128 {
		t.Error("a mask that is not given must not mean everybody")
	}
}

func TestFlagsRoundTripWithoutTheKernelsMark(t *testing.T) {
	for _, s := range []proto.IPVSService{
		{Scheduler: "sh", Flags: []string{"sh-fallback", "sh-port"}},
		{Scheduler: "mh", Flags: []string{"mh-port"}, OnePacket: true},
		{Scheduler: "rr", Persistence: 60, Netmask: 24},
	} {
		bits, err := flagBits(s)
		if err != nil {
			t.Fatal(err)
		}
		got := proto.IPVSService{Scheduler: s.Scheduler, Persistence: s.Persistence, Netmask: s.Netmask}
		setFlags(&got, bits|flagHashed)
		if diff := cmp.Diff(s, got, byValue); diff != "" {
			t.Error(diff)
		}
	}
}

// What we would send about a destination is what we read back, for weights
// beyond 16 bits, IPv6 and tunnels that moby/ipvs lacks.
func TestDestinationSurvivesNetlink(t *testing.T) {
	for _, d := range []proto.IPVSDestination{
		{Address: netip.MustParseAddr("198.18.0.30"), Port: 53, Forward: "tunnel", Weight: 70000, Upper: 9, Lower: 3},
		{Address: netip.MustParseAddr("fd00::30"), Port: 53, Forward: "tunnel", Weight: 1, TunnelType: "gue", TunnelPort: 6080},
		{Address: netip.MustParseAddr("198.18.0.30"), Port: 53, Forward: "tunnel", TunnelType: "gre"},
		{Address: netip.MustParseAddr("198.18.0.30"), Port: 80, Forward: "masquerade"},
		{Address: netip.MustParseAddr("198.18.0.30"), Port: 80, Forward: "direct"},
	} {
		a, err := destAttr(d)
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseAttrs(a.Serialize())
		if err != nil {
			t.Fatal(err)
		}
		got, err := destFrom(m, unix.AF_INET)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, got, byValue); diff != "" {
			t.Error(diff)
		}
	}
}

func TestServiceFromNetlink(t *testing.T) {
	a := nl.NewRtAttr(attrService, nil)
	a.AddRtAttr(svcAF, nl.Uint16Attr(unix.AF_INET))
	a.AddRtAttr(svcProtocol, nl.Uint16Attr(unix.IPPROTO_UDP))
	a.AddRtAttr(svcAddr, append(addrBytes(key.VIP), make([]byte, 12)...)) // padded, as the kernel does
	a.AddRtAttr(svcPort, nl.BEUint16Attr(53))
	a.AddRtAttr(svcSched, nl.ZeroTerminated("mh"))
	a.AddRtAttr(svcFlags, append(nl.Uint32Attr(flagHashed|flagOnePacket|flagSched2), nl.Uint32Attr(^uint32(0))...))
	a.AddRtAttr(svcTimeout, nl.Uint32Attr(0))
	a.AddRtAttr(svcNetmask, nl.Uint32Attr(0xffffffff))
	st := a.AddRtAttr(svcStat64, nil)
	for i, v := range []uint64{1 << 33, 2, 3, 4, 5} {
		st.AddRtAttr(i+1, nl.Uint64Attr(v))
	}
	m, err := parseAttrs(a.Serialize())
	if err != nil {
		t.Fatal(err)
	}
	got, err := serviceFrom(m)
	if err != nil {
		t.Fatal(err)
	}
	want := proto.IPVSService{IPVSKey: key, Scheduler: "mh", OnePacket: true, Flags: []string{"mh-port"},
		Stats: proto.IPVSCounters{Conns: 1 << 33, InPackets: 2, OutPackets: 3, InBytes: 4, OutBytes: 5}}
	if diff := cmp.Diff(want, got, byValue); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseAttrs(f *testing.F) {
	a, _ := destAttr(proto.IPVSDestination{Address: key.VIP, Forward: "tunnel"})
	f.Add(a.Serialize())
	f.Add([]byte{3, 0, 1, 0})
	f.Add([]byte{5, 0, 1, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseAttrs(bytes.Clone(b))
		if err != nil {
			return
		}
		_, _ = destFrom(m, unix.AF_INET)
		_, _ = serviceFrom(m)
	})
}
