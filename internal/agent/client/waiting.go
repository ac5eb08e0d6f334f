package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// ErrEnrolled is wrapped by AwaitUnenrolled when the guest has an identity.
var ErrEnrolled = errors.New("the guest is enrolled already")

// AwaitUnenrolled waits until the agent of a guest that is booting answers on
// a port, has it start what is to be prepared (on the engine port), and leaves
// without having given it an identity. Like [WaitReady] it ends early, with an
// error that wraps a [*BootError], when the boot has hung.
func AwaitUnenrolled(ctx context.Context, node string, open func(context.Context) (net.Conn, error), console Console, prepare ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if boot := watch(ctx, console); boot != nil {
			boot.Node = node
			cancel(boot)
		}
	}()
	var last error
	for {
		raw, err := open(ctx)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { raw.Close() })
			err = lookIn(raw, prepare)
			stop()
			raw.Close()
			var refused *proto.Error
			if err == nil || errors.Is(err, ErrEnrolled) || errors.As(err, &refused) {
				return err
			}
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", context.Cause(ctx), last)
		case <-time.After(reopenEvery):
		}
	}
}

// lookIn greets the agent and hands it what to prepare.
func lookIn(raw net.Conn, prepare []string) error {
	r := bufio.NewReader(raw)
	h, err := greet(raw, r)
	switch {
	case err != nil:
		return err
	case h.Enrolled:
		return ErrEnrolled
	case len(prepare) == 0:
		return nil
	}
	if err := proto.WriteLine(raw, proto.Prepare{Start: prepare}); err != nil {
		return err
	}
	for {
		line, err := proto.ReadLine(r)
		if err != nil {
			return err
		}
		if p, ok := proto.ParsePrepared(line); ok {
			if p.Error != "" {
				return &proto.Error{Code: proto.CodeFailed, Op: "prepare", Message: p.Error}
			}
			return nil
		}
	}
}
