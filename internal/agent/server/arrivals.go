package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerStart(s *Server) {
	a := &arrivals{life: s.Life(), running: map[string]*arrivalWatch{}}
	Handle(s, proto.ClockRead, func(context.Context, proto.None) (proto.ClockNow, error) {
		return proto.ClockNow{UnixNS: time.Now().UnixNano()}, nil
	})
	Handle(s, proto.ArrivalsStart, a.start)
	Handle(s, proto.ArrivalsStop, a.stop)
}

// mostAhead bounds how long a load waits for its start: no run needs more, and a clock
// that was compared wrongly must not hold a client for ever.
const mostAhead = time.Minute

// awaitStart returns at a time of the guest's clock, at once when it is 0 or past.
func awaitStart(ctx context.Context, unixNS int64) error {
	if unixNS == 0 {
		return nil
	}
	wait := time.Until(time.Unix(0, unixNS))
	if wait > mostAhead {
		return fail(proto.CodeInvalid, time.Unix(0, unixNS).UTC().Format(time.RFC3339Nano), "the load is to begin in %s, at most %s are waited for", wait, mostAhead)
	}
	t := time.NewTimer(wait) // by the monotonic clock from here on
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arrivals are the watches that are going on, by id.
type arrivals struct {
	life    context.Context
	mu      sync.Mutex
	running map[string]*arrivalWatch
}

func (a *arrivals) start(_ context.Context, spec proto.ArrivalsSpec) (proto.None, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[spec.ID] != nil {
		return proto.None{}, fail(proto.CodeInvalid, spec.ID, "a watch of this name is going on")
	}
	w, err := watchArrivals(a.life, spec)
	if err != nil {
		return proto.None{}, err
	}
	a.running[spec.ID] = w
	return proto.None{}, nil
}

func (a *arrivals) stop(_ context.Context, ref proto.ArrivalsRef) (proto.ArrivalsResult, error) {
	a.mu.Lock()
	w := a.running[ref.ID]
	delete(a.running, ref.ID)
	a.mu.Unlock()
	if w == nil {
		return proto.ArrivalsResult{}, fail(proto.CodeNotFound, ref.ID, "no watch of this name is going on")
	}
	return w.finish()
}

// arrivalWatch reads packet headers until each source was seen.
type arrivalWatch struct {
	packetWatch

	// Written by the reader, read when it has ended.
	left  map[netip.Addr]bool
	found proto.ArrivalsResult
}

const (
	// arrivalHeaders is the part of a packet that is read: its IP header without
	// options that could matter.
	arrivalHeaders = 64
	// arrivalRoom holds some 10,000 headers while the reader is not scheduled.
	arrivalRoom = 8 << 20
)

// watchArrivals reads packets from their IP header on, whatever the device is.
func watchArrivals(life context.Context, spec proto.ArrivalsSpec) (*arrivalWatch, error) {
	filter, err := arrivalFilter(spec.Protocol, spec.Port)
	if err != nil {
		return nil, fail(proto.CodeInvalid, spec.ID, "%v", err)
	}
	socket, err := openWatch("first packets", unix.SOCK_DGRAM, filter, arrivalRoom)
	if err != nil {
		return nil, err
	}
	w := &arrivalWatch{packetWatch: socket, left: map[netip.Addr]bool{}}
	for _, a := range spec.Sources {
		w.left[a] = true
	}
	w.begin(life, w.read)
	return w, nil
}

// arrivalFilter keeps packets to the port that this machine did not send itself: a
// director sends on what it has received. Offsets are those of the IP header; what
// comes with IPv6 extension headers is passed over, as lab clients send none.
func arrivalFilter(protocol string, port uint16) ([]bpf.RawInstruction, error) {
	number, ok := map[string]uint32{"udp": unix.IPPROTO_UDP, "tcp": unix.IPPROTO_TCP}[protocol]
	if !ok {
		return nil, fmt.Errorf("protocol %q", protocol)
	}
	at := func(off, size uint32) []bpf.Instruction {
		return []bpf.Instruction{bpf.LoadAbsolute{Off: off, Size: int(size)}}
	}
	outgoing := []bpf.Instruction{bpf.LoadExtension{Num: bpf.ExtType}}
	version := []bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4}}
	behind := []bpf.Instruction{bpf.LoadMemShift{Off: 0}, bpf.LoadIndirect{Off: 2, Size: 2}}
	const v6 = 5
	tests := []test{
		{load: outgoing, cond: bpf.JumpEqual, val: unix.PACKET_OUTGOING, yes: drop, no: next}, // 0
		{load: version, cond: bpf.JumpEqual, val: 6, yes: v6, no: next},                       // 1
		{load: at(9, 1), cond: bpf.JumpEqual, val: number, yes: next, no: drop},               // 2
		{load: at(6, 2), cond: bpf.JumpBitsSet, val: 0x1fff, yes: drop, no: next},             // 3: a later fragment
		{load: behind, cond: bpf.JumpEqual, val: uint32(port), yes: keep, no: drop},           // 4
		{load: at(6, 1), cond: bpf.JumpEqual, val: number, yes: next, no: drop},               // 5
		{load: at(42, 2), cond: bpf.JumpEqual, val: uint32(port), yes: keep, no: drop},        // 6
	}
	return bpf.Assemble(assemble(tests, arrivalHeaders))
}

// read ends when all sources were seen, or at the socket's deadline.
func (w *arrivalWatch) read() error {
	conn, err := w.socket.SyscallConn()
	if err != nil {
		return err
	}
	packet, control := make([]byte, arrivalHeaders), make([]byte, 128)
	for len(w.left) > 0 {
		var n, oob int
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			n, oob, _, _, failed = unix.Recvmsg(int(fd), packet, control, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(failed, unix.ENETDOWN): // a device has gone down; others may be watched still
			continue
		case err != nil || failed != nil:
			return errors.Join(err, failed)
		}
		source, ok := sourceOf(packet[:n])
		if !ok || !w.left[source] {
			continue
		}
		stamp, err := stampOf(control[:oob])
		if err != nil {
			return err
		}
		delete(w.left, source)
		w.found.First = append(w.found.First, proto.Arrival{Source: source, Time: stamp})
	}
	return nil
}

// sourceOf is the source address of an IP packet.
func sourceOf(p []byte) (netip.Addr, bool) {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(p[12:16])), true
	case len(p) >= 40 && p[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(p[8:24])), true
	}
	return netip.Addr{}, false
}

// stampOf finds the time stamp of SO_TIMESTAMPNS, a struct timespec of two longs.
func stampOf(control []byte) (time.Time, error) {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}, fmt.Errorf("time stamp: %w", err)
	}
	for _, m := range list {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SO_TIMESTAMPNS {
			continue
		}
		switch len(m.Data) {
		case 16:
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:]))), nil
		case 8:
			return time.Unix(int64(int32(binary.NativeEndian.Uint32(m.Data))), int64(binary.NativeEndian.Uint32(m.Data[4:]))), nil
		}
	}
	return time.Time{}, errors.New("a packet came without a time stamp")
}

// finish ends the watch and returns what it has seen. Packets that wait in the socket
// are read before: the deadline comes after them.
func (w *arrivalWatch) finish() (proto.ArrivalsResult, error) {
	err := w.end(arrivalGrace)
	dropped, failed := w.close(func(int) {})
	if err := errors.Join(err, failed); err != nil {
		return proto.ArrivalsResult{}, err
	}
	w.found.Dropped = dropped
	return w.found, nil
}

// arrivalGrace lets the reader take what the kernel holds already.
const arrivalGrace = 20 * time.Millisecond
