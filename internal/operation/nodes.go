package operation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// firstContact bounds the time from a VM's creation to its enrolment. Five
// emulated boots on two cores take 12 s; a slow machine with much else to do
// took 40 s.
const firstContact = 3 * time.Minute

// silentBoot is how long a console may stay silent during a boot. The longest
// silence of a good boot, five at once on two emulated cores, is under 10 s.
const silentBoot = 45 * time.Second

// nodes keeps the engine's one connection to each machine for as long as the
// operation lasts. The first call for a machine makes the contact and enrols
// it; later ones share the connection, and a lost one is made again.
type nodes struct {
	keys *keyring
	open func(node string) func(context.Context) (net.Conn, error)
	name func(node string) string // hostname
	// console is the path of the machine's console log.
	console func(node string) string
	// remake makes a machine whose boot has hung anew; nil when there is none to remake.
	remake func(ctx context.Context, node string) error

	mu       sync.Mutex
	slots    map[string]*slot
	enrolled func(node string, e *proto.Enrolled) // told once per machine that was enrolled
}

// slot serialises the first contact of one machine.
type slot struct {
	mu   sync.Mutex
	conn *client.Conn
}

// caller returns the connection to a machine and the id of its boot.
func (n *nodes) caller(ctx context.Context, node string) (client.Caller, string, error) {
	n.mu.Lock()
	if n.slots == nil {
		n.slots = map[string]*slot{}
	}
	s, ok := n.slots[node]
	if !ok {
		s = &slot{}
		n.slots[node] = s
	}
	n.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		select {
		case <-s.conn.Done():
			s.conn.Close()
			s.conn = nil
		default:
			return s.conn, s.conn.BootID(), nil
		}
	}
	conn, err := n.contact(ctx, node)
	if err != nil {
		return nil, "", err
	}
	s.conn = conn
	return conn, conn.BootID(), nil
}

// contact dials a machine. A boot that hung is tried once more: under
// emulation one in some hundred stops before its first line.
func (n *nodes) contact(ctx context.Context, node string) (*client.Conn, error) {
	conn, err := n.dial(ctx, node)
	var boot *client.BootError
	if !errors.As(err, &boot) || n.remake == nil || ctx.Err() != nil {
		return conn, err
	}
	if rerr := n.remake(ctx, node); rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	return n.dial(ctx, node)
}

func (n *nodes) dial(ctx context.Context, node string) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	host, err := n.keys.host(node)
	if err != nil {
		return nil, err
	}
	conn, err := client.WaitReady(ctx, client.DialSpec{
		Node: node, Open: n.open(node), ClientKey: n.keys.client.Private, HostKey: host.Public,
		Enrol: &proto.Enrol{Node: node, Hostname: n.name(node), HostKey: host.Private},
	}, client.Console{Path: n.console(node), Quiet: silentBoot})
	if err != nil {
		return nil, err
	}
	if e := conn.Enrolled(); e != nil && n.enrolled != nil {
		n.enrolled(node, e)
	}
	return conn, nil
}

// drop closes the connection to a machine that is about to go.
func (n *nodes) drop(node string) {
	n.mu.Lock()
	s := n.slots[node]
	delete(n.slots, node)
	n.mu.Unlock()
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conn != nil {
			s.conn.Close()
			s.conn = nil
		}
	}
}

// close ends all connections.
func (n *nodes) close() {
	n.mu.Lock()
	names := make([]string, 0, len(n.slots))
	for node := range n.slots {
		names = append(names, node)
	}
	n.mu.Unlock()
	for _, node := range names {
		n.drop(node)
	}
}

// node returns a caller that makes its connection when it is first used, for
// rooms that are given a lab that is up.
func (n *nodes) node(m addr.Noun) client.Caller { return lazyCaller{n, m.String()} }

type lazyCaller struct {
	nodes *nodes
	node  string
}

// Call implements client.Caller.
func (l lazyCaller) Call(ctx context.Context, calls []proto.Envelope) ([]proto.Result, error) {
	c, _, err := l.nodes.caller(ctx, l.node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.node, err)
	}
	return c.Call(ctx, calls)
}
