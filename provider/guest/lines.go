package guest

import (
	"context"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// lines are the batching lines by machine. The zero value is ready.
type lines struct {
	mu     sync.Mutex
	byNode map[string]*line
}

// to returns a caller whose calls travel together with others to that machine.
func (l *lines) to(node string, c client.Caller) client.Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byNode == nil {
		l.byNode = map[string]*line{}
	}
	if l.byNode[node] == nil {
		l.byNode[node] = &line{}
	}
	return grouped{l.byNode[node], c}
}

// grouped is a caller that goes by a line.
type grouped struct {
	line   *line
	caller client.Caller
}

// Call waits for its turn and returns what came of its own calls.
func (g grouped) Call(ctx context.Context, calls []proto.Envelope) ([]proto.Result, error) {
	j := &job{ctx: ctx, caller: g.caller, calls: calls, done: make(chan struct{})}
	g.line.add(j)
	select {
	case <-j.done:
		return j.results, j.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// line commits groups: while one batch is on its way, what arrives is
// collected, and goes as the next one.
type line struct {
	mu      sync.Mutex
	busy    bool
	waiting []*job
}

// job is one caller's calls. results and err are set before done is closed.
type job struct {
	ctx     context.Context
	caller  client.Caller
	calls   []proto.Envelope
	done    chan struct{}
	results []proto.Result
	err     error
}

func (l *line) add(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, j)
	if !l.busy {
		l.busy = true
		go l.run()
	}
}

func (l *line) run() {
	for {
		group := l.next()
		if len(group) == 0 {
			return
		}
		l.again(send(group))
	}
}

// next takes the jobs that go together: all that wait, as long as they use the
// same connection. Jobs that nobody waits for any more are left out.
func (l *line) next() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	var group, rest []*job
	for _, j := range l.waiting {
		switch {
		case j.ctx.Err() != nil:
			j.end(nil, j.ctx.Err())
		case len(group) > 0 && j.caller != group[0].caller:
			rest = append(rest, j)
		default:
			group = append(group, j)
		}
	}
	l.waiting = rest
	l.busy = len(group) > 0
	return group
}

// again puts jobs that were not begun before those that came meanwhile.
func (l *line) again(jobs []*job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(jobs, l.waiting...)
}

// send carries a group out and returns the jobs that were not begun: a batch
// ends at its first error, which is no concern of the jobs behind it.
func send(group []*job) []*job {
	var calls []proto.Envelope
	for _, j := range group {
		calls = append(calls, j.calls...)
	}
	ctx, cancel := groupContext(group)
	defer cancel()
	results, err := group[0].caller.Call(ctx, calls)
	for i, j := range group {
		n := min(len(j.calls), len(results))
		own := results[:n]
		results = results[n:]
		failed := n > 0 && own[n-1].Error != nil
		switch {
		case n == len(j.calls) || failed:
			j.end(own, nil)
		case err != nil:
			j.end(own, err)
		case n == 0 && i > 0:
			return group[i:]
		default:
			j.end(own, nil) // the agent's fault; the batch says so
		}
	}
	return nil
}

func (j *job) end(results []proto.Result, err error) {
	j.results, j.err = results, err
	close(j.done)
}

// groupContext ends at the latest of the jobs' deadlines, and as soon as none
// of the jobs is waited for.
func groupContext(group []*job) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(group[0].ctx))
	if latest, all := latestDeadline(group); all {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, latest)
		inner := cancel
		cancel = func() { stop(); inner() }
	}
	var left sync.WaitGroup
	stops := make([]func() bool, len(group))
	for i, j := range group {
		left.Add(1)
		stops[i] = context.AfterFunc(j.ctx, left.Done)
	}
	end := cancel
	go func() {
		left.Wait()
		end()
	}()
	return ctx, func() {
		for _, stop := range stops {
			if stop() {
				left.Done()
			}
		}
		end()
	}
}

func latestDeadline(group []*job) (latest time.Time, all bool) {
	for _, j := range group {
		d, ok := j.ctx.Deadline()
		if !ok {
			return time.Time{}, false
		}
		if d.After(latest) {
			latest = d
		}
	}
	return latest, true
}
