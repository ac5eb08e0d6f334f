package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func TestAwaitStart(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	began := time.Now()
	for _, at := range []int64{0, began.Add(-time.Hour).UnixNano()} {
		if err := awaitStart(ctx, at); err != nil || time.Since(began) > time.Second {
			t.Errorf("%d: %v after %v", at, err, time.Since(began))
		}
	}
	at := time.Now().Add(30 * time.Millisecond)
	if err := awaitStart(ctx, at.UnixNano()); err != nil || time.Now().Before(at) {
		t.Errorf("%v, %v before its time", err, time.Until(at))
	}
	var e *proto.Error
	if err := awaitStart(ctx, time.Now().Add(time.Hour).UnixNano()); !errors.As(err, &e) || e.Code != proto.CodeInvalid {
		t.Errorf("in an hour: %v", err)
	}
	cancel()
	if err := awaitStart(ctx, time.Now().Add(30*time.Second).UnixNano()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
