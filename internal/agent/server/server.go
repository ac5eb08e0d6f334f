// Package server is the guest's side of lvslab: it answers the virtio-serial
// ports, takes the guest's identity from the first contact, serves SSH there,
// and carries out the typed calls of package proto.
//
// A call is carried out by a handler that [Handle] has registered; the handlers
// of one area (links, named, IPVS …) live in files of their own and are listed
// in areas.go. The core runs anywhere: tests drive it over a pipe.
package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Server is one agent. Its methods may be called from many goroutines.
type Server struct {
	version string
	log     func(line string)
	seed    Seed
	life    context.Context
	ops     map[string]operation
	// preparations are what a template can have running, by name.
	preparations map[string]func(context.Context) error
	// nameStats reads the statistics of the name server that answers.
	nameStats func(context.Context, proto.None) (proto.NamedCounters, error)

	mu sync.Mutex
	id *identity // nil until enrolled
}

// operation carries out one call: arguments and result are JSON.
type operation func(ctx context.Context, args json.RawMessage) (json.RawMessage, error)

// Options are what a Server needs from its surroundings.
type Options struct {
	// Version is lvslab's version, reported at enrolment.
	Version string
	// Log takes the few lines that belong on the console; nil discards them.
	Log func(line string)
	// Seed changes the guest (host name, clock, entropy) at enrolment; nil
	// leaves the machine as it is, which is what tests on a host want.
	Seed Seed
}

// Seed gives the running kernel what an enrolment carries for it.
type Seed func(e proto.Enrol) error

// New returns a server with all areas registered. What it starts (named,
// captures) ends with ctx.
func New(ctx context.Context, o Options) *Server {
	s := &Server{version: o.Version, log: o.Log, seed: o.Seed, life: ctx, ops: map[string]operation{},
		preparations: map[string]func(context.Context) error{}}
	if s.log == nil {
		s.log = func(string) {}
	}
	for _, register := range areas() {
		register(s)
	}
	return s
}

// Life ends when the agent does; what a handler leaves running hangs on it and
// not on the call's own context.
func (s *Server) Life() context.Context { return s.life }

// Handle registers the function that carries out a call. f's error becomes a
// [proto.Error]: returned as one ([fail]) it keeps its code, an expired
// deadline becomes CodeTimeout, a missing file CodeNotFound, all else
// CodeFailed. Registering an operation twice is a programming error and panics.
func Handle[A, R any](s *Server, call proto.Call[A, R], f func(ctx context.Context, args A) (R, error)) {
	if _, twice := s.ops[call.Op]; twice {
		panic("agent: operation registered twice: " + call.Op)
	}
	s.ops[call.Op] = func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
		var args A
		if len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, fail(proto.CodeInvalid, "", "arguments: %v", err)
			}
		}
		result, err := f(ctx, args)
		if err != nil {
			return nil, err
		}
		return json.Marshal(result)
	}
}

// fail makes an error with a code of package proto and the thing concerned.
func fail(code, subject, format string, args ...any) error {
	return &proto.Error{Code: code, Subject: subject, Message: fmt.Sprintf(format, args...)}
}

// carryOut runs a batch in order and stops after its first error.
func (s *Server) carryOut(ctx context.Context, req proto.Request) proto.Reply {
	if req.DeadlineMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(req.DeadlineMS)*time.Millisecond)
		defer cancel()
	}
	reply := proto.Reply{ID: req.ID, Results: make([]proto.Result, 0, len(req.Calls))}
	for _, c := range req.Calls {
		value, err := s.one(ctx, c)
		if err != nil {
			reply.Results = append(reply.Results, proto.Result{Error: asError(c.Op, err)})
			break
		}
		reply.Results = append(reply.Results, proto.Result{Value: value})
	}
	return reply
}

// one carries out a single call. A panicking handler is reported to the caller
// with its stack and does not take the guest's other calls down.
func (s *Server) one(ctx context.Context, c proto.Envelope) (value json.RawMessage, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	op, ok := s.ops[c.Op]
	if !ok {
		return nil, fail(proto.CodeUnsupported, "", "this agent (lvslab %s) does not know the operation", s.version)
	}
	defer func() {
		if p := recover(); p != nil {
			s.log(fmt.Sprintf("panic in %s: %v", c.Op, p))
			err = fail(proto.CodeFailed, "", "panic: %v\n%s", p, debug.Stack())
		}
	}()
	return op(ctx, c.Args)
}

// asError turns a handler's error into the protocol's.
func asError(op string, err error) *proto.Error {
	var known *proto.Error
	if errors.As(err, &known) {
		e := *known
		e.Op = op
		return &e
	}
	code := proto.CodeFailed
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code = proto.CodeTimeout
	case errors.Is(err, os.ErrNotExist):
		code = proto.CodeNotFound
	}
	return &proto.Error{Code: code, Op: op, Message: err.Error()}
}
