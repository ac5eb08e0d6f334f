package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Pipe joins an SSH client's streams to a guest's SSH server: what OpenSSH's
// ProxyCommand does. It returns when either side has ended. Who the guest is, the
// SSH client finds out by its key; of the spec only Node and Open are used.
func Pipe(ctx context.Context, spec DialSpec, in io.Reader, out io.Writer) error {
	raw, r, err := awaitServer(ctx, spec)
	if err != nil {
		return err
	}
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	go func() { // it ends with the process at the latest: a read of a terminal can't be broken off
		_, _ = io.Copy(raw, in)
		_ = raw.Close()
	}()
	_, err = io.Copy(out, &bufferedConn{Conn: raw, r: r})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("%s: %w: %w", spec.Node, ErrLost, err)
	}
	return nil
}

// awaitServer opens the port and makes sure that a guest with an identity is there.
func awaitServer(ctx context.Context, spec DialSpec) (net.Conn, *bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	raw, err := spec.Open(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", spec.Node, err)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	r := bufio.NewReaderSize(raw, 32<<10)
	hello, err := greet(raw, r)
	switch {
	case !stop():
		err = unreachable(ctx, spec.Node, err)
	case err != nil:
		err = fmt.Errorf("%s: %w: %w", spec.Node, ErrLost, err)
	case hello.Protocol != proto.Version:
		err = otherProtocol(spec.Node, hello.Protocol)
	case !hello.Enrolled:
		err = fmt.Errorf("%s: %w", spec.Node, ErrNotEnrolled)
	default:
		return raw, r, nil
	}
	raw.Close()
	return nil, nil, err
}
