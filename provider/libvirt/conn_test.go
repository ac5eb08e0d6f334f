package libvirt

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rpc "github.com/digitalocean/go-libvirt"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// fakeDaemon speaks as much of the protocol as a connection needs
// (libvirt's docs/internals/rpc.rst): every call is answered with success and
// a body of zeros, except those that hang.
type fakeDaemon struct {
	socket      string
	connections atomic.Int32
	busy, most  atomic.Int32
	delay       time.Duration

	mu    sync.Mutex
	hang  map[uint32]bool // by procedure
	drop  map[uint32]bool // closes the connection instead of an answer
	socks []net.Conn
}

// Procedures, from libvirt's remote_protocol.x.
const (
	procAuthList = 66
	procVersion  = 4 // of the hypervisor
)

func newFakeDaemon(t *testing.T) *fakeDaemon {
	t.Helper()
	d := &fakeDaemon{socket: filepath.Join(t.TempDir(), "s"), hang: map[uint32]bool{}, drop: map[uint32]bool{}}
	ln, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ln.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range d.socks {
			s.Close()
		}
	})
	go func() {
		for {
			sock, err := ln.Accept()
			if err != nil {
				return
			}
			d.connections.Add(1)
			d.mu.Lock()
			d.socks = append(d.socks, sock)
			d.mu.Unlock()
			go d.serve(sock)
		}
	}()
	return d
}

func (d *fakeDaemon) set(m map[uint32]bool, proc uint32, v bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m[proc] = v
}

func (d *fakeDaemon) serve(sock net.Conn) {
	defer sock.Close()
	var write sync.Mutex
	for {
		head := make([]byte, 28) // length, program, version, procedure, type, serial, status
		if _, err := io.ReadFull(sock, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, sock, int64(binary.BigEndian.Uint32(head))-28); err != nil {
			return
		}
		proc := binary.BigEndian.Uint32(head[12:])
		d.mu.Lock()
		hang, drop := d.hang[proc], d.drop[proc]
		d.mu.Unlock()
		if drop {
			return
		}
		if hang {
			continue
		}
		go func() {
			n := d.busy.Add(1)
			for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
			}
			time.Sleep(d.delay)
			d.busy.Add(-1)
			reply := make([]byte, 28+16)
			copy(reply, head)
			binary.BigEndian.PutUint32(reply, uint32(len(reply)))
			binary.BigEndian.PutUint32(reply[16:], 1) // reply
			binary.BigEndian.PutUint32(reply[24:], 0) // ok
			write.Lock()
			defer write.Unlock()
			_, _ = sock.Write(reply)
		}()
	}
}

func dial(t *testing.T, d *fakeDaemon) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), d.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func libVersion(l *rpc.Libvirt) error { _, err := l.ConnectGetLibVersion(); return err }

func hvVersion(l *rpc.Libvirt) error { _, err := l.ConnectGetVersion(); return err }

func TestAtMostFourInFlight(t *testing.T) {
	d := newFakeDaemon(t)
	d.delay = 20 * time.Millisecond
	c := dial(t, d)
	d.most.Store(0)
	var wg sync.WaitGroup
	for range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := c.Do(t.Context(), 30*time.Second, hvVersion); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if most := d.most.Load(); most != inFlight {
		t.Errorf("%d calls at the same time, want %d", most, inFlight)
	}
	if n := d.connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestStuckCallEndsAtItsDeadlineAndHarmsNobody(t *testing.T) {
	d := newFakeDaemon(t)
	c := dial(t, d)
	d.set(d.hang, procVersion, true)
	slow := make(chan error, 1)
	release := make(chan struct{})
	// One call that is in flight while the other one gets stuck.
	go func() {
		slow <- c.Do(t.Context(), 30*time.Second, func(l *rpc.Libvirt) error { <-release; return libVersion(l) })
	}()
	for range inFlight + 2 { // more than there are slots: each must be given back
		began := time.Now()
		err := c.Do(t.Context(), 50*time.Millisecond, hvVersion)
		if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, ErrNoConnection) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %s", took)
		}
	}
	close(release)
	if err := <-slow; err != nil {
		t.Errorf("the other call: %v", err)
	}
	d.set(d.hang, procVersion, false)
	if err := c.Do(t.Context(), 30*time.Second, hvVersion); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestLostConnection(t *testing.T) {
	d := newFakeDaemon(t)
	c := dial(t, d)
	d.set(d.drop, procVersion, true)
	if err := c.Do(t.Context(), 30*time.Second, hvVersion); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("%v", err)
	}
	if err := c.Do(t.Context(), 30*time.Second, libVersion); err != nil {
		t.Errorf("the next call: %v", err)
	}
	if n := d.connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	// A question is asked once more by itself.
	tries := 0
	err := c.ask(t.Context(), func(l *rpc.Libvirt) error {
		if tries++; tries == 1 {
			return hvVersion(l)
		}
		return libVersion(l)
	})
	if err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestSilentDaemon(t *testing.T) {
	d := newFakeDaemon(t)
	d.set(d.hang, procAuthList, true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, d.socket); !errors.Is(err, ErrNoConnection) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := Dial(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNoConnection) || diag.From(err)[0].Remedy == "" {
		t.Errorf("%v", err)
	}
}

func TestClosedConnection(t *testing.T) {
	c := dial(t, newFakeDaemon(t))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), time.Second, hvVersion); !errors.Is(err, ErrNoConnection) {
		t.Errorf("%v", err)
	}
}

// When libvirt cannot be asked, only the host's word makes an object gone.
func TestHostDecidesWhenLibvirtIsAway(t *testing.T) {
	d := newFakeDaemon(t)
	c := dial(t, d)
	for _, sock := range func() []net.Conn { d.mu.Lock(); defer d.mu.Unlock(); return d.socks }() {
		sock.Close()
	}
	c.socket = filepath.Join(t.TempDir(), "none")
	r := provider.Resource{Addr: addr.Resource{Noun: addr.N(addr.Network, "lan"), Part: "network"}, Type: schema.TypeNetwork, Attrs: sampleNetwork.Value()}
	unknown := errors.New("not known")
	for name, host := range map[string]error{"lives": nil, "gone": provider.ErrGone, "unknown": unknown} {
		p := New(c, Options{Host: func(context.Context) error { return host }})
		_, err := p.Read(t.Context(), r, r.Attrs)
		if errors.Is(err, provider.ErrGone) != (name == "gone") || err == nil {
			t.Errorf("%s: read %v", name, err)
		}
		if name == "lives" && !errors.Is(err, ErrNoConnection) || name == "unknown" && !errors.Is(err, unknown) {
			t.Errorf("%s: read %v", name, err)
		}
		if err := p.Delete(t.Context(), r, r.Attrs); (err == nil) != (name == "gone") {
			t.Errorf("%s: delete %v", name, err)
		}
		if _, err := p.Create(t.Context(), r); err == nil {
			t.Errorf("%s: create succeeded", name)
		}
	}
}
