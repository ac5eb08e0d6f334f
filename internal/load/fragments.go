package load

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// fragmentsWait is how long pieces wait for the others: Linux gives them 30 s
// (ipfrag_time, Documentation/networking/ip-sysctl.rst), and ids come again.
const fragmentsWait = 30 * time.Second

// datagramKey is what the fragments of one datagram share (RFC 791, 3.2).
type datagramKey struct {
	src, dst netip.Addr
	id       uint16
}

// pieces are the fragments of one datagram, so far.
type pieces struct {
	first     time.Time
	data      map[int][]byte // by offset, in bytes
	total     int            // of the payload, -1 until the last one has come
	count     int
	ipBytes   int
	wireBytes int
}

// fragments puts UDP over IPv4 together again, as the receiver does. Fragments of
// IPv6 are not in captures: no port is in them, nor in what the filter looks at.
type fragments struct {
	open map[datagramKey]*pieces
	lost []datagramKey // those that never became whole
}

// add takes the fragment that has just been decoded and returns the whole datagram
// with its last piece, with that one's time and MAC; nil until then.
func (s *fragments) add(ip *layers.IPv4, fr *frame) *frame {
	if ip.Protocol != layers.IPProtocolUDP {
		return nil
	}
	k := datagramKey{address(ip.SrcIP), address(ip.DstIP), ip.Id}
	p := s.open[k]
	if p != nil && fr.time.Sub(p.first) > fragmentsWait {
		s.lost = append(s.lost, k)
		p = nil
	}
	if p == nil {
		p = &pieces{first: fr.time, data: map[int][]byte{}, total: -1}
		if s.open == nil {
			s.open = map[datagramKey]*pieces{}
		}
		s.open[k] = p
	}
	at := int(ip.FragOffset) * 8
	if _, twice := p.data[at]; !twice {
		p.data[at] = append([]byte(nil), ip.Payload...)
	}
	p.count++
	p.ipBytes += int(ip.Length)
	p.wireBytes += fr.wireBytes
	if ip.Flags&layers.IPv4MoreFragments == 0 {
		p.total = at + len(ip.Payload)
	}
	whole := p.whole()
	if whole == nil {
		return nil
	}
	delete(s.open, k)
	var udp layers.UDP
	if err := udp.DecodeFromBytes(whole, gopacket.NilDecodeFeedback); err != nil || int(binary.BigEndian.Uint16(whole[4:])) > len(whole) {
		return nil
	}
	fr.src, fr.dst = netip.AddrPortFrom(k.src, uint16(udp.SrcPort)), netip.AddrPortFrom(k.dst, uint16(udp.DstPort))
	fr.payload, fr.fragments, fr.ipBytes, fr.wireBytes = udp.Payload, p.count, p.ipBytes, p.wireBytes
	return fr
}

// whole is the payload when nothing is missing, nil else.
func (p *pieces) whole() []byte {
	if p.total < 0 {
		return nil
	}
	out := make([]byte, 0, p.total)
	for len(out) < p.total {
		piece, ok := p.data[len(out)]
		if !ok || len(piece) == 0 {
			return nil
		}
		out = append(out, piece...)
	}
	if len(out) != p.total {
		return nil
	}
	return out
}

// missing lists the datagrams of which pieces never came.
func (s *fragments) missing() []datagramKey {
	out := s.lost
	for k := range s.open {
		out = append(out, k)
	}
	return out
}
