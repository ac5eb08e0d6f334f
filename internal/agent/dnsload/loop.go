package dnsload

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// loop waits for sockets and the clock.
type loop struct {
	epoll, timer, event int
	sockets             map[int32]*socket
	watch               *watch
}

func newLoop() (*loop, error) {
	l := &loop{epoll: -1, timer: -1, event: -1, sockets: map[int32]*socket{}}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return l, fmt.Errorf("epoll: %w", err)
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return l, fmt.Errorf("timer: %w", err)
	}
	if l.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return l, fmt.Errorf("event: %w", err)
	}
	for _, fd := range []int{l.timer, l.event} {
		if err := l.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (l *loop) control(op, fd int, events uint32) error {
	if err := unix.EpollCtl(l.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

func (l *loop) add(s *socket, events uint32) error {
	if err := l.control(unix.EPOLL_CTL_ADD, s.fd, events); err != nil {
		return err
	}
	l.sockets[int32(s.fd)] = s
	return nil
}

func (l *loop) change(s *socket, events uint32) { _ = l.control(unix.EPOLL_CTL_MOD, s.fd, events) }

func (l *loop) remove(s *socket) {
	delete(l.sockets, int32(s.fd))
	_ = l.control(unix.EPOLL_CTL_DEL, s.fd, 0)
}

// wake ends a wait from another goroutine.
func (l *loop) wake() { _, _ = unix.Write(l.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// wait hands over the sockets that have something, until a time at the latest;
// the zero time does not wait.
func (l *loop) wait(until time.Time, do func(*socket, uint32)) error {
	timeout := 0
	if !until.IsZero() {
		timeout = -1
		// A timer of zero would be none at all.
		left := unix.NsecToTimespec(max(1, time.Until(until).Nanoseconds()))
		if err := unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Value: left}, nil); err != nil {
			return fmt.Errorf("timer: %w", err)
		}
	}
	var events [64]unix.EpollEvent
	n, err := unix.EpollWait(l.epoll, events[:], timeout)
	if err == unix.EINTR {
		return nil
	}
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, e := range events[:n] {
		switch {
		case int(e.Fd) == l.timer || int(e.Fd) == l.event:
			var b [8]byte
			_, _ = unix.Read(int(e.Fd), b[:])
		case l.watch != nil && int(e.Fd) == l.watch.fd:
			l.watch.drain()
		default:
			if s := l.sockets[e.Fd]; s != nil {
				do(s, e.Events)
			}
		}
	}
	return nil
}

func (l *loop) close() {
	for _, s := range l.sockets {
		_ = unix.Close(s.fd)
	}
	for _, fd := range []int{l.epoll, l.timer, l.event} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// open makes what a load needs before its first query.
func (g *generator) open() error {
	needed := uint64(64 + len(g.spec.Ports) + mostResting)
	if g.spec.Fresh {
		needed = 64 + mostResting + min(uint64(g.spec.Queries), 12_000)
	}
	raiseLimit(needed)
	var err error
	if g.loop, err = newLoop(); err != nil {
		return err
	}
	if !g.spec.Fresh {
		g.sockets = make([]*socket, len(g.spec.Ports))
	}
	if g.spec.Device != "" {
		if g.watch, err = newWatch(g.spec); err != nil {
			return err
		}
		g.loop.watch = g.watch
		return g.loop.control(unix.EPOLL_CTL_ADD, g.watch.fd, unix.EPOLLIN)
	}
	return nil
}

func (g *generator) close() {
	if g.loop != nil {
		g.loop.close()
	}
	g.watch.close()
}

// raiseLimit lets this process open so many files; without the privilege the
// limit stays, and a query that finds it reached has failed.
func raiseLimit(n uint64) {
	var lim unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &lim) == nil && lim.Cur < n {
		_ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: max(lim.Max, n)}, nil)
	}
}

// connectAll opens the connections that are kept for the whole load, one after
// the other: the scheduler decides in the order of the ports, and no listen queue
// overflows. One that fails leaves its queries without a connection.
func (g *generator) connectAll(ctx context.Context) error {
	if !g.tcp() || g.spec.Fresh {
		return nil
	}
	for i, port := range g.spec.Ports {
		s, err := g.dial(port)
		if err != nil {
			g.sockets[i] = &socket{fd: -1, port: port, dead: err}
			continue
		}
		g.sockets[i] = s
		until := time.Now().Add(g.within)
		for !s.connected && s.dead == nil {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case !time.Now().Before(g.end):
				g.stop("the time was up before all connections were made")
				return nil
			case !time.Now().Before(until):
				g.lose(s, unix.ETIMEDOUT)
			default:
				if err := g.loop.wait(until, g.readable); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
