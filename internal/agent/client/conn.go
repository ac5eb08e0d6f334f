package client

import (
	"context"

	"golang.org/x/crypto/ssh"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Conn is one SSH connection to a guest with the request channel open on it.
// Calls from many goroutines share it.
type Conn struct {
	node     string
	bootID   string
	enrolled *proto.Enrolled
	ssh      *ssh.Client
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
func (c *Conn) Close() error { return c.ssh.Close() }
