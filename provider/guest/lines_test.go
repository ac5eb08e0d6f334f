package guest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// waitingJobs waits until n jobs stand in the line.
func waitingJobs(t *testing.T, l *lines, n int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		l.byNode[node].mu.Lock()
		have := len(l.byNode[node].waiting)
		l.byNode[node].mu.Unlock()
		if have == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d jobs wait, want %d", have, n)
		}
	}
}

func read(ctx context.Context, l *lines, a client.Caller, name string) error {
	_, err := client.Do(ctx, l.to(node, a), proto.TunnelRead, proto.LinkRef{Name: name})
	return err
}

// TestCallsTravelTogether: what waits while a batch is on its way goes as one
// batch, and an error in the middle is only its own caller's.
func TestCallsTravelTogether(t *testing.T) {
	a, l := newAgent(), &lines{}
	for i := range 20 {
		if i != 7 && i != 13 {
			name := fmt.Sprint("t", i)
			a.tunnels[name] = proto.TunnelState{TunnelSpec: proto.TunnelSpec{Name: name}}
		}
	}
	a.hold = make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { _ = read(t.Context(), l, a, "t0") })
	for len(a.snapshot(l)) == 0 {
		time.Sleep(time.Millisecond)
	}
	errs := make([]error, 20)
	for i := 1; i < 20; i++ {
		all.Go(func() { errs[i] = read(t.Context(), l, a, fmt.Sprint("t", i)) })
	}
	waitingJobs(t, l, 19)
	close(a.hold)
	all.Wait()
	for i, err := range errs {
		if failed := err != nil; failed != (i == 7 || i == 13) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	// One alone, nineteen together; a batch ends at its first error, so each of
	// the two errors costs at most one more.
	if n := len(a.batches); n < 3 || n > 4 {
		t.Errorf("%d batches: %v", n, a.batches)
	}
}

// snapshot returns whether a batch is on its way without touching the agent's lock.
func (a *agent) snapshot(l *lines) []*line {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.byNode {
		one.mu.Lock()
		defer one.mu.Unlock()
		if one.busy && len(one.waiting) == 0 {
			return []*line{one}
		}
	}
	return nil
}

func TestACallLeavesWithItsContext(t *testing.T) {
	a, l := newAgent(), &lines{}
	a.tunnels["t"] = proto.TunnelState{}
	a.hold = make(chan struct{})
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := read(short, l, a, "t"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	close(a.hold)
	if err := read(t.Context(), l, a, "t"); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// TestOneWhoLeavesDoesNotTakeOthersAlong: the batch goes on for those who stay.
func TestOneWhoLeavesDoesNotTakeOthersAlong(t *testing.T) {
	a, l := newAgent(), &lines{}
	a.tunnels["t"] = proto.TunnelState{}
	a.hold = make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { _ = read(t.Context(), l, a, "t") })
	for len(a.snapshot(l)) == 0 {
		time.Sleep(time.Millisecond)
	}
	short, cancel := context.WithCancel(t.Context())
	var left, stayed error
	all.Go(func() { left = read(short, l, a, "t") })
	all.Go(func() { stayed = read(t.Context(), l, a, "t") })
	waitingJobs(t, l, 2)
	a.hold <- struct{}{} // the first batch is over, the second one on its way
	waitingJobs(t, l, 0)
	cancel()
	time.Sleep(10 * time.Millisecond)
	close(a.hold)
	all.Wait()
	if !errors.Is(left, context.Canceled) || stayed != nil {
		t.Errorf("who left got %v, who stayed got %v", left, stayed)
	}
}

type broken struct{ error }

func (b broken) Call(context.Context, []proto.Envelope) ([]proto.Result, error) { return nil, b.error }

func TestLostConnectionReachesAll(t *testing.T) {
	l := &lines{}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if err := read(t.Context(), l, broken{client.ErrLost}, "t"); !errors.Is(err, client.ErrLost) {
				t.Errorf("error %v", err)
			}
		})
	}
	all.Wait()
	a := newAgent() // a new connection to the same machine
	a.tunnels["t"] = proto.TunnelState{}
	if err := read(t.Context(), l, a, "t"); err != nil {
		t.Error(err)
	}
}
