package walk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

// Read is the operation's name in deadlines and errors.
const Read plan.Op = "read"

// Refreshed is what a refresh has found.
type Refreshed struct {
	// Have is what exists, with its attributes as read, sorted by address.
	Have []plan.Existing
	// Gone says of what does not exist any more how that was found.
	Gone map[addr.Resource]string
	// Changed lists what is not as it was recorded.
	Changed []addr.Resource
}

// Refresh reads everything that the state holds. What is within something that
// is gone is gone too and not asked for. An error means that something could
// not be read: it is unknown then, never taken for gone.
func Refresh(ctx context.Context, have []plan.Existing, o Options) (Refreshed, error) {
	out := Refreshed{Gone: map[addr.Resource]string{}}
	var failures []error
	for layer := range layers(have) {
		var ask []plan.Existing
		for _, e := range layer {
			if _, lost := out.Gone[e.Within]; lost {
				out.Gone[e.Addr] = "gone with " + e.Within.String()
			} else {
				ask = append(ask, e)
			}
		}
		for i, r := range readAll(ctx, ask, o) {
			e := ask[i]
			switch {
			case errors.Is(r.err, provider.ErrGone):
				out.Gone[e.Addr] = howGone(r.err)
			case r.err != nil:
				failures = append(failures, Failure{e.Addr, Read, r.err})
			default:
				if !r.value.RawEquals(e.Value) {
					out.Changed = append(out.Changed, e.Addr)
				}
				e.Value = r.value
				out.Have = append(out.Have, e)
			}
		}
	}
	slices.SortFunc(out.Have, func(a, b plan.Existing) int { return a.Addr.Compare(b.Addr) })
	slices.SortFunc(out.Changed, addr.Resource.Compare)
	return out, errors.Join(failures...)
}

// layers yields the resources by how deep they are held: first those that
// nothing holds, then what is within them.
func layers(have []plan.Existing) func(yield func([]plan.Existing) bool) {
	return func(yield func([]plan.Existing) bool) {
		rest := slices.Clone(have)
		waiting := map[addr.Resource]bool{}
		for _, e := range rest {
			waiting[e.Addr] = true
		}
		for len(rest) > 0 {
			var layer, later []plan.Existing
			for _, e := range rest {
				if waiting[e.Within] && e.Within != e.Addr {
					later = append(later, e)
				} else {
					layer = append(layer, e)
				}
			}
			if len(layer) == 0 { // a circle, which no lvslab wrote: read it as it is
				layer, later = later, nil
			}
			for _, e := range layer {
				delete(waiting, e.Addr)
			}
			if !yield(layer) {
				return
			}
			rest = later
		}
	}
}

// howGone turns a provider's error into a reason for the plan.
func howGone(err error) string {
	text := strings.TrimSuffix(strings.TrimSuffix(err.Error(), provider.ErrGone.Error()), ": ")
	if text == "" {
		return "it existed, but is gone"
	}
	return text
}

type reading struct {
	value cty.Value
	err   error
}

func readAll(ctx context.Context, ask []plan.Existing, o Options) []reading {
	out := make([]reading, len(ask))
	slots := make(chan struct{}, o.parallelism())
	var wg sync.WaitGroup
	for i, e := range ask {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i].value, out[i].err = readOne(ctx, e, o)
		})
	}
	wg.Wait()
	return out
}

// readOne reads one resource. Reading has no effect that would have to be
// finished, so the context cancels it.
func readOne(ctx context.Context, e plan.Existing, o Options) (cty.Value, error) {
	if err := ctx.Err(); err != nil {
		return cty.NilVal, err
	}
	p, schema, err := o.Providers.For(e.Type)
	if err != nil {
		return cty.NilVal, err
	}
	o.Abort = ctx
	v, err := bounded(ctx, o, Read, e.Type, func(ctx context.Context) (cty.Value, error) {
		return p.Read(ctx, e.Resource(), e.Value)
	})
	if err != nil {
		return cty.NilVal, err
	}
	return v, conforms(v, schema)
}

// Record writes what a refresh has found down, so that the state says it too.
// What is in doubt stays as it was recorded.
func (r Refreshed) Record(rec Recorder) error {
	if len(r.Gone) > 0 {
		var gone []addr.Resource
		for a := range r.Gone {
			gone = append(gone, a)
		}
		if err := rec.Gone(0, gone...); err != nil {
			return err
		}
	}
	for _, e := range r.Have {
		if _, changed := slices.BinarySearchFunc(r.Changed, e.Addr, addr.Resource.Compare); !changed || e.Tainted {
			continue
		}
		if err := rec.Made(0, e.Resource(), e.Value, nil); err != nil {
			return err
		}
	}
	return nil
}

// Warnings tells of what was not as recorded, for --refresh-only and the head
// of a plan.
func (r Refreshed) Warnings() diag.Diagnostics {
	var out diag.Diagnostics
	for _, a := range r.Changed {
		out = append(out, diag.Warnf("changed outside lvslab", "the plan says what apply would do about it", "it is not as it was left").For(a.String()))
	}
	for a, how := range r.Gone {
		out = append(out, diag.Warnf("gone", "apply makes it again", "%s", how).For(a.String()))
	}
	slices.SortFunc(out, func(a, b diag.Diagnostic) int { return strings.Compare(fmt.Sprint(a.Address), fmt.Sprint(b.Address)) })
	return out
}
