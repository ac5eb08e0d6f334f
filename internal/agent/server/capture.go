package server

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerCapture(s *Server) {
	c := &captures{life: s.Life(), running: map[string]*capture{}}
	Handle(s, proto.CaptureStart, c.start)
	Handle(s, proto.CaptureStop, c.stop)
}

const (
	captureMB     = 16 // when nothing is said: 100,000 DNS packets
	captureWithin = 10 * time.Second
	captureLook   = 5 * time.Millisecond
)

// captures are the ones that are going on, by id.
type captures struct {
	life    context.Context
	mu      sync.Mutex
	running map[string]*capture
}

func (c *captures) start(_ context.Context, spec proto.CaptureSpec) (proto.None, error) {
	filter, err := captureFilter(spec.Port, spec.Snaplen)
	if err != nil {
		return proto.None{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[spec.ID] != nil {
		return proto.None{}, fail(proto.CodeInvalid, spec.ID, "a capture of this name is going on")
	}
	ring, err := openRing(spec.Dev, filter)
	var unknown *net.OpError
	if errors.As(err, &unknown) {
		return proto.None{}, fail(proto.CodeNotFound, spec.Dev, "no device to capture on: %v", err)
	}
	if err != nil {
		return proto.None{}, err
	}
	limit := spec.MaxMB
	if limit <= 0 {
		limit = captureMB
	}
	cp, err := newCapture(c.life, ring, limit<<20)
	if err != nil {
		ring.close()
		return proto.None{}, err
	}
	c.running[spec.ID] = cp
	return proto.None{}, nil
}

// stop ends a capture, also when the wait for quiet is cancelled: nobody would
// come back for it, and its name would stay taken.
func (c *captures) stop(ctx context.Context, ref proto.CaptureRef) (proto.CaptureResult, error) {
	c.mu.Lock()
	cp := c.running[ref.ID]
	delete(c.running, ref.ID)
	c.mu.Unlock()
	if cp == nil {
		return proto.CaptureResult{}, fail(proto.CodeNotFound, ref.ID, "no capture of this name is going on")
	}
	var waited error
	if ref.QuietMS > 0 {
		within := time.Duration(ref.WithinMS) * time.Millisecond
		if within <= 0 {
			within = captureWithin
		}
		waited = cp.awaitQuiet(ctx, time.Duration(ref.QuietMS)*time.Millisecond, within)
	}
	result, err := cp.finish()
	return result, errors.Join(waited, err)
}

// capture copies packets from a ring into a file in memory.
type capture struct {
	ring  *packetRing
	limit int
	event int // eventfd: the end
	done  chan error
	seen  atomic.Uint64 // packets read from the ring
	last  atomic.Int64  // the time of the last one, Unix nanoseconds
	// Counts of the kernel, used by the one that stops the capture.
	passed, dropped uint64

	// Written by the reader, read when it has ended.
	pcap       []byte
	kept, lost uint64
}

// newCapture starts the reader. It ends with life, or by finish.
func newCapture(life context.Context, ring *packetRing, limit int) (*capture, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	c := &capture{ring: ring, limit: limit, event: event, done: make(chan error, 1), pcap: pcapHeader()}
	c.last.Store(time.Now().UnixNano())
	stop := context.AfterFunc(life, c.wake)
	go func() {
		defer stop()
		c.done <- c.read()
	}()
	return c, nil
}

// wake ends the reader.
func (c *capture) wake() { _, _ = unix.Write(c.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (c *capture) read() error {
	var ended [8]byte
	for {
		if err := c.ring.wait(c.event); err != nil {
			return err
		}
		if _, err := unix.Read(c.event, ended[:]); err == nil {
			break
		}
		c.ring.drain(false, c.keep)
	}
	if err := c.ring.bind(0); err != nil {
		return err
	}
	c.ring.drain(true, c.keep)
	return nil
}

// keep appends a packet to the file.
func (c *capture) keep(p packet) {
	c.last.Store(int64(p.sec)*1e9 + int64(p.nsec))
	c.seen.Add(1)
	if len(c.pcap)+16+len(p.data) > c.limit {
		c.lost++
		return
	}
	c.kept++
	for _, v := range []uint32{p.sec, p.nsec, uint32(len(p.data)), p.length} {
		c.pcap = binary.LittleEndian.AppendUint32(c.pcap, v)
	}
	c.pcap = append(c.pcap, p.data...)
}

// pcapHeader begins a pcap file with nanoseconds and link type Ethernet. It is
// written here because gopacket's layers would cost the agent 3 MB and the time
// to initialise them.
func pcapHeader() []byte {
	b := make([]byte, 0, 64<<10)
	for _, v := range []uint32{0xa1b23c4d, 4<<16 | 2, 0, 0, keepAll, 1} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// count adds the kernel's counts up and says whether packets have come since
// the last call.
func (c *capture) count() (came bool, err error) {
	packets, drops, err := c.ring.stats()
	c.passed += packets
	c.dropped += drops
	return packets > 0, err
}

// awaitQuiet returns when no packet has come for that long, or when the time is
// up: a capture is finished either way. The kernel's counter says at once that a
// packet came; the reader sees it when its block is handed over.
func (c *capture) awaitQuiet(ctx context.Context, quiet, within time.Duration) error {
	began := time.Now()
	last := began
	if _, err := c.count(); err != nil {
		return err
	}
	if c.seen.Load()+c.dropped == c.passed { // the reader is up to date, so the last packet's time is known
		last = time.Unix(0, c.last.Load())
	}
	for {
		now := time.Now()
		if now.Sub(last) >= quiet || now.Sub(began) >= within {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(captureLook):
		}
		came, err := c.count()
		if err != nil {
			return err
		}
		if came {
			last = time.Now()
		}
	}
}

// finish stops the reception and returns what was captured.
func (c *capture) finish() (proto.CaptureResult, error) {
	c.wake()
	err := <-c.done
	defer func() {
		c.ring.close()
		_ = unix.Close(c.event)
	}()
	if err != nil {
		return proto.CaptureResult{}, err
	}
	if _, err := c.count(); err != nil {
		return proto.CaptureResult{}, err
	}
	return proto.CaptureResult{Packets: c.kept, Dropped: c.dropped + c.lost, Pcap: c.pcap}, nil
}
