package operation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider"
)

// firstContact bounds the time from a VM's creation to its enrolment. Five
// emulated boots on two cores take 12 s; a slow machine with much else to do
// took 40 s.
const firstContact = 3 * time.Minute

// silentBoot is how long a console may stay silent during a boot. The longest
// silence of a good boot, five at once on two emulated cores, is under 10 s.
const silentBoot = 45 * time.Second

// silentClone is the same for a clone, which has nothing to say: it answers
// 0.1 to 0.5 s after it was restored.
const silentClone = 10 * time.Second

// nodes keeps the engine's one connection to each machine for as long as the
// operation lasts. The first call for a machine makes the contact and enrols
// it; later ones share the connection, and a lost one is made again.
type nodes struct {
	keys *keyring
	open func(node string) func(context.Context) (net.Conn, error)
	name func(node string) string // hostname
	// identity is the name of its key.
	identity func(node string) string
	// mac is the hardware address of its first card; nil where nobody is enrolled.
	mac func(node string) string
	// console is the path of the machine's console log.
	console func(node string) string
	// isClone says whether a machine was restored and not booted; nil = none was.
	isClone func(node string) bool
	// disk is a disk of the user's that the machine boots from, nil when it has none;
	// nil when no machine has.
	disk func(node string) *images.Disk
	// remake makes a machine whose boot has hung anew; nil when there is none to remake.
	remake func(ctx context.Context, node string, why error) error
	// fate says what has become of a machine that cannot be reached, nil when it
	// seems to run; nil when nobody can tell.
	fate func(ctx context.Context, node string) error
	// severed says why all connections have broken since a time, nil when they have
	// not; nil when each is its own.
	severed func(since time.Time) error
	// quiet is how long a console may stay silent before the first contact; 0 =
	// silentBoot or silentClone.
	quiet time.Duration
	// visits says that somebody else works on the lab, who alone enrols machines.
	visits bool

	mu       sync.Mutex
	slots    map[string]*slot
	seeds    map[string]string                    // node → hex
	enrolled func(node string, e *proto.Enrolled) // told once per machine that was enrolled
}

// slot serialises the first contact of one machine.
type slot struct {
	mu   sync.Mutex
	conn *client.Conn
	made time.Time // the connection
	// crash is why the guest went down under the connection, nil while it is up.
	crash atomic.Pointer[error]
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
	if crash := s.crash.Load(); crash != nil {
		return nil, "", *crash // what this operation has set there is gone
	}
	if s.conn != nil {
		select {
		case <-s.conn.Done():
			s.conn.Close()
			s.conn = nil
		default:
			return steady{s.conn, n, s}, s.conn.BootID(), nil
		}
	}
	conn, err := n.contact(ctx, node)
	if err != nil {
		return nil, "", err
	}
	s.conn, s.made = conn, time.Now()
	n.watchConsole(node, s, conn)
	return steady{conn, n, s}, conn.BootID(), nil
}

// contact dials a machine. A boot that hung or failed is tried once more: under
// emulation one in some hundred stops before its first line.
func (n *nodes) contact(ctx context.Context, node string) (*client.Conn, error) {
	conn, err := n.dial(ctx, node)
	var boot *client.BootError
	var died *hypervisorDied
	if n.ownDisk(node) != nil {
		return conn, err // what it lacks, it lacks the next time, too
	}
	ended := errors.Is(err, provider.ErrGone) && !errors.As(err, &died)
	if !errors.As(err, &boot) && !ended || n.remake == nil || ctx.Err() != nil {
		return conn, err
	}
	if rerr := n.remake(ctx, node, err); rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	return n.dial(ctx, node)
}

func (n *nodes) dial(ctx context.Context, node string) (*client.Conn, error) {
	within, disk := firstContact, n.ownDisk(node)
	if disk != nil {
		within = diskContact
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	host, err := n.keys.host(n.identity(node))
	if err != nil {
		return nil, err
	}
	own, err := n.keys.client()
	if err != nil {
		return nil, err
	}
	enrol := &proto.Enrol{Node: node, Hostname: n.name(node), HostKey: host.Private, Entropy: make([]byte, seedBytes)}
	_, _ = rand.Read(enrol.Entropy) // never fails, crypto/rand says
	if n.mac != nil {
		enrol.MAC = n.mac(node)
	}
	if n.visits {
		enrol = nil
	}
	conn, err := client.WaitReady(ctx, client.DialSpec{
		Node: node, Open: n.opener(node), ClientKey: own.Private, HostKey: host.Public, Enrol: enrol,
	}, n.patientConsole(node, disk))
	if err != nil && disk != nil {
		return nil, diskDidNotCome(node, disk, n.console(node), err)
	}
	if err != nil {
		return nil, err
	}
	if e := conn.Enrolled(); e != nil {
		n.seeded(node, enrol.Entropy)
		if n.enrolled != nil {
			n.enrolled(node, e)
		}
	}
	return conn, nil
}

// patientConsole is a machine's console with how long its silence is borne.
func (n *nodes) patientConsole(node string, disk *images.Disk) client.Console {
	quiet := n.quiet
	switch {
	case quiet > 0:
	case disk != nil:
		quiet = silentDisk
	case n.isClone != nil && n.isClone(node):
		quiet = silentClone
	default:
		quiet = silentBoot
	}
	c := client.Console{Path: n.console(node), Quiet: patience(quiet, runtime.NumCPU())}
	if disk != nil {
		c.Over, c.OverQuiet = bootedWithoutCloudInit, patience(idleDisk, runtime.NumCPU())
	}
	return c
}

// ownDisk is the disk of the user's that a machine boots from, nil without one.
func (n *nodes) ownDisk(node string) *images.Disk {
	if n.disk == nil {
		return nil
	}
	return n.disk(node)
}

// seedBytes is what a guest is seeded with: twice what its generator needs.
const seedBytes = 64

func (n *nodes) seeded(node string, seed []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seeds == nil {
		n.seeds = map[string]string{}
	}
	n.seeds[node] = hex.EncodeToString(seed)
}

// guestSeeds returns what the machines enrolled by this operation were seeded with.
func (n *nodes) guestSeeds() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.seeds)
}

// seed returns what a machine enrolled by this operation was seeded with, hex.
func (n *nodes) seed(node string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seeds[node]
}

// opener opens a machine's port; when there is nothing to open any more it
// says why, which ends the waiting for it.
func (n *nodes) opener(node string) func(context.Context) (net.Conn, error) {
	open := n.open(node)
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := open(ctx)
		if err != nil && n.fate != nil && ctx.Err() == nil {
			if end := n.fate(ctx, node); end != nil {
				return nil, end
			}
		}
		return conn, err
	}
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
		return nil, err // who uses this names the node
	}
	return c.Call(ctx, calls)
}
