package dnsload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/load"
)

// mostResting is how many sockets of answered or given up queries stay open, so
// that what still comes is counted and not refused.
const mostResting = 1024

// socket is one source port.
type socket struct {
	fd        int
	port      uint16
	connected bool   // TCP: the handshake is done
	dead      error  // TCP: the connection has ended
	buf       []byte // TCP: what is no whole message yet
	queries   []int  // TCP: those that wait on it
}

// dial makes a socket on a port of the client's address. Over TCP the handshake
// has begun when it returns.
func (g *generator) dial(port uint16) (*socket, error) {
	kind := unix.SOCK_DGRAM
	if g.tcp() {
		kind = unix.SOCK_STREAM
	}
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	s := &socket{fd: fd, port: port, connected: !g.tcp()}
	if err := g.prepare(s); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return s, nil
}

func (g *generator) prepare(s *socket) error {
	if g.tcp() {
		// A port that rests in TIME_WAIT after the run before may be bound again.
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	} else if !g.spec.Fresh {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<20) // needs a privilege, and is no condition
	}
	if err := unix.Bind(s.fd, &unix.SockaddrInet4{Port: int(s.port), Addr: g.spec.From.As4()}); err != nil {
		return fmt.Errorf("port %d: %w", s.port, err)
	}
	events := uint32(unix.EPOLLIN)
	if g.tcp() {
		events |= unix.EPOLLOUT
		if err := unix.Connect(s.fd, g.server()); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			return fmt.Errorf("connect from port %d: %w", s.port, err)
		}
	}
	return g.loop.add(s, events)
}

func (g *generator) tcp() bool { return g.spec.Protocol == "tcp" }

func (g *generator) server() unix.Sockaddr {
	return &unix.SockaddrInet4{Port: int(g.spec.Server.Port()), Addr: g.spec.Server.Addr().As4()}
}

// start sends a query, or begins the connection that it will be sent over.
func (g *generator) start(n int) {
	a := &g.asked[n]
	a.Started = time.Now()
	g.inflight++
	s, err := g.socketFor(n)
	switch {
	case err != nil:
		g.fail(n, err)
		return
	case s.dead != nil:
		g.fail(n, s.dead)
		return
	}
	g.socket[n] = s
	s.queries = append(s.queries, n)
	if s.connected {
		g.write(s, n)
	} else {
		g.order = append(g.order, turn{n, a.Started.Add(g.within), true})
	}
}

// socketFor is the socket of a query: one of its own, or the one whose turn it is.
func (g *generator) socketFor(n int) (*socket, error) {
	if g.spec.Fresh {
		return g.dial(g.asked[n].Port)
	}
	i := n % len(g.spec.Ports)
	if g.sockets[i] == nil { // over UDP they are made when they are first used
		s, err := g.dial(g.asked[n].Port)
		if err != nil {
			return nil, err
		}
		g.sockets[i] = s
	}
	return g.sockets[i], nil
}

// write sends a query over a socket that can carry it.
func (g *generator) write(s *socket, n int) {
	a := &g.asked[n]
	k := key{s.port, a.ID}
	if old, busy := g.waiting[k]; busy && g.asked[old].Result == "" {
		g.fail(n, errors.New("its id still waits on this port"))
		return
	}
	packet := withID(g.packets[n], a.ID, g.tcp())
	a.Sent = time.Now()
	var err error
	if g.tcp() {
		var wrote int
		if wrote, err = unix.Write(s.fd, packet); err == nil && wrote < len(packet) {
			err = unix.EAGAIN
		}
	} else {
		err = unix.Sendto(s.fd, packet, 0, g.server())
	}
	if err != nil {
		a.Sent = time.Time{}
		g.fail(n, err)
		return
	}
	g.waiting[k] = n
	g.order = append(g.order, turn{n, a.Sent.Add(g.within), false})
}

// fail decides a query that could not be sent.
func (g *generator) fail(n int, err error) {
	r := load.Failed
	if errors.Is(err, unix.ECONNREFUSED) {
		r = load.Refused
	}
	g.decide(n, r)
}

// used is called when a query is decided. A socket of its own rests, so that what
// still comes is counted; a connection of its own is closed.
func (g *generator) used(n int, r load.Result) {
	s := g.socket[n]
	if s == nil {
		return
	}
	g.socket[n] = nil
	s.queries = slices.DeleteFunc(s.queries, func(q int) bool { return q == n })
	if !g.spec.Fresh {
		return
	}
	if g.tcp() {
		g.drop(s)
		return
	}
	if g.resting = append(g.resting, s); len(g.resting) > mostResting {
		g.drop(g.resting[0])
		g.resting = g.resting[1:]
	}
}

func (g *generator) drop(s *socket) {
	if s.fd >= 0 {
		g.loop.remove(s)
		_ = unix.Close(s.fd)
		s.fd = -1
	}
}

// readable reads all that has come to a socket.
func (g *generator) readable(s *socket, events uint32) {
	if g.tcp() {
		g.stream(s, events)
		return
	}
	var buf [65535]byte
	for s.fd >= 0 {
		n, from, err := unix.Recvfrom(s.fd, buf[:], unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		at := time.Now()
		if in, ok := from.(*unix.SockaddrInet4); !ok || netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)) != g.spec.Server {
			g.strange++ // the capture says from where
			continue
		}
		g.take(s.port, buf[:n], at)
	}
}

// stream carries on with a TCP connection.
func (g *generator) stream(s *socket, events uint32) {
	if !s.connected {
		code, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		if err != nil {
			g.lose(s, err)
			return
		}
		if events&unix.EPOLLOUT == 0 {
			return
		}
		s.connected = true
		g.loop.change(s, unix.EPOLLIN)
		for _, n := range slices.Clone(s.queries) {
			g.write(s, n)
		}
	}
	var buf [65535]byte
	for s.fd >= 0 {
		n, err := unix.Read(s.fd, buf[:])
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			return
		}
		if err != nil || n == 0 {
			g.lose(s, errors.Join(err, errClosed))
			return
		}
		at := time.Now()
		s.buf = append(s.buf, buf[:n]...)
		for len(s.buf) >= 2 {
			size := 2 + int(binary.BigEndian.Uint16(s.buf))
			if len(s.buf) < size {
				break
			}
			body := s.buf[2:size]
			s.buf = s.buf[size:]
			g.take(s.port, body, at)
		}
	}
}

var errClosed = errors.New("the server closed the connection")

// lose ends a connection and the queries that wait on it. It is not made again:
// that would be a decision of the scheduler's that nobody has planned.
func (g *generator) lose(s *socket, err error) {
	s.dead = err
	g.drop(s)
	for _, n := range slices.Clone(s.queries) {
		switch {
		case !g.asked[n].Sent.IsZero():
			g.decide(n, load.Closed)
		default:
			g.fail(n, err)
		}
	}
}
