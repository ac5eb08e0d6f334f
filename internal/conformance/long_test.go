package conformance

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Cases that wait for minutes are replayed when that is asked for, all at the
// same time, and only those that wait for hours are not.
func TestLong(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	want, at := int32(0), atomic.Int32{}
	for _, c := range cases {
		if w := waits(c.Script); w > longest && Unfit(c.Script, Schedulers, longer) == "" {
			want++
		}
	}
	together := make(chan struct{})
	slow := func(ctx context.Context, text string) (proto.ReplayResult, error) {
		if waits(parse(t, text)) > longest {
			if at.Add(1) == want {
				close(together)
			}
			select {
			case <-together: // none ends before all have begun
			case <-ctx.Done():
				return proto.ReplayResult{}, ctx.Err()
			}
		}
		return byModel(ctx, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	seen := 0
	list, err := RunCases(ctx, cases, Rules{Schedulers: Schedulers, Long: true}, slow, func(Outcome) { seen++ })
	if err != nil || seen != len(cases) || want < 25 || at.Load() != want {
		t.Fatalf("%v, %d of %d seen, %d of %d at the same time", err, seen, len(cases), at.Load(), want)
	}
	for i, o := range list {
		if o.Case != cases[i].Name || o.Result == Differs || o.Result == LeftOut && strings.HasPrefix(o.Why, "needs ") && waits(cases[i].Script) <= longer {
			t.Errorf("%+v", o)
		}
	}
	gone := errors.New("gone")
	_, err = RunCases(t.Context(), cases, Rules{Schedulers: Schedulers, Long: true}, func(ctx context.Context, text string) (proto.ReplayResult, error) {
		if waits(parse(t, text)) > longest {
			return proto.ReplayResult{}, gone
		}
		return byModel(ctx, text)
	}, func(Outcome) {})
	if !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}
