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
	// Settled lists what an update had left half done and is known by looking.
	Settled []addr.Resource
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
				out.Gone[e.Addr] = howGone(e.Addr, r.err)
			case r.err != nil:
				failures = append(failures, Failure{e.Addr, Read, r.err})
			default:
				out.found(e, r.value, o)
			}
		}
	}
	slices.SortFunc(out.Have, func(a, b plan.Existing) int { return a.Addr.Compare(b.Addr) })
	slices.SortFunc(out.Changed, addr.Resource.Compare)
	slices.SortFunc(out.Settled, addr.Resource.Compare)
	return out, errors.Join(failures...)
}

// found sorts in what exists. What an update has left half done differs from its
// record without anybody's doing; it is settled, unless it must be replaced.
func (r *Refreshed) found(e plan.Existing, now cty.Value, o Options) {
	differs := !now.RawEquals(e.Value)
	e.Value = now
	switch {
	case e.Half == cty.NilVal && differs:
		r.Changed = append(r.Changed, e.Addr)
	case e.Half != cty.NilVal && !o.Providers.Ambiguous(e):
		r.Settled = append(r.Settled, e.Addr)
	}
	r.Have = append(r.Have, e)
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

// howGone turns a provider's error into a reason for the plan, which stands
// behind the address.
func howGone(a addr.Resource, err error) string {
	text := strings.TrimSuffix(strings.TrimSuffix(err.Error(), provider.ErrGone.Error()), ": ")
	text = strings.TrimPrefix(text, a.String()+": ")
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
	look := func(as cty.Value) (cty.Value, error) {
		r := e.Resource()
		r.Attrs = as
		v, err := bounded(ctx, o, Read, e.Type, func(ctx context.Context) (cty.Value, error) { return p.Read(ctx, r, as) })
		if err != nil {
			return cty.NilVal, err
		}
		return v, conforms(v, schema)
	}
	v, err := look(e.Value)
	if !o.Providers.Ambiguous(e) {
		return v, err
	}
	// A part of it may have the names of the one description, a part those of the
	// other: it is gone when it is gone under both.
	half, herr := look(e.Half)
	if err == nil && errors.Is(herr, provider.ErrGone) {
		return v, nil
	}
	if herr == nil && errors.Is(err, provider.ErrGone) {
		return half, nil
	}
	return v, firstOf(err, herr)
}

// Record writes what a refresh has found down, so that the state says it too.
// What is in doubt stays as it was recorded, with both descriptions if it has two.
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
	write := map[addr.Resource]bool{}
	for _, a := range slices.Concat(r.Changed, r.Settled) {
		write[a] = true
	}
	for _, e := range r.Have {
		if e.Tainted || !write[e.Addr] {
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
