package load

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// frame is one captured frame as far as matching needs it.
type frame struct {
	time           time.Time
	srcMAC, dstMAC string
	src, dst       netip.AddrPort // port 0 for ICMP
	tcp            bool
	seq            uint32
	syn            bool
	flags          string     // as in [Segment]
	icmp           *icmpError // set for ICMP errors, payload is then empty
	payload        []byte
	ipBytes        int // the IP packet
	wireBytes      int // the frame, Ethernet header in, FCS out
	fragments      int // that it was put together from, all of them in the bytes; 0 = it came whole
}

// icmpError is an error message and the packet that it is about.
type icmpError struct {
	v6         bool
	kind, code uint8
	src, dst   netip.AddrPort
}

// packetSource is what both of pcapgo's readers are.
type packetSource interface {
	ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	LinkType() layers.LinkType
}

func openCapture(r io.Reader) (packetSource, error) {
	br := bufio.NewReader(r)
	magic, err := br.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	var src packetSource
	if binary.BigEndian.Uint32(magic) == 0x0a0d0d0a {
		src, err = pcapgo.NewNgReader(br, pcapgo.DefaultNgReaderOptions)
	} else {
		src, err = pcapgo.NewReader(br)
	}
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	if t := src.LinkType(); t != layers.LinkTypeEthernet {
		return nil, fmt.Errorf("capture: link type %v, want Ethernet", t)
	}
	return src, nil
}

// readFrames calls f for each frame that carries UDP, TCP or an ICMP error.
// Checksums are not looked at: with virtio they are often still partial when
// the capture sees the frame.
// Datagrams of UDP that came in fragments are put together; returned are those of
// which pieces are missing.
func readFrames(r io.Reader, f func(*frame)) ([]datagramKey, error) {
	src, err := openCapture(r)
	if err != nil {
		return nil, err
	}
	d := newDecoder()
	for {
		b, ci, err := src.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return d.fragments.missing(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		if fr := d.decode(b, ci); fr != nil {
			f(fr)
		}
	}
}

// decoder decodes frames without allocating layers for each.
type decoder struct {
	eth    layers.Ethernet
	ip4    layers.IPv4
	ip6    layers.IPv6
	udp    layers.UDP
	tcp    layers.TCP
	icmp4  layers.ICMPv4
	icmp6  layers.ICMPv6
	parser *gopacket.DecodingLayerParser
	found  []gopacket.LayerType

	fragments fragments
}

func newDecoder() *decoder {
	d := &decoder{}
	d.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &d.eth, &d.ip4, &d.ip6, &d.udp, &d.tcp, &d.icmp4, &d.icmp6)
	d.parser.IgnoreUnsupported = true
	return d
}

func (d *decoder) decode(b []byte, ci gopacket.CaptureInfo) *frame {
	// An error means that a layer could not be decoded; what came before is in
	// found, and without a transport layer the frame is passed over.
	_ = d.parser.DecodeLayers(b, &d.found)
	fr := &frame{time: ci.Timestamp, wireBytes: ci.Length}
	var src, dst netip.Addr
	var transport bool
	for _, t := range d.found {
		switch t {
		case layers.LayerTypeEthernet:
			fr.srcMAC, fr.dstMAC = d.eth.SrcMAC.String(), d.eth.DstMAC.String()
		case layers.LayerTypeIPv4:
			src, dst = address(d.ip4.SrcIP), address(d.ip4.DstIP)
			fr.ipBytes = int(d.ip4.Length)
			if d.ip4.FragOffset != 0 || d.ip4.Flags&layers.IPv4MoreFragments != 0 {
				return d.fragments.add(&d.ip4, fr)
			}
		case layers.LayerTypeIPv6:
			src, dst = address(d.ip6.SrcIP), address(d.ip6.DstIP)
			fr.ipBytes = int(d.ip6.Length) + 40
		case layers.LayerTypeUDP:
			fr.src, fr.dst = netip.AddrPortFrom(src, uint16(d.udp.SrcPort)), netip.AddrPortFrom(dst, uint16(d.udp.DstPort))
			fr.payload, transport = d.udp.Payload, true
		case layers.LayerTypeTCP:
			fr.src, fr.dst = netip.AddrPortFrom(src, uint16(d.tcp.SrcPort)), netip.AddrPortFrom(dst, uint16(d.tcp.DstPort))
			fr.tcp, fr.seq, fr.syn, fr.flags = true, d.tcp.Seq, d.tcp.SYN, flagsText(&d.tcp)
			fr.payload, transport = d.tcp.Payload, true
		case layers.LayerTypeICMPv4:
			fr.icmp = about4(d.icmp4.TypeCode.Type(), d.icmp4.TypeCode.Code(), d.icmp4.Payload)
		case layers.LayerTypeICMPv6:
			fr.icmp = about6(d.icmp6.TypeCode.Type(), d.icmp6.TypeCode.Code(), d.icmp6.Payload)
		}
	}
	if fr.icmp != nil {
		fr.src, fr.dst = netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0)
		return fr
	}
	if !transport {
		return nil
	}
	return fr
}

func address(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a.Unmap()
}

// about4 reads the packet inside an ICMP error (RFC 792: its IP header and 8 bytes).
func about4(kind, code uint8, b []byte) *icmpError {
	switch kind {
	case layers.ICMPv4TypeDestinationUnreachable, layers.ICMPv4TypeSourceQuench, layers.ICMPv4TypeRedirect,
		layers.ICMPv4TypeTimeExceeded, layers.ICMPv4TypeParameterProblem:
	default:
		return nil
	}
	if len(b) < 20 {
		return nil
	}
	header := int(b[0]&0xf) * 4
	if header < 20 || len(b) < header+4 {
		return nil
	}
	return &icmpError{kind: kind, code: code,
		src: netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), binary.BigEndian.Uint16(b[header:])),
		dst: netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:20])), binary.BigEndian.Uint16(b[header+2:]))}
}

// about6 does the same for ICMPv6 (RFC 4443: four bytes, then the packet).
func about6(kind, code uint8, b []byte) *icmpError {
	if kind == 0 || kind >= 128 || len(b) < 4+40+4 {
		return nil
	}
	b = b[4:]
	return &icmpError{v6: true, kind: kind, code: code,
		src: netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[40:])),
		dst: netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[24:40])), binary.BigEndian.Uint16(b[42:]))}
}
