package operation

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
)

// reality is what exists, as read just now, beside what the state recorded.
type reality struct {
	have     []plan.Existing
	existing []plan.Existing // as the state recorded them
	recorded map[addr.Resource]cty.Value
	gone     map[addr.Resource]string
	// changed are those that are not as they were recorded; settled are those that
	// an update had left half done and that are known by looking.
	changed, settled []addr.Resource
}

// lookAround finds the lab's hypervisor and reads what exists.
func (a *applying) lookAround(ctx context.Context) error {
	var err error
	if a.holder, err = findHolder(ctx, a.state().Lineage); err != nil {
		return err
	}
	if err := a.sameHypervisor(); err != nil {
		return err
	}
	if a.keys != nil {
		if err := a.connectRunning(ctx); err != nil {
			return err
		}
	}
	if a.store != nil {
		if err := a.takeBackPlants(ctx); err != nil {
			return err
		}
		if err := a.giveBackLoans(ctx); err != nil {
			return err
		}
	}
	a.reality, err = look(ctx, a.state(), a.host, a.parallelism())
	if a.store != nil {
		return err
	}
	if err != nil {
		return a.visitFailed(err)
	}
	return a.overlookLoans()
}

// look reads every recorded resource. h is nil when the lab's hypervisor does
// not run: then everything is proven gone with it.
func look(ctx context.Context, st state.State, h *host, parallelism int) (reality, error) {
	r := reality{recorded: map[addr.Resource]cty.Value{}, gone: map[addr.Resource]string{}}
	ps, err := offline()
	if err != nil {
		return r, err
	}
	existing, err := st.Existing(ps)
	if err != nil {
		return r, err
	}
	r.existing = existing
	for _, e := range existing {
		r.recorded[e.Addr] = e.Value
	}
	if h == nil {
		for _, e := range existing {
			r.gone[e.Addr] = "gone with the hypervisor that held it"
		}
		return r, nil
	}
	seen, err := walk.Refresh(ctx, existing, walk.Options{Providers: h.providers, Parallelism: parallelism})
	r.have, r.gone, r.changed, r.settled = seen.Have, seen.Gone, seen.Changed, seen.Settled
	return r, err
}

// compare makes the plan of changes.
func compare(ps *plan.Providers, wanted []provider.Resource, r reality, c Choices, t *lang.Topology) (plan.Plan, error) {
	only, err := targets(c.Target, t)
	if err != nil {
		return plan.Plan{}, err
	}
	var known []addr.Resource
	for _, w := range wanted {
		known = append(known, w.Addr)
	}
	for a := range r.recorded {
		known = append(known, a)
	}
	if err := replaceable(c.Replace, known); err != nil {
		return plan.Plan{}, err
	}
	return diff.Compute(diff.Input{
		Providers: ps, Wanted: wanted, Have: r.have, Recorded: r.recorded, Gone: r.gone, Targets: only, Replace: c.Replace,
	})
}
