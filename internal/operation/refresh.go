package operation

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
)

// reality is what exists, as read just now, beside what the state recorded.
type reality struct {
	have     []plan.Existing
	recorded map[addr.Resource]cty.Value
	gone     map[addr.Resource]string
}

// look reads every recorded resource. h is nil when the lab's hypervisor does
// not run: then everything is proven gone with it.
func look(ctx context.Context, st state.State, h *host) (reality, error) {
	r := reality{recorded: map[addr.Resource]cty.Value{}, gone: map[addr.Resource]string{}}
	ps, err := offline()
	if err != nil {
		return r, err
	}
	existing, err := st.Existing(ps)
	if err != nil {
		return r, err
	}
	for _, e := range existing {
		r.recorded[e.Addr] = e.Value
	}
	if h == nil {
		for _, e := range existing {
			r.gone[e.Addr] = "gone with the hypervisor that held it"
		}
		return r, nil
	}
	seen, err := walk.Refresh(ctx, existing, walk.Options{Providers: h.providers})
	r.have, r.gone = seen.Have, seen.Gone
	return r, err
}

// compare makes the plan of changes.
func compare(ps *plan.Providers, wanted []provider.Resource, r reality, targets, replace []string) (plan.Plan, error) {
	t, err := nouns(targets)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("--target: %w", err)
	}
	rep, err := nouns(replace)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("--replace: %w", err)
	}
	return diff.Compute(diff.Input{
		Providers: ps, Wanted: wanted, Have: r.have, Recorded: r.recorded, Gone: r.gone, Targets: t, Replace: rep,
	})
}

func nouns(texts []string) ([]addr.Noun, error) {
	var out []addr.Noun
	for _, t := range texts {
		n, err := addr.ParseNoun(t)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}
