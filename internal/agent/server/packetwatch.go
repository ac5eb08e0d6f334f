package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// packetWatch is a packet socket on all devices with a reader that goes on by itself.
// What passes the filter comes with the kernel's stamp, see [stampOf].
type packetWatch struct {
	socket *os.File
	stop   func() bool
	done   chan error
}

// openWatch opens the socket. kind is SOCK_RAW for frames, or SOCK_DGRAM for packets
// from their network header on (packet(7)); room is for packets while the reader is not
// scheduled, bytes of the kernel's memory.
func openWatch(name string, kind int, filter []bpf.RawInstruction, room int) (packetWatch, error) {
	fd, err := unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // nothing comes yet
	if err != nil {
		return packetWatch{}, fmt.Errorf("packet socket: %w", err)
	}
	prog := make([]unix.SockFilter, len(filter))
	for i, f := range filter {
		prog[i] = unix.SockFilter{Code: f.Op, Jt: f.Jt, Jf: f.Jf, K: f.K}
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) // less room is told by the drops
	err = errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL)}))
	if err != nil {
		_ = unix.Close(fd)
		return packetWatch{}, fmt.Errorf("watch for %s: %w", name, err)
	}
	return packetWatch{socket: os.NewFile(uintptr(fd), name), done: make(chan error, 1)}, nil
}

// begin starts the reader, which ends at the socket's deadline: at once with life.
func (w *packetWatch) begin(life context.Context, read func() error) {
	w.stop = context.AfterFunc(life, func() { _ = w.socket.SetReadDeadline(time.Now()) })
	go func() { w.done <- read() }()
}

// end returns when the reader has ended, which may take what comes in a while still.
func (w *packetWatch) end(grace time.Duration) error {
	w.stop()
	_ = w.socket.SetReadDeadline(time.Now().Add(grace))
	return <-w.done
}

// close counts the packets that the kernel had no room for. before is called with the
// socket when nobody else reads it any more.
func (w *packetWatch) close(before func(fd int)) (dropped uint64, err error) {
	defer w.socket.Close()
	conn, err := w.socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var stats *unix.TpacketStats
	var failed error
	err = conn.Control(func(fd uintptr) {
		before(int(fd))
		stats, failed = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	return uint64(stats.Drops), nil
}
