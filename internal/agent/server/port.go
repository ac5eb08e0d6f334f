package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// Port is a byte stream that a host comes to, leaves, and comes back to.
type Port interface {
	// Name is the port's name, for example proto.EnginePort.
	Name() string
	// Accept waits for a host and returns the stream of this visit. Reading it
	// gives io.EOF when the host leaves; closing it ends pending reads and
	// writes and leaves the port itself open.
	Accept(ctx context.Context) (io.ReadWriteCloser, error)
}

// ServePort serves one host after the other until ctx ends. A visit that goes
// wrong is the host's loss alone: the next one starts afresh.
func (s *Server) ServePort(ctx context.Context, p Port) error {
	for {
		stream, err := p.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("port %s: %w", p.Name(), err)
		}
		// How a visit ends is no news: a host that comes back at once is seen as
		// garbage in the last visit's stream. A stranger is.
		var stranger *ssh.ServerAuthError
		if err := s.visit(ctx, p.Name(), stream); errors.As(err, &stranger) {
			s.log(fmt.Sprintf("%s: a client with another lab's key was refused", p.Name()))
		}
	}
}

// visit serves one connection: first contact, then requests when it has enrolled
// the guest, else SSH.
func (s *Server) visit(ctx context.Context, port string, stream io.ReadWriteCloser) error {
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	c := &streamConn{ReadWriteCloser: stream, r: bufio.NewReaderSize(stream, 32<<10), port: port}
	g, err := s.greet(port, c.r, stream)
	switch {
	case err != nil:
		return err
	case g.enrolled:
		return s.serveRPC(ctx, c)
	}
	return s.serveSSH(ctx, g.id, c)
}

// streamConn makes a net.Conn of a port's stream, which x/crypto/ssh wants. It
// reads through the buffer that the first contact has read from.
type streamConn struct {
	io.ReadWriteCloser
	r    *bufio.Reader
	port string
}

func (c *streamConn) Read(b []byte) (int, error)       { return c.r.Read(b) }
func (c *streamConn) LocalAddr() net.Addr              { return portAddr(c.port) }
func (c *streamConn) RemoteAddr() net.Addr             { return portAddr("host") }
func (c *streamConn) SetDeadline(time.Time) error      { return nil }
func (c *streamConn) SetReadDeadline(time.Time) error  { return nil }
func (c *streamConn) SetWriteDeadline(time.Time) error { return nil }

type portAddr string

func (portAddr) Network() string  { return "virtio-serial" }
func (a portAddr) String() string { return string(a) }
