package libvirt

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lvslab/lvslab/provider"
)

// Numbers of calls (src/remote/remote_protocol.x of libvirt).
const (
	procDomainCreateXML    = 10
	procNetworkCreateXML   = 40
	procNetworkDestroy     = 42
	procDomainDestroyFlags = 234
)

// cutter stands between a client and libvirtd and breaks the connection once for
// each call that it is told of: before libvirtd hears of it, or instead of its
// answer.
type cutter struct {
	answered bool // cut instead of the answer
	mu       sync.Mutex
	todo     map[uint32]bool
}

// due reports once whether a message is one to cut at. A message is its length,
// then program, version, procedure and type: 0 is a call, 1 its answer.
func (c *cutter) due(message []byte) bool {
	proc, answer := binary.BigEndian.Uint32(message[12:]), binary.BigEndian.Uint32(message[16:]) == 1
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer != c.answered || !c.todo[proc] {
		return false
	}
	delete(c.todo, proc)
	return true
}

func (c *cutter) serve(t *testing.T, libvirtd string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", libvirtd)
			if err != nil {
				client.Close()
				continue
			}
			end := func() { client.Close(); server.Close() }
			go func() { defer end(); c.pass(server, client) }()
			go func() { defer end(); c.pass(client, server) }()
		}
	}()
	return socket
}

// pass hands messages on until one is cut or the connection ends.
func (c *cutter) pass(to io.Writer, from io.Reader) {
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		message := append(head, make([]byte, binary.BigEndian.Uint32(head)-4)...)
		if _, err := io.ReadFull(from, message[4:]); err != nil || c.due(message) {
			return
		}
		if _, err := to.Write(message); err != nil {
			return
		}
	}
}

// TestAccConnectionLostAmidEffects: whether or not libvirtd has heard of a call
// when the connection breaks, it is carried out, once.
func TestAccConnectionLostAmidEffects(t *testing.T) {
	l := newLab(t, "cut0")
	for _, answered := range []bool{false, true} {
		c := &cutter{answered: answered, todo: map[uint32]bool{
			procNetworkCreateXML: true, procDomainCreateXML: true, procDomainDestroyFlags: true, procNetworkDestroy: true}}
		conn, err := Dial(t.Context(), c.serve(t, l.holder.LibvirtSocket()))
		if err != nil {
			t.Fatal(err)
		}
		p := New(conn, l.options())
		n, d := l.network(), resource(l.domain(0))
		for _, r := range []provider.Resource{n, d} {
			if _, err := p.Create(t.Context(), r); err != nil {
				t.Errorf("answered %v: create %s: %v", answered, r.Addr, err)
			}
		}
		for _, r := range []provider.Resource{d, n} {
			if err := p.Delete(t.Context(), r, r.Attrs); err != nil {
				t.Errorf("answered %v: delete %s: %v", answered, r.Addr, err)
			}
			if _, err := l.Read(t.Context(), r, r.Attrs); !errors.Is(err, provider.ErrGone) {
				t.Errorf("answered %v: %s after its deletion: %v", answered, r.Addr, err)
			}
		}
		if len(c.todo) > 0 {
			t.Errorf("answered %v: calls %v were never made", answered, c.todo)
		}
		conn.Close()
	}
}
