package ipvs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Handle drives the IPVS of the network namespace in which it was opened. Its
// methods may be called from several goroutines; they take turns, because
// moby/ipvs has one socket and no lock.
//
// What is not left to moby/ipvs 1.1.0, and why: reads (weights are cut to 16
// bits, no persistent connections, 32-bit counters that wrap, the flag 0x2 of
// the kernel shows up as a difference for ever), tunnel types, the address
// family of a destination (an IPv6 one becomes 253.0.0.0 without an error),
// netmasks (written in the machine's byte order), timeouts (its reader panics
// when IPVS is absent), and finding out whether IPVS is there at all.
type Handle struct {
	mu sync.Mutex
	k  kernel
	// baseline is that of the last [Handle.Fresh], zero before the first: it shows
	// whether the counters have caught up before the services are deleted.
	baseline proto.IPVSTotals
	// wait pauses between two looks; tests make it short.
	wait func(ctx context.Context, d time.Duration) error
}

// Open returns a handle; load serves schedulers that are asked for later. IPVS must be there (see [Preflight]), else the error
// is a [*MissingModuleError].
func Open(ctx context.Context, load LoadModule) (*Handle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k, err := openLinux(load)
	if err != nil {
		return nil, err
	}
	return newHandle(k), nil
}

func newHandle(k kernel) *Handle { return &Handle{k: k, wait: sleep} }

// Close gives the sockets back; the handle must not be used afterwards.
func (h *Handle) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.k.close()
}

// Services returns all services, sorted by key, each with its destinations in
// the kernel's list order and the timeouts of the namespace.
func (h *Handle) Services(ctx context.Context) ([]proto.IPVSService, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.read(ctx)
}

func (h *Handle) read(ctx context.Context) ([]proto.IPVSService, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list, err := h.k.services()
	if err != nil {
		return nil, err
	}
	t, err := h.k.timeouts()
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Timeouts = t
		if list[i].Destinations, err = h.k.destinations(list[i].IPVSKey); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b proto.IPVSService) int { return compareKeys(a.IPVSKey, b.IPVSKey) })
	return list, nil
}

func compareKeys(a, b proto.IPVSKey) int {
	return cmp.Or(cmp.Compare(a.FWMark, b.FWMark), cmp.Compare(a.Protocol, b.Protocol), a.VIP.Compare(b.VIP), cmp.Compare(a.Port, b.Port))
}

// find returns the service with that key as it is.
func (h *Handle) find(ctx context.Context, key proto.IPVSKey) (proto.IPVSService, error) {
	list, err := h.read(ctx)
	if err != nil {
		return proto.IPVSService{}, err
	}
	for _, s := range list {
		if s.IPVSKey == key {
			return s, nil
		}
	}
	return proto.IPVSService{}, fmt.Errorf("%s: %w", Name(key), ErrNotFound)
}

// Delete removes a service and its destinations, and verifies that it is gone.
// The error is [ErrNotFound] when there was none. Its entries of the connection
// table go too: they would pin their ports again as soon as a service with that
// key came back, because the kernel takes its real servers out of the trash
// (ip_vs_ctl.c, ip_vs_trash_get_dest).
func (h *Handle) Delete(ctx context.Context, key proto.IPVSKey) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	key = normalise(proto.IPVSService{IPVSKey: key}).IPVSKey
	if _, err := h.find(ctx, key); err != nil {
		return err
	}
	if err := h.drop(ctx, key); err != nil {
		return err
	}
	if s, err := h.find(ctx, key); err == nil {
		return &MismatchError{Subject: Name(key), What: "presence", Want: "gone", Got: "scheduler " + s.Scheduler}
	}
	return nil
}

// Timeouts returns the timeouts of the namespace, whole seconds.
func (h *Handle) Timeouts(ctx context.Context) (proto.IPVSTimeouts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return proto.IPVSTimeouts{}, err
	}
	return h.k.timeouts()
}

// SetTimeouts changes those that are not 0 and reads them back. They hold for
// every service of the namespace, and for a living entry from its next packet on.
func (h *Handle) SetTimeouts(ctx context.Context, t proto.IPVSTimeouts) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.setTimeouts(ctx, t)
}

func (h *Handle) setTimeouts(ctx context.Context, want proto.IPVSTimeouts) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	got, err := h.k.timeouts()
	if err != nil {
		return err
	}
	want = proto.IPVSTimeouts{TCP: cmp.Or(want.TCP, got.TCP), TCPFin: cmp.Or(want.TCPFin, got.TCPFin), UDP: cmp.Or(want.UDP, got.UDP)}
	if want == got {
		return nil
	}
	if err := h.k.setTimeouts(want); err != nil {
		return err
	}
	if got, err = h.k.timeouts(); err != nil {
		return err
	}
	if got != want {
		return &MismatchError{Subject: "IPVS", What: "timeouts", Want: fmt.Sprint(want), Got: fmt.Sprint(got)}
	}
	return nil
}

// Conns returns the connection table, templates of persistent clients (client
// port 0) included. Packets of one_packet services never appear in it.
func (h *Handle) Conns(ctx context.Context) ([]proto.IPVSConn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h.k.conns()
}

// Totals returns the live totals: they never lag and survive the deletion of a
// service, so only their increase means something.
func (h *Handle) Totals(ctx context.Context) (proto.IPVSTotals, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return proto.IPVSTotals{}, err
	}
	return h.k.totals()
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
