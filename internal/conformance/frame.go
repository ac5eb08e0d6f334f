package conformance

import (
	"encoding/binary"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// frame is an Ethernet frame of IPv4 with a TCP or UDP header, checksums right
// (RFC 791, 768, 9293); UDP carries four bytes.
func frame(to, from [6]byte, p *ipvsmodel.Packet) []byte {
	size := 8 + 4
	if p.Protocol == ipvsmodel.TCP {
		size = 20
	}
	b := make([]byte, 14+20+size)
	copy(b, to[:])
	copy(b[6:], from[:])
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip := b[14:34]
	ip[0], ip[8], ip[9] = 0x45, 64, byte(p.Protocol)
	binary.BigEndian.PutUint16(ip[2:], uint16(20+size))
	client, vip := p.Client.Addr().As4(), p.VIP.Addr().As4()
	copy(ip[12:], client[:])
	copy(ip[16:], vip[:])
	binary.BigEndian.PutUint16(ip[10:], checksum(0, ip))
	l4 := b[34:]
	binary.BigEndian.PutUint16(l4, p.Client.Port())
	binary.BigEndian.PutUint16(l4[2:], p.VIP.Port())
	pseudo := sum(uint32(p.Protocol)+uint32(size), ip[12:20])
	if p.Protocol == ipvsmodel.TCP {
		l4[12], l4[13] = 5<<4, tcpFlags(p.Flags)
		l4[14] = 0xff
		binary.BigEndian.PutUint16(l4[16:], checksum(pseudo, l4))
		return b
	}
	binary.BigEndian.PutUint16(l4[4:], uint16(size))
	binary.BigEndian.PutUint16(l4[6:], checksum(pseudo, l4))
	return b
}

func tcpFlags(f ipvsmodel.Flags) (out byte) {
	for flag, bit := range map[ipvsmodel.Flags]byte{ipvsmodel.FIN: 1, ipvsmodel.SYN: 2, ipvsmodel.RST: 4, ipvsmodel.ACK: 16} {
		if f&flag != 0 {
			out |= bit
		}
	}
	return out
}

func sum(start uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		start += uint32(binary.BigEndian.Uint16(b))
	}
	return start
}

func checksum(start uint32, b []byte) uint16 {
	s := sum(start, b)
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}
