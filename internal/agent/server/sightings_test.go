package server

import (
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/net/bpf"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func TestSightingFilter(t *testing.T) {
	a, b := netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("198.18.0.2")
	a6, b6 := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	v4 := func(p layers.IPProtocol) *layers.IPv4 {
		return &layers.IPv4{Version: 4, TTL: 64, Protocol: p, SrcIP: a.AsSlice(), DstIP: b.AsSlice()}
	}
	v6 := func(p layers.IPProtocol) *layers.IPv6 {
		return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: p, SrcIP: a6.AsSlice(), DstIP: b6.AsSlice()}
	}
	icmp := func(kind uint8) *layers.ICMPv4 {
		return &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, 4)}
	}
	icmp6 := func(kind uint8) *layers.ICMPv6 {
		return &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
	}
	body := gopacket.Payload("0123456789012345678901234567890123456789")
	for name, c := range map[string]struct {
		frame []byte
		keep  bool
	}{
		"UDP":                         {ethernet(t, v4(layers.IPProtocolUDP), body), true},
		"TCP":                         {ethernet(t, v4(layers.IPProtocolTCP), body), true},
		"IP in IP":                    {ethernet(t, v4(layers.IPProtocolIPv4), body), true},
		"IPv6 in IP":                  {ethernet(t, v4(layers.IPProtocolIPv6), body), true},
		"GRE":                         {ethernet(t, v4(layers.IPProtocolGRE), body), true},
		"OSPF":                        {ethernet(t, v4(layers.IPProtocolOSPF), body), false},
		"ICMP too big":                {ethernet(t, v4(layers.IPProtocolICMPv4), icmp(3), body), true},
		"ICMP time exceeded":          {ethernet(t, v4(layers.IPProtocolICMPv4), icmp(11), body), true},
		"ICMP echo":                   {ethernet(t, v4(layers.IPProtocolICMPv4), icmp(8), body), false},
		"IPv6 UDP":                    {ethernet(t, v6(layers.IPProtocolUDP), body), true},
		"IPv6 TCP":                    {ethernet(t, v6(layers.IPProtocolTCP), body), true},
		"IPv6 GRE":                    {ethernet(t, v6(layers.IPProtocolGRE), body), true},
		"IP in IPv6":                  {ethernet(t, v6(layers.IPProtocolIPv4), body), true},
		"IPv6 in IPv6":                {ethernet(t, v6(layers.IPProtocolIPv6), body), true},
		"IPv6 fragment":               {ethernet(t, v6(layers.IPProtocolIPv6Fragment), body), true},
		"IPv6 destination options":    {ethernet(t, v6(layers.IPProtocolIPv6Destination), body), true},
		"IPv6 OSPF":                   {ethernet(t, v6(layers.IPProtocolOSPF), body), false},
		"ICMPv6 too big":              {ethernet(t, v6(layers.IPProtocolICMPv6), icmp6(2), body), true},
		"ICMPv6 echo":                 {ethernet(t, v6(layers.IPProtocolICMPv6), icmp6(128), body), false},
		"a neighbour's question":      {ethernet(t, v6(layers.IPProtocolICMPv6), icmp6(135), body), false},
		"a neighbour's answer":        {ethernet(t, v6(layers.IPProtocolICMPv6), icmp6(136), body), true},
		"ARP":                         {ethernet(t, &layers.ARP{HwAddressSize: 6, ProtAddressSize: 4, SourceHwAddress: make([]byte, 6), SourceProtAddress: make([]byte, 4), DstHwAddress: make([]byte, 6), DstProtAddress: make([]byte, 4)}), true},
		"another protocol's frame":    {append(make([]byte, 12), 0x88, 0xcc, 1, 2, 3, 4), false},
		"shorter than its own header": {[]byte{1, 2, 3}, false},
	} {
		vm, err := bpf.NewVM(sightingFilter())
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if c.keep {
			want = min(len(c.frame), proto.SightingSnap)
		}
		if n, err := vm.Run(c.frame); err != nil || min(n, len(c.frame)) != want {
			t.Errorf("%s: %d bytes kept, %v, want %d", name, n, err, want)
		}
	}
}
