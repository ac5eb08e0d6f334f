package server

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerSightings(s *Server) {
	w := &sightings{life: s.Life(), running: map[string]*sightingWatch{}}
	Handle(s, proto.SightingsStart, w.start)
	Handle(s, proto.SightingsStop, w.stop)
}

// sightings are the watches that are going on, by id.
type sightings struct {
	life    context.Context
	mu      sync.Mutex
	running map[string]*sightingWatch
}

func (s *sightings) start(_ context.Context, spec proto.SightingsSpec) (proto.None, error) {
	w, err := watchSightings(s.life, spec)
	if err != nil {
		return proto.None{}, err
	}
	s.mu.Lock()
	earlier := s.running[spec.ID]
	s.running[spec.ID] = w
	s.mu.Unlock()
	if earlier != nil { // of a proof that was killed: nobody will come for it
		_, _ = earlier.finish()
	}
	return proto.None{}, nil
}

func (s *sightings) stop(_ context.Context, ref proto.SightingsRef) (proto.SightingsResult, error) {
	s.mu.Lock()
	w := s.running[ref.ID]
	delete(s.running, ref.ID)
	s.mu.Unlock()
	if w == nil {
		return proto.SightingsResult{}, fail(proto.CodeNotFound, ref.ID, "no watch of this name is going on")
	}
	return w.finish()
}

// sightingRoom holds some thousand frames while the reader is not scheduled; a
// frame counts with the memory that the kernel has given it.
const sightingRoom = 4 << 20

// sightingWatch keeps frames of all Ethernet cards.
type sightingWatch struct {
	packetWatch
	wanted [][]byte
	most   int
	// devices are the names by index.
	devices map[int]string

	found proto.SightingsResult // written by the reader, read when it has ended
}

func watchSightings(life context.Context, spec proto.SightingsSpec) (*sightingWatch, error) {
	filter, err := bpf.Assemble(sightingFilter())
	if err != nil {
		return nil, err
	}
	cards, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	socket, err := openWatch("sightings", unix.SOCK_RAW, filter, sightingRoom)
	if err != nil {
		return nil, err
	}
	w := &sightingWatch{packetWatch: socket, most: spec.Most, devices: map[int]string{}}
	for _, c := range cards {
		w.devices[c.Index] = c.Name
	}
	for _, a := range spec.Addresses {
		w.wanted = append(w.wanted, a.AsSlice())
	}
	w.begin(life, w.read)
	return w, nil
}

// sightingFilter keeps Ethernet frames of ARP; of IPv4 what carries IP, GRE, UDP, TCP
// and ICMP but echoes; of IPv6 the same with the headers that may come before them.
func sightingFilter() []bpf.Instruction {
	at := func(off, size uint32) []bpf.Instruction {
		return []bpf.Instruction{bpf.LoadAbsolute{Off: off, Size: int(size)}}
	}
	behind := []bpf.Instruction{bpf.LoadMemShift{Off: 14}, bpf.LoadIndirect{Off: 14, Size: 1}}
	const v4, v4icmp, v6, v6icmp, last4, last6 = 3, 8, 10, 16, 18, 19
	tests := []test{
		{load: at(12, 2), cond: bpf.JumpEqual, val: unix.ETH_P_IPV6, yes: v6, no: next},         // 0
		{cond: bpf.JumpEqual, val: unix.ETH_P_ARP, yes: keep, no: next},                         // 1
		{cond: bpf.JumpEqual, val: unix.ETH_P_IP, yes: v4, no: drop},                            // 2
		{load: at(23, 1), cond: bpf.JumpEqual, val: unix.IPPROTO_ICMP, yes: v4icmp, no: next},   // 3
		{cond: bpf.JumpEqual, val: unix.IPPROTO_UDP, yes: keep, no: next},                       // 4
		{cond: bpf.JumpEqual, val: unix.IPPROTO_TCP, yes: keep, no: next},                       // 5
		{cond: bpf.JumpEqual, val: unix.IPPROTO_GRE, yes: keep, no: next},                       // 6
		{cond: bpf.JumpEqual, val: unix.IPPROTO_IPIP, yes: keep, no: last4},                     // 7
		{load: behind, cond: bpf.JumpEqual, val: 3, yes: keep, no: next},                        // 8: unreachable
		{cond: bpf.JumpEqual, val: 11, yes: keep, no: drop},                                     // 9: time exceeded
		{load: at(20, 1), cond: bpf.JumpEqual, val: unix.IPPROTO_ICMPV6, yes: v6icmp, no: next}, // 10
		{cond: bpf.JumpEqual, val: unix.IPPROTO_UDP, yes: keep, no: next},                       // 11
		{cond: bpf.JumpEqual, val: unix.IPPROTO_TCP, yes: keep, no: next},                       // 12
		{cond: bpf.JumpEqual, val: unix.IPPROTO_GRE, yes: keep, no: next},                       // 13
		{cond: bpf.JumpEqual, val: unix.IPPROTO_IPIP, yes: keep, no: next},                      // 14
		{cond: bpf.JumpEqual, val: unix.IPPROTO_FRAGMENT, yes: keep, no: last6},                 // 15
		{load: at(54, 1), cond: bpf.JumpEqual, val: 136, yes: keep, no: next},                   // 16: a neighbour's advertisement
		{cond: bpf.JumpLessThan, val: 128, yes: keep, no: drop},                                 // 17: errors are below 128
		{cond: bpf.JumpEqual, val: unix.IPPROTO_IPV6, yes: keep, no: drop},                      // 18
		{cond: bpf.JumpEqual, val: unix.IPPROTO_IPV6, yes: keep, no: next},                      // 19
		{cond: bpf.JumpEqual, val: unix.IPPROTO_DSTOPTS, yes: keep, no: drop},                   // 20
	}
	return assemble(tests, proto.SightingSnap)
}

// read ends at the socket's deadline.
func (w *sightingWatch) read() error {
	conn, err := w.socket.SyscallConn()
	if err != nil {
		return err
	}
	err = conn.Read(func(fd uintptr) bool {
		w.drain(int(fd))
		return false
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// drain takes what the kernel holds. Frames for others, which a bridge may flood, are
// no part of a way; nor is what goes through the loopback or comes out of a tunnel's
// device, which have no Ethernet header.
func (w *sightingWatch) drain(fd int) {
	frame, control := make([]byte, proto.SightingSnap), make([]byte, 128)
	for {
		n, oob, _, from, err := unix.Recvmsg(fd, frame, control, unix.MSG_TRUNC)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN) { // a card has gone down; the others go on
			continue
		}
		if err != nil {
			return
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || ll.Hatype != unix.ARPHRD_ETHER || ll.Pkttype == unix.PACKET_OTHERHOST {
			continue
		}
		w.keep(frame[:min(n, len(frame))], n, ll, control[:oob])
	}
}

// keep notes a frame that has one of the addresses in it.
func (w *sightingWatch) keep(frame []byte, length int, ll *unix.SockaddrLinklayer, control []byte) {
	if !w.about(frame) {
		return
	}
	stamp, err := stampOf(control)
	if err != nil || len(w.found.Frames) >= w.most {
		w.found.Dropped++
		return
	}
	w.found.Frames = append(w.found.Frames, proto.Sighting{Device: w.devices[ll.Ifindex], Out: ll.Pkttype == unix.PACKET_OUTGOING,
		Time: stamp.UTC(), Length: length, Frame: bytes.Clone(frame)})
}

func (w *sightingWatch) about(frame []byte) bool {
	for _, a := range w.wanted {
		if bytes.Contains(frame, a) {
			return true
		}
	}
	return false
}

// finish ends the watch and returns what it has seen. What the kernel holds is read
// before: the last frame of a query was there before its answer was.
func (w *sightingWatch) finish() (proto.SightingsResult, error) {
	err := w.end(0)
	dropped, failed := w.close(w.drain)
	if err := errors.Join(err, failed); err != nil {
		return proto.SightingsResult{}, err
	}
	w.found.Dropped += dropped
	return w.found, nil
}
