package load

import (
	"encoding/binary"
	"net/netip"
)

// maxGap bounds what is kept of a stream while a segment is missing.
const maxGap = 1 << 20

// streams puts the DNS messages of TCP connections together, each direction by
// itself. Segments that come twice are used once.
type streams map[streamKey]*stream

type streamKey struct{ src, dst netip.AddrPort }

type stream struct {
	isn, next uint32
	begun     bool
	buf       []byte            // in order, not yet a whole message
	early     map[uint32][]byte // segments beyond a gap, by sequence number
	earlySize int
}

// add takes a segment and returns the messages that it completes.
func (ss streams) add(f *frame) [][]byte {
	k := streamKey{f.src, f.dst}
	s := ss[k]
	if s == nil {
		s = &stream{}
		ss[k] = s
	}
	if f.syn {
		if !s.begun || s.isn != f.seq { // a new connection on the same ports
			*s = stream{isn: f.seq, next: f.seq + 1, begun: true}
		}
		return nil
	}
	if len(f.payload) == 0 {
		return nil
	}
	if !s.begun { // the capture began in the middle
		s.begun, s.isn, s.next = true, f.seq-1, f.seq
	}
	s.take(f.seq, f.payload)
	for len(s.early) > 0 && s.pull() {
	}
	return s.messages()
}

// take appends what of a segment is next in order and keeps what is too early.
func (s *stream) take(seq uint32, b []byte) {
	ahead := int32(seq - s.next) // wraps as sequence numbers do
	switch {
	case ahead > 0:
		if s.earlySize+len(b) <= maxGap && s.early[seq] == nil {
			if s.early == nil {
				s.early = map[uint32][]byte{}
			}
			s.early[seq] = append([]byte(nil), b...)
			s.earlySize += len(b)
		}
	case int(-ahead) < len(b):
		fresh := b[-ahead:]
		s.buf = append(s.buf, fresh...)
		s.next += uint32(len(fresh))
	}
}

// pull moves one early segment whose turn has come; false when there is none.
func (s *stream) pull() bool {
	for seq, b := range s.early {
		if int32(seq-s.next) <= 0 {
			delete(s.early, seq)
			s.earlySize -= len(b)
			s.take(seq, b)
			return true
		}
	}
	return false
}

// messages cuts off whole messages (RFC 1035 4.2.2: two bytes of length first).
func (s *stream) messages() [][]byte {
	var out [][]byte
	for len(s.buf) >= 2 {
		n := 2 + int(binary.BigEndian.Uint16(s.buf))
		if len(s.buf) < n {
			break
		}
		out = append(out, s.buf[2:n:n])
		s.buf = s.buf[n:]
	}
	return out
}
