package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"github.com/lvslab/lvslab/internal/diag"
)

// How many calls a connection makes at the same time. libvirtd serves five
// requests of one client at a time by default, and replies to keepalive messages
// count among them; a private one is configured to serve more. A fifth machine
// that waits for the first four is the last one to be set up, 0.4 s later.
const (
	inFlight        = 4
	privateInFlight = 8
)

// The deadlines of calls. Measured: a question takes 1 ms, the start of a
// domain 0.4 s when idle; the limits are for machines with much else to do.
const (
	askTimeout  = 15 * time.Second
	makeTimeout = 90 * time.Second
	dialTimeout = 10 * time.Second
)

// ErrNoConnection is wrapped by every error that says nothing about libvirt's
// answer: it could not be asked, or its answer did not come.
var ErrNoConnection = errors.New("no connection to libvirt")

// ErrOutcomeUnknown is wrapped, beside [ErrNoConnection], when a call was sent
// and its answer did not come: whether it had its effect must be looked up.
var ErrOutcomeUnknown = errors.New("the outcome of the call is unknown")

// Conn is a connection to one libvirt. It connects again by itself when the
// connection was lost, and may be used by many goroutines.
type Conn struct {
	place  Place
	socket string
	uri    rpc.ConnectURI
	slots  chan struct{}

	mu     sync.Mutex
	cur    *link
	closed bool
}

// link is one socket. A call that has no answer at its deadline leaves its
// goroutine behind, waiting; such a link gets no new calls and is closed when
// only the stuck ones are left on it.
type link struct {
	lv           *rpc.Libvirt
	sock         net.Conn
	calls, stuck int
}

// Dial connects to a libvirt on this machine: the path of its socket, or a URI
// as [ParseURI] takes it.
func Dial(ctx context.Context, target string) (*Conn, error) {
	return dialWith(ctx, Here{}, target, inFlight)
}

// DialAt is Dial for the libvirt of another place, which the target's machine is.
func DialAt(ctx context.Context, place Place, target string) (*Conn, error) {
	return dialWith(ctx, place, target, inFlight)
}

// DialPrivate is Dial for a libvirtd that has no other clients and serves more
// requests of one client than it would by default.
func DialPrivate(ctx context.Context, target string) (*Conn, error) {
	return dialWith(ctx, Here{}, target, privateInFlight)
}

func dialWith(ctx context.Context, place Place, target string, calls int) (*Conn, error) {
	t, err := ParseURI(target)
	if err != nil {
		return nil, err
	}
	if _, here := place.(Here); here && t.Far != nil {
		return nil, badURI(target, "it names another machine, and the one here was asked for")
	}
	c := &Conn{place: place, socket: t.Socket, uri: rpc.ConnectURI(t.URI), slots: make(chan struct{}, calls)}
	ln, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	c.release(ln)
	return c, nil
}

// Close ends the connection. Calls that are still waiting fail.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.cur == nil {
		return nil
	}
	ln := c.cur
	c.cur = nil
	return ln.sock.Close()
}

// unconnected is a failure of the place that is told as it is.
type unconnected struct{ error }

func (e *unconnected) Is(target error) bool { return target == ErrNoConnection }
func (e *unconnected) Unwrap() error        { return e.error }

// acquire returns a living link and counts one call on it.
func (c *Conn) acquire(ctx context.Context) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("%w: it has been closed", ErrNoConnection)
	}
	if c.cur == nil || !c.cur.lv.IsConnected() {
		ln, err := c.open(ctx)
		if err != nil {
			var known *diag.Failure
			if errors.As(err, &known) {
				return nil, &unconnected{err}
			}
			return nil, explainDial(fmt.Errorf("%w: %w", ErrNoConnection, err), c.socket)
		}
		c.cur = ln
	}
	c.cur.calls++
	return c.cur, nil
}

func (c *Conn) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	sock, err := c.place.Dial(ctx, c.socket)
	if err != nil {
		return nil, err
	}
	lv := rpc.NewWithDialer(dialers.NewAlreadyConnected(sock))
	// The handshake has no deadline of its own either.
	stop := context.AfterFunc(ctx, func() { sock.Close() })
	defer stop()
	err = lv.ConnectToURI(c.uri)
	if err == nil {
		// One call under go-libvirt's own lock orders what ConnectToURI wrote
		// before what its goroutine reads when the socket breaks; without it the
		// race detector finds the two at odds.
		_, err = lv.ConnectGetLibVersion()
	}
	if err != nil {
		sock.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return &link{lv: lv, sock: sock}, nil
}

// release ends one call on a link.
func (c *Conn) release(ln *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln.calls--
	c.closeIdle(ln)
}

// retire keeps new calls off a link; stuck says that the caller leaves a call
// behind on it.
func (c *Conn) retire(ln *link, stuck bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur == ln {
		c.cur = nil
	}
	if stuck {
		ln.stuck++
	}
	c.closeIdle(ln)
}

// closeIdle closes a retired link on which nobody waits for an answer. The
// close makes stuck calls return and so give their slots back.
func (c *Conn) closeIdle(ln *link) {
	if c.cur != ln && ln.calls <= ln.stuck {
		_ = ln.sock.Close() // a second close is harmless
	}
}

// Do makes calls through fn, as many at the same time as libvirtd serves on one
// connection, and returns at the latest when limit or the context has ended.
// An error of libvirt is returned as it is; every other one wraps
// [ErrNoConnection].
func (c *Conn) Do(ctx context.Context, limit time.Duration, fn func(*rpc.Libvirt) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: all of its calls are busy: %w", ErrNoConnection, ctx.Err())
	}
	ln, err := c.acquire(ctx)
	if err != nil {
		<-c.slots
		return err
	}
	done := make(chan error, 1)
	go func() {
		done <- fn(ln.lv)
		c.release(ln)
		<-c.slots
	}()
	select {
	case err := <-done:
		var answer rpc.Error
		if err == nil || errors.As(err, &answer) {
			return err
		}
		c.retire(ln, false)
		return fmt.Errorf("%w: %w: %w", ErrNoConnection, ErrOutcomeUnknown, err)
	case <-ctx.Done():
		c.retire(ln, true)
		return fmt.Errorf("%w: %w: %w", ErrNoConnection, ErrOutcomeUnknown, ctx.Err())
	}
}

// ask is Do for questions: they have no effect, so one that got no answer is
// asked once more on a new connection.
func (c *Conn) ask(ctx context.Context, fn func(*rpc.Libvirt) error) error {
	err := c.Do(ctx, askTimeout, fn)
	if errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil {
		err = c.Do(ctx, askTimeout, fn)
	}
	return err
}

// QEMUVersion returns the version of the hypervisor behind libvirt, as 7.2.0.
func (c *Conn) QEMUVersion(ctx context.Context) (string, error) {
	var v uint64
	err := c.ask(ctx, func(l *rpc.Libvirt) (err error) {
		v, err = l.ConnectGetVersion()
		return err
	})
	if err != nil {
		return "", explain(err, "ask libvirt for the version of QEMU")
	}
	return dotted(v), nil
}

// Version returns libvirt's version, for example "9.0.0".
func (c *Conn) Version(ctx context.Context) (string, error) {
	var v uint64
	err := c.ask(ctx, func(l *rpc.Libvirt) (err error) {
		v, err = l.ConnectGetLibVersion()
		return err
	})
	if err != nil {
		return "", explain(err, "ask libvirt for its version")
	}
	return dotted(v), nil
}

// dotted writes a version as libvirt counts it: major · 1,000,000 + minor · 1,000 +
// release (virConnectGetLibVersion, virConnectGetVersion).
func dotted(v uint64) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1_000%1_000, v%1_000)
}
