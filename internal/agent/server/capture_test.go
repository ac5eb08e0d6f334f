package server

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/net/bpf"
)

// ethernet serialises a frame; the layers below the first are filled in here.
func ethernet(t *testing.T, parts ...gopacket.SerializableLayer) []byte {
	t.Helper()
	kind := layers.EthernetTypeIPv4
	switch parts[0].(type) {
	case *layers.IPv6:
		kind = layers.EthernetTypeIPv6
	case *layers.ARP:
		kind = layers.EthernetTypeARP
	}
	eth := &layers.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 0, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 2}, EthernetType: kind}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, append([]gopacket.SerializableLayer{eth}, parts...)...); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCaptureFilter(t *testing.T) {
	a, b := netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("198.18.0.2")
	a6, b6 := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	v4 := func(p layers.IPProtocol) *layers.IPv4 {
		return &layers.IPv4{Version: 4, TTL: 64, Protocol: p, SrcIP: a.AsSlice(), DstIP: b.AsSlice()}
	}
	v6 := func(p layers.IPProtocol) *layers.IPv6 {
		return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: p, SrcIP: a6.AsSlice(), DstIP: b6.AsSlice()}
	}
	options := v4(layers.IPProtocolUDP)
	options.Options = []layers.IPv4Option{{OptionType: 7, OptionLength: 7, OptionData: make([]byte, 5)}}
	first, later := v4(layers.IPProtocolUDP), v4(layers.IPProtocolUDP)
	first.Flags, later.FragOffset = layers.IPv4MoreFragments, 185
	udp := func(s, d layers.UDPPort) *layers.UDP { return &layers.UDP{SrcPort: s, DstPort: d} }
	tcp := func(s, d layers.TCPPort) *layers.TCP { return &layers.TCP{SrcPort: s, DstPort: d} }
	icmp := func(kind uint8) *layers.ICMPv4 {
		return &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, 0)}
	}
	icmp6 := func(kind uint8) *layers.ICMPv6 {
		return &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
	}
	body := gopacket.Payload("0123456789")
	for name, c := range map[string]struct {
		frame []byte
		keep  bool
	}{
		"UDP to the port":      {ethernet(t, v4(layers.IPProtocolUDP), udp(40000, 53), body), true},
		"UDP from the port":    {ethernet(t, v4(layers.IPProtocolUDP), udp(53, 40000), body), true},
		"UDP of others":        {ethernet(t, v4(layers.IPProtocolUDP), udp(40000, 5353), body), false},
		"with IP options":      {ethernet(t, options, udp(40000, 53), body), true},
		"TCP":                  {ethernet(t, v4(layers.IPProtocolTCP), tcp(53, 1), body), true},
		"TCP of others":        {ethernet(t, v4(layers.IPProtocolTCP), tcp(80, 54), body), false},
		"first fragment":       {ethernet(t, first, udp(53, 40000), body), true},
		"later fragment":       {ethernet(t, later, udp(1, 2), body), true},
		"ICMP unreachable":     {ethernet(t, v4(layers.IPProtocolICMPv4), icmp(3), body), true},
		"ICMP time exceeded":   {ethernet(t, v4(layers.IPProtocolICMPv4), icmp(11), body), true},
		"ICMP echo":            {ethernet(t, v4(layers.IPProtocolICMPv4), icmp(8), body), false},
		"IP in IP":             {ethernet(t, v4(layers.IPProtocolIPv4), body), false},
		"IPv6 UDP":             {ethernet(t, v6(layers.IPProtocolUDP), udp(40000, 53), body), true},
		"IPv6 UDP of others":   {ethernet(t, v6(layers.IPProtocolUDP), udp(40000, 54), body), false},
		"IPv6 TCP":             {ethernet(t, v6(layers.IPProtocolTCP), tcp(53, 9), body), true},
		"ICMPv6 unreachable":   {ethernet(t, v6(layers.IPProtocolICMPv6), icmp6(1), body), true},
		"ICMPv6 neighbour":     {ethernet(t, v6(layers.IPProtocolICMPv6), icmp6(135), body), false},
		"IPv6 other protocols": {ethernet(t, v6(layers.IPProtocolGRE), body), false},
		"ARP":                  {ethernet(t, &layers.ARP{HwAddressSize: 6, ProtAddressSize: 4, SourceHwAddress: make([]byte, 6), SourceProtAddress: make([]byte, 4), DstHwAddress: make([]byte, 6), DstProtAddress: make([]byte, 4)}), false},
		"shorter than a frame": {[]byte{1, 2, 3}, false},
	} {
		for _, snaplen := range []int{0, 20} {
			raw, err := captureFilter(53, snaplen)
			if err != nil {
				t.Fatal(err)
			}
			prog, ok := bpf.Disassemble(raw)
			if !ok {
				t.Fatal("the program does not disassemble")
			}
			vm, err := bpf.NewVM(prog)
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			if c.keep {
				want = len(c.frame)
				if snaplen > 0 {
					want = snaplen
				}
			}
			if n, err := vm.Run(c.frame); err != nil || min(n, len(c.frame)) != want {
				t.Errorf("%s: %d bytes kept, %v, want %d", name, n, err, want)
			}
		}
	}
}

func TestCaptureFileIsBounded(t *testing.T) {
	c := &capture{limit: 200, pcap: pcapHeader()}
	for i := range 5 {
		c.keep(packet{sec: 1796119200, nsec: uint32(123456789 + i), length: 1500, data: bytes.Repeat([]byte{byte(i)}, 60)})
	}
	if c.kept != 2 || c.lost != 3 {
		t.Errorf("kept %d, lost %d", c.kept, c.lost)
	}
	r, err := pcapgo.NewReader(bytes.NewReader(c.pcap))
	if err != nil || r.LinkType() != layers.LinkTypeEthernet || r.Resolution() != gopacket.TimestampResolutionNanosecond {
		t.Fatal(err)
	}
	for i := range 2 {
		b, ci, err := r.ReadPacketData()
		if err != nil || ci.Timestamp.UnixNano() != 1796119200123456789+int64(i) || ci.Length != 1500 || len(b) != 60 || b[0] != byte(i) {
			t.Errorf("packet %d: %v %+v", i, err, ci)
		}
	}
}
