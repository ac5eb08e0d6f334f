package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// ErrLost is wrapped by what calls return when the connection to the guest has
// ended: the outcome of what was in flight is unknown.
var ErrLost = errors.New("the connection to the guest was lost")

// rpc multiplexes requests over one stream.
type rpc struct {
	write sync.Mutex
	out   io.Writer

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan proto.Reply
	lost    error
	done    chan struct{}
}

func newRPC(stream io.ReadWriter) *rpc {
	r := &rpc{out: stream, waiting: map[uint64]chan proto.Reply{}, done: make(chan struct{})}
	go r.read(stream)
	return r
}

func (r *rpc) read(in io.Reader) {
	dec := json.NewDecoder(in)
	for {
		var reply proto.Reply
		if err := dec.Decode(&reply); err != nil {
			r.fail(err)
			return
		}
		r.mu.Lock()
		ch := r.waiting[reply.ID]
		delete(r.waiting, reply.ID)
		r.mu.Unlock()
		if ch != nil {
			ch <- reply
		}
	}
}

func (r *rpc) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.lost = fmt.Errorf("%w: %w", ErrLost, err)
		close(r.done)
	}
}

func (r *rpc) lostError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

func (r *rpc) call(ctx context.Context, calls []proto.Envelope) ([]proto.Result, error) {
	req := proto.Request{Calls: calls}
	if deadline, ok := ctx.Deadline(); ok {
		// The guest stops by itself when our time is up, even when our word that we
		// no longer wait does not reach it.
		req.DeadlineMS = max(1, time.Until(deadline).Milliseconds())
	}
	ch := make(chan proto.Reply, 1)
	r.mu.Lock()
	if r.lost != nil {
		defer r.mu.Unlock()
		return nil, r.lost
	}
	r.last++
	req.ID = r.last
	r.waiting[req.ID] = ch
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiting, req.ID)
		r.mu.Unlock()
	}()
	// Writing blocks when the guest no longer reads: the context must end that too.
	sent := make(chan error, 1)
	go func() { sent <- r.send(req) }()
	for {
		select {
		case err := <-sent:
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrLost, err)
			}
			sent = nil
		case reply := <-ch:
			return reply.Results, nil
		case <-r.done:
			return nil, r.lostError()
		case <-ctx.Done():
			return r.abandon(ctx, req.ID, ch)
		}
	}
}

// abandonGrace is how long a call whose context has ended waits for the guest's
// own word on it: one round trip under emulation takes a few milliseconds.
const abandonGrace = 250 * time.Millisecond

// abandon tells the guest to stop and takes its answer if that comes at once:
// it says what the call was waiting for.
func (r *rpc) abandon(ctx context.Context, id uint64, ch chan proto.Reply) ([]proto.Result, error) {
	go func() { _ = r.send(proto.Request{Cancel: id}) }()
	select {
	case reply := <-ch:
		return reply.Results, nil
	case <-r.done:
		return nil, r.lostError()
	case <-time.After(abandonGrace):
		return nil, ctx.Err()
	}
}

func (r *rpc) send(req proto.Request) error {
	line, err := json.Marshal(req)
	if err != nil {
		return err
	}
	r.write.Lock()
	defer r.write.Unlock()
	_, err = r.out.Write(append(line, '\n'))
	return err
}
