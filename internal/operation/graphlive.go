package operation

import (
	"cmp"
	"context"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan/graph"
	"github.com/lvslab/lvslab/provider"
)

// The states of a condition, the worst last.
const (
	liveAsRecorded = "as recorded"
	liveLeftOver   = "no longer in the topology"
	liveNotMade    = "not made"
	liveChanged    = "changed outside lvslab"
	liveGone       = "gone"
)

var fromBestToWorst = []string{liveAsRecorded, liveLeftOver, liveNotMade, liveChanged, liveGone}

// condition is what a look at the lab has found of a resource, or of all the
// resources of a block.
type condition struct {
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// follows says that it went with what it is within: that is the cause.
	follows bool
}

func (c condition) look() graph.Look {
	switch c.State {
	case liveAsRecorded:
		return graph.Look{Color: "green"}
	case liveNotMade:
		return graph.Look{Note: c.State, Color: "gray", Dashed: true}
	case liveLeftOver:
		return graph.Look{Note: c.State, Color: "blue"}
	case liveChanged:
		return graph.Look{Note: c.State, Color: "orange"}
	case liveGone:
		return graph.Look{Note: c.Reason, Color: "red"}
	}
	return graph.Look{} // nobody makes it: a check, a variable
}

// conditions looks at the lab, without its lock and without effect.
func (a *applying) conditions(ctx context.Context, wanted []provider.Resource) (map[addr.Resource]condition, error) {
	var err error
	if a.keys, err = openKeys(a.dir, nil); err != nil {
		return nil, err
	}
	defer func() { a.host.close(); a.host = nil }()
	if err := a.lookAround(ctx); err != nil {
		return nil, err
	}
	return a.reality.conditions(wanted), nil
}

func (r reality) conditions(wanted []provider.Resource) map[addr.Resource]condition {
	found := map[addr.Resource]condition{}
	for _, e := range r.have {
		found[e.Addr] = condition{State: liveLeftOver}
	}
	for _, w := range wanted {
		if _, exists := found[w.Addr]; exists {
			found[w.Addr] = condition{State: liveAsRecorded}
		} else {
			found[w.Addr] = condition{State: liveNotMade}
		}
	}
	for _, c := range r.changed {
		found[c] = condition{State: liveChanged}
	}
	for g, why := range r.gone {
		found[g] = condition{State: liveGone, Reason: why}
	}
	for _, e := range r.existing {
		if c := found[e.Addr]; c.State == liveGone && found[e.Within].State == liveGone {
			c.follows = true
			found[e.Addr] = c
		}
	}
	return found
}

// ofNouns gives every block the worst condition that one of its resources has; of
// those that are equally bad, that of the first resource which did not just go with
// another one, so that the cause is shown, and a lab is always drawn the same.
func ofNouns(found map[addr.Resource]condition) map[addr.Noun]condition {
	if found == nil {
		return nil
	}
	var all []addr.Resource
	for r := range found {
		all = append(all, r)
	}
	slices.SortFunc(all, addr.Resource.Compare)
	worst := map[addr.Noun]condition{}
	for _, r := range all {
		c := found[r]
		w, seen := worst[r.Noun]
		rank := cmp.Compare(slices.Index(fromBestToWorst, c.State), slices.Index(fromBestToWorst, w.State))
		if !seen || rank > 0 || rank == 0 && w.follows && !c.follows {
			worst[r.Noun] = c
		}
	}
	return worst
}
