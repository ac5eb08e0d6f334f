package client

import (
	"context"
	"errors"
	"io"

	"golang.org/x/crypto/ssh"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// ErrCallsOnly is returned by what needs SSH on the connection that has enrolled
// its guest: that one carries calls and nothing else. Dial again, a user port for
// instance.
var ErrCallsOnly = errors.New("the connection that enrolled the guest carries calls only")

// Conn is one connection to a guest: SSH with the request channel open on it, or
// requests alone on the connection that has enrolled the guest (package proto
// says why). Calls from many goroutines share it.
type Conn struct {
	node     string
	bootID   string
	enrolled *proto.Enrolled
	line     io.Closer   // what ends it
	ssh      *ssh.Client // nil on the one that has enrolled the guest
	rpc      *rpc
}

var _ Caller = (*Conn)(nil)

// Call sends a batch; see [Caller].
func (c *Conn) Call(ctx context.Context, calls []proto.Envelope) ([]proto.Result, error) {
	return c.rpc.call(ctx, calls)
}

// Node returns the address of the machine at the other end.
func (c *Conn) Node() string { return c.node }

// BootID returns the identity of the guest's boot, to which its settings belong.
func (c *Conn) BootID() string { return c.bootID }

// Enrolled returns what the guest answered when this connection enrolled it,
// nil when it had its identity already.
func (c *Conn) Enrolled() *proto.Enrolled { return c.enrolled }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.rpc.done }

// Close ends the connection. Commands that run over it are killed.
func (c *Conn) Close() error { return c.line.Close() }
