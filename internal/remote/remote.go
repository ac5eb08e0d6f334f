// Package remote reaches a machine through SSH as a hypervisor's host: its Unix
// sockets are dialled (direct-streamlocal@openssh.com), its files made, read and
// removed (SFTP), all through one connection. Nothing is run there.
//
// The host must show a key that known_hosts has; there is no way around that. A
// connection that was lost is made again by the next call.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/lvslab/lvslab/internal/diag"
)

// ErrLost is wrapped by every error that means that the SSH connection could not
// be made, or has broken.
var ErrLost = errors.New("no SSH connection")

// Spec says which host, who to be there, and what to trust.
type Spec struct {
	// User is the account there; "" = the name of the one here.
	User string
	// Host is a name or an address, Port a number; 0 = 22.
	Host string
	Port int
	// KeyFile is the only private key that is tried; "" = those of the SSH agent and
	// the usual files in ~/.ssh.
	KeyFile string
	// KnownHosts is the only file of host keys that is trusted; "" = the user's and
	// the machine's.
	KnownHosts string
}

func (s Spec) address() string {
	port := s.Port
	if port == 0 {
		port = 22
	}
	return net.JoinHostPort(s.Host, strconv.Itoa(port))
}

// String names the host for people.
func (s Spec) String() string {
	name := s.Host
	if s.User != "" {
		name = s.User + "@" + name
	}
	if s.Port != 0 && s.Port != 22 {
		name = fmt.Sprintf("%s, port %d", name, s.Port)
	}
	return name
}

// The deadlines of a connection: to make one takes a few round trips and the
// host's processor; one whose other side has not answered a keepalive is dead.
const (
	connectTimeout = 20 * time.Second
	aliveEvery     = 10 * time.Second
	aliveTimeout   = 20 * time.Second
)

// Host is a connection to one host. It connects again by itself and may be used
// by many goroutines.
type Host struct {
	spec Spec

	turn chan struct{} // holds one token: who has it may look at cur and replace it
	cur  *link

	mu     sync.Mutex
	closed bool
	lost   error // why the last connection broke
	when   time.Time
}

// link is one connection.
type link struct {
	client *ssh.Client
	files  *files
	done   chan struct{} // closed when it has broken
}

// Open connects to a host.
func Open(ctx context.Context, spec Spec) (*Host, error) {
	h := &Host{spec: spec, turn: make(chan struct{}, 1)}
	h.turn <- struct{}{}
	_, err := h.link(ctx)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// String names the host for people.
func (h *Host) String() string { return h.spec.String() }

// Close ends the connection and all that goes through it.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	<-h.turn
	defer func() { h.turn <- struct{}{} }()
	if h.cur == nil {
		return nil
	}
	err := h.cur.client.Close()
	h.cur = nil
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Lost returns why the connection has broken after that time, nil when it has not.
func (h *Host) Lost(since time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == nil || h.when.Before(since) {
		return nil
	}
	return diag.Fail(fmt.Errorf("%w: %w", ErrLost, h.lost), "The SSH connection to "+h.String()+" was lost",
		"Look whether the host can be reached, then repeat the command; 'lvslab destroy' removes what was made there.", "")
}

// link returns the living connection, or makes one.
func (h *Host) link(ctx context.Context) (*link, error) {
	select {
	case <-h.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrLost, ctx.Err())
	}
	defer func() { h.turn <- struct{}{} }()
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("%w: it has been closed", ErrLost)
	}
	if h.cur != nil {
		select {
		case <-h.cur.done:
			h.cur = nil
		default:
			return h.cur, nil
		}
	}
	client, err := connect(ctx, h.spec)
	if err != nil {
		return nil, err
	}
	ln := &link{client: client, files: newFiles(client), done: make(chan struct{})}
	h.cur = ln
	go h.attend(ln)
	return ln, nil
}

// attend keeps a connection alive, and notes why it has broken.
func (h *Host) attend(ln *link) {
	ended := make(chan error, 1)
	go func() { ended <- ln.client.Wait() }()
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	var why error
	for {
		select {
		case err := <-ended:
			h.mu.Lock()
			if !h.closed {
				h.lost, h.when = first(why, err), time.Now()
			}
			h.mu.Unlock()
			close(ln.done)
			return
		case <-tick.C:
			if why == nil && !answers(ln.client) {
				why = fmt.Errorf("the host has not answered for %s", aliveTimeout)
				ln.client.Close()
			}
		}
	}
}

// first is the first that says something; a connection that the other side has
// closed ends without an error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return errors.New("the host has closed it")
}

// answers asks for a sign of life. OpenSSH refuses the request, which is one.
func answers(c *ssh.Client) bool {
	answered := make(chan bool, 1)
	go func() {
		_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err == nil
	}()
	select {
	case ok := <-answered:
		return ok
	case <-time.After(aliveTimeout):
		return false
	}
}

// Dial connects to a Unix socket on the host. An error wraps fs.ErrNotExist when
// there is none of that path; other causes sshd does not tell.
func (h *Host) Dial(ctx context.Context, path string) (net.Conn, error) {
	ln, err := h.link(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := ln.client.DialContext(ctx, "unix", path)
	var refused *ssh.OpenChannelError
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s on %s: %w", path, h, ctx.Err())
	case !errors.As(err, &refused):
		return nil, fmt.Errorf("%w to %s: %w", ErrLost, h, err)
	case refused.Reason == ssh.Prohibited:
		return nil, diag.Fail(err, "The host forbids connections to its sockets",
			"Set AllowStreamLocalForwarding yes in its sshd_config, and let no forwarding be forbidden for this key in authorized_keys.",
			"sshd on %s did not pass a connection on to %s", h, path)
	}
	// sshd does not tell why: a look does.
	if _, serr := h.Stat(ctx, path); errors.Is(serr, fs.ErrNotExist) {
		return nil, serr
	}
	return nil, fmt.Errorf("%s on %s: nobody listens at it, or the user may not open it: %w", path, h, err)
}
