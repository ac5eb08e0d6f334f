package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// errNoRequest ends a stream on which something else arrives: in clear, that is
// the Hello of a host which came before the last one's leaving was noticed.
var errNoRequest = errors.New("not a request")

// serveRPC answers requests until the stream ends. Requests run side by side,
// the calls of one request in order. When it returns, the stream is closed (a
// reply that nobody reads any more would never get away) and all have ended.
func (s *Server) serveRPC(ctx context.Context, rw io.ReadWriteCloser) error {
	ctx, cancelAll := context.WithCancel(ctx)
	r := &requests{out: json.NewEncoder(rw), cancel: map[uint64]context.CancelFunc{}}
	defer r.running.Wait()
	defer rw.Close()
	defer cancelAll()
	for dec := json.NewDecoder(rw); ; {
		var req proto.Request
		if err := dec.Decode(&req); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if req.ID == 0 && req.Cancel == 0 {
			return errNoRequest
		}
		if req.Cancel != 0 {
			r.stop(req.Cancel)
			continue
		}
		rctx, end := r.begin(ctx, req.ID)
		r.running.Go(func() {
			defer end()
			r.reply(s.carryOut(rctx, req))
		})
	}
}

// requests are the ones in flight on one stream.
type requests struct {
	running sync.WaitGroup
	write   sync.Mutex
	out     *json.Encoder
	mu      sync.Mutex
	cancel  map[uint64]context.CancelFunc
}

func (r *requests) begin(ctx context.Context, id uint64) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	r.cancel[id] = cancel
	r.mu.Unlock()
	return ctx, func() {
		cancel()
		r.mu.Lock()
		delete(r.cancel, id)
		r.mu.Unlock()
	}
}

func (r *requests) stop(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.cancel[id]; cancel != nil {
		cancel()
	}
}

// reply writes one line. A write error means that the host has gone, which the
// reading side finds out by itself.
func (r *requests) reply(reply proto.Reply) {
	r.write.Lock()
	defer r.write.Unlock()
	_ = r.out.Encode(reply)
}
