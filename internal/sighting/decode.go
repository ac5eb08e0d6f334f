package sighting

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Numbers of protocols (IANA, Protocol Numbers and IEEE 802 Numbers).
const (
	etherIPv4, etherARP, etherIPv6 = 0x0800, 0x0806, 0x86dd

	protoHopOptions, protoICMP, protoIPv4, protoTCP, protoUDP    = 0, 1, 4, 6, 17
	protoIPv6, protoRouting, protoFragment, protoGRE, protoICMP6 = 41, 43, 44, 47, 58
	protoDestOptions                                             = 60
)

// mostHeaders bounds how many headers one in another are read: a frame has no room
// for more than some seventy, and a few tell all.
const mostHeaders = 16

// Packet is what a frame says.
type Packet struct {
	SourceMAC, DestinationMAC string
	// Headers are the IP headers, outermost first; none for ARP.
	Headers []Header
	// Transport is "udp", "tcp" or "icmp", "" when it is something else or was cut
	// off or is in another fragment.
	Transport            string
	SourcePort, DestPort uint16
	// Token tells a query and its answer from others, whatever is written over their
	// addresses and ports: over UDP the id and the question of DNS, over TCP the
	// sequence number of the first segment, which the first one of the answer
	// confirms. "" where it was cut off, and of everything else.
	Token string
	// TooBig is an ICMP message that a packet did not fit (RFC 792, RFC 1191: type 3
	// code 4; RFC 4443: type 2); About is the packet it speaks of.
	TooBig bool
	About  *Packet
	// Claims is the address that the sender says it has, by an ARP reply (RFC 826) or
	// a neighbour advertisement (RFC 4861).
	Claims netip.Addr
	// ClaimMAC is whom it says the address belongs to.
	ClaimMAC string
}

// Inner is the innermost IP header.
func (p *Packet) Inner() Header {
	if len(p.Headers) == 0 {
		return Header{}
	}
	return p.Headers[len(p.Headers)-1]
}

// Source is where the innermost packet comes from.
func (p *Packet) Source() netip.AddrPort {
	return netip.AddrPortFrom(p.Inner().Source, p.SourcePort)
}

// Destination is where the innermost packet goes to.
func (p *Packet) Destination() netip.AddrPort {
	return netip.AddrPortFrom(p.Inner().Destination, p.DestPort)
}

// Decode reads an Ethernet frame as far as it goes: what was cut off is left out.
// ok is false for frames that are neither IP nor ARP. guePorts are the UDP ports
// behind which a GUE header begins.
func Decode(frame []byte, guePorts []uint16) (p *Packet, ok bool) {
	if len(frame) < 14 {
		return nil, false
	}
	p = &Packet{DestinationMAC: mac(frame), SourceMAC: mac(frame[6:])}
	d := decoder{p, guePorts}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv4:
		return p, d.ipv4(frame[14:])
	case etherIPv6:
		return p, d.ipv6(frame[14:])
	case etherARP:
		return p, d.arp(frame[14:])
	}
	return nil, false
}

func mac(b []byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
}

type decoder struct {
	p        *Packet
	guePorts []uint16
}

// arp reads replies for IPv4 on Ethernet; requests claim nothing but the sender's
// own address.
func (d decoder) arp(b []byte) bool {
	if len(b) < 28 || b[4] != 6 || b[5] != 4 || binary.BigEndian.Uint16(b[6:]) != 2 {
		return false
	}
	d.p.Claims, d.p.ClaimMAC = netip.AddrFrom4([4]byte(b[14:18])), mac(b[8:])
	return true
}

// ipv4 reads a header (RFC 791) and what follows.
func (d decoder) ipv4(b []byte) bool {
	if len(b) < 20 || b[0]>>4 != 4 || len(d.p.Headers) == mostHeaders {
		return false
	}
	size := int(b[0]&0xf) * 4
	if size < 20 {
		return false
	}
	fragment := binary.BigEndian.Uint16(b[6:])
	d.p.Headers = append(d.p.Headers, Header{
		Source: netip.AddrFrom4([4]byte(b[12:16])), Destination: netip.AddrFrom4([4]byte(b[16:20])),
		TTL: int(b[8]), Length: int(binary.BigEndian.Uint16(b[2:])), Fragment: fragment&0x3fff != 0,
	})
	if fragment&0x1fff == 0 && len(b) >= size {
		d.payload(b[9], b[size:])
	}
	return true
}

// ipv6 reads a header (RFC 8200), its extension headers and what follows.
func (d decoder) ipv6(b []byte) bool {
	if len(b) < 40 || b[0]>>4 != 6 || len(d.p.Headers) == mostHeaders {
		return false
	}
	d.p.Headers = append(d.p.Headers, Header{
		Source: netip.AddrFrom16([16]byte(b[8:24])), Destination: netip.AddrFrom16([16]byte(b[24:40])),
		TTL: int(b[7]), Length: int(binary.BigEndian.Uint16(b[4:])) + 40,
	})
	next, rest := b[6], b[40:]
	for {
		switch next {
		case protoHopOptions, protoRouting, protoDestOptions:
			if len(rest) < 8 || len(rest) < 8+int(rest[1])*8 {
				return true
			}
			next, rest = rest[0], rest[8+int(rest[1])*8:]
		case protoFragment:
			if len(rest) < 8 {
				return true
			}
			offset := binary.BigEndian.Uint16(rest[2:])
			if offset&^6 != 0 { // an atomic fragment (RFC 6946) is no piece of anything
				d.p.Headers[len(d.p.Headers)-1].Fragment = true
			}
			if offset&^7 != 0 {
				return true
			}
			next, rest = rest[0], rest[8:]
		default:
			d.payload(next, rest)
			return true
		}
	}
}

// payload reads what an IP header carries.
func (d decoder) payload(protocol byte, b []byte) {
	switch protocol {
	case protoIPv4, protoIPv6:
		d.carried(IPIP, protocol, b)
	case protoGRE:
		d.gre(b)
	case protoUDP:
		d.udp(b)
	case protoTCP:
		d.tcp(b)
	case protoICMP:
		d.icmp(b)
	case protoICMP6:
		d.icmp6(b)
	}
}

// carried reads the packet in an encapsulation; the header before it is the outer
// one only if there is an IP header inside.
func (d decoder) carried(in string, protocol byte, b []byte) bool {
	outer := len(d.p.Headers) - 1
	ok := false
	switch protocol {
	case protoIPv4:
		ok = d.ipv4(b)
	case protoIPv6:
		ok = d.ipv6(b)
	}
	if ok {
		d.p.Headers[outer].Carries = in
	}
	return ok
}

// gre reads the header of RFC 2784 with the key and sequence number of RFC 2890.
func (d decoder) gre(b []byte) {
	if len(b) < 4 {
		return
	}
	flags, size := b[0], 4
	for _, bit := range []byte{0x80, 0x20, 0x10} { // checksum, key, sequence number
		if flags&bit != 0 {
			size += 4
		}
	}
	if len(b) < size || b[1]&7 != 0 {
		return
	}
	switch binary.BigEndian.Uint16(b[2:]) {
	case etherIPv4:
		d.carried(GRE, protoIPv4, b[size:])
	case etherIPv6:
		d.carried(GRE, protoIPv6, b[size:])
	}
}

func (d decoder) tcp(b []byte) {
	if len(b) < 4 {
		return
	}
	d.p.Transport, d.p.SourcePort, d.p.DestPort = "tcp", binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	const syn, ack = 0x02, 0x10
	if len(b) < 14 || b[13]&syn == 0 {
		return
	}
	number := binary.BigEndian.Uint32(b[4:])
	if b[13]&ack != 0 { // of the answer: it confirms the number before this one
		number = binary.BigEndian.Uint32(b[8:]) - 1
	}
	d.p.Token = string(binary.BigEndian.AppendUint32(nil, number))
}

func (d decoder) udp(b []byte) {
	if len(b) < 8 {
		return
	}
	source, dest := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	if size := int(binary.BigEndian.Uint16(b[4:])); size >= 8 && size < len(b) {
		b = b[:size] // what is behind fills up the frame
	}
	for _, port := range d.guePorts {
		if port == dest && d.gue(b[8:]) {
			return
		}
	}
	d.p.Transport, d.p.SourcePort, d.p.DestPort, d.p.Token = "udp", source, dest, question(b[8:])
}

// question is the id of a DNS message (RFC 1035, 4.1.1) with its first question as it
// stands there, "" when that is not all there.
func question(b []byte) string {
	const header, typeAndClass = 12, 4
	for at := header; at < len(b); at += 1 + int(b[at]) {
		if end := at + 1 + typeAndClass; b[at] == 0 && end <= len(b) {
			return string(b[:2]) + string(b[header:end])
		}
	}
	return ""
}

// gue reads the header of draft-ietf-intarea-gue, 3 and 4: version 0 has a length in
// words and the number of what follows, version 1 is an IP header at once.
func (d decoder) gue(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	if b[0]>>6 == 1 {
		return d.carried(GUE, map[byte]byte{4: protoIPv4, 6: protoIPv6}[b[0]>>4], b)
	}
	size := 4 + int(b[0]&0x1f)*4
	if b[0]>>5 != 0 || len(b) < size { // another version, or a control message
		return false
	}
	return d.carried(GUE, b[1], b[size:])
}

// icmp reads errors, and whether they say that a packet did not fit.
func (d decoder) icmp(b []byte) {
	if len(b) < 8 {
		return
	}
	d.p.Transport = "icmp"
	switch b[0] {
	case 3, 11, 12:
		d.p.TooBig = b[0] == 3 && b[1] == 4
		about := decoder{&Packet{}, d.guePorts}
		if about.ipv4(b[8:]) {
			d.p.About = about.p
		}
	}
}

func (d decoder) icmp6(b []byte) {
	if len(b) < 8 {
		return
	}
	d.p.Transport = "icmp"
	switch {
	case b[0] >= 1 && b[0] <= 4:
		d.p.TooBig = b[0] == 2
		about := decoder{&Packet{}, d.guePorts}
		if about.ipv6(b[8:]) {
			d.p.About = about.p
		}
	case b[0] == 136 && len(b) >= 24:
		d.p.Claims, d.p.ClaimMAC = netip.AddrFrom16([16]byte(b[8:24])), d.p.SourceMAC
	}
}
