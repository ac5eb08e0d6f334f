package libvirt

import (
	"context"
	"errors"

	rpc "github.com/digitalocean/go-libvirt"

	"github.com/lvslab/lvslab/provider"
)

// effect makes a call that changes something. When the connection breaks amid it,
// nobody knows whether it was carried out: happened looks, on a new connection, and
// what did not happen is asked for once more. A call without an answer at its
// deadline is not repeated, since libvirt may still be at it; the caller looks.
func (p *Provider) effect(ctx context.Context, fn func(*rpc.Libvirt) error, happened func() (bool, error)) error {
	err := p.conn.Do(ctx, makeTimeout, fn)
	if !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	switch done, lookErr := happened(); {
	case lookErr != nil:
		return err
	case done:
		return nil
	}
	return p.conn.Do(ctx, makeTimeout, fn)
}

// there and gone turn what a look has found into an answer for effect.
func there(err error) (bool, error) {
	if errors.Is(err, provider.ErrGone) {
		return false, nil
	}
	var paused *pausedError
	if errors.Is(err, errInactive) || errors.As(err, &paused) {
		return true, nil
	}
	return err == nil, err
}

func gone(err error) (bool, error) {
	is, err := there(err)
	return !is && err == nil, err
}
