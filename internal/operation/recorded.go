package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/state"
)

// StateOptions are those of the state commands.
type StateOptions struct {
	Lab string
	// Addresses are nouns or resources; an address without its key or part means
	// all that belong to it.
	Addresses []string
}

// StateList prints the addresses that the state holds, all of them or those
// that belong to the addresses given.
func StateList(ctx context.Context, s *Settings, o StateOptions) (Exit, error) {
	l, picked, err := s.recorded(ctx, o)
	if err != nil {
		return ExitError, err
	}
	var lines []string
	type entry struct {
		Address addr.Resource `json:"address"`
		Type    string        `json:"type"`
		Status  state.Status  `json:"status"`
	}
	list := []entry{}
	for _, r := range picked {
		list = append(list, entry{r.Addr, r.Type, r.Status})
		lines = append(lines, r.Addr.String())
	}
	raw, err := json.Marshal(struct {
		Lab       string  `json:"lab"`
		Serial    uint64  `json:"serial"`
		Resources []entry `json:"resources"`
	}{l.state.Lab, l.state.Serial, list})
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "state_list", Text: strings.Join(lines, "\n"), Data: raw})
	return ExitDone, nil
}

// StateShow prints what the state holds of the addresses given, without what is
// sensitive.
func StateShow(ctx context.Context, s *Settings, o StateOptions) (Exit, error) {
	l, err := s.findLab(ctx, o.Lab)
	if err != nil {
		return ExitError, err
	}
	if l.state, err = maskedState(l.state); err != nil {
		return ExitError, err
	}
	picked, err := pick(l.state, o.Addresses)
	if err != nil {
		return ExitError, err
	}
	ps, err := offline()
	if err != nil {
		return ExitError, err
	}
	var blocks []string
	for _, r := range picked {
		text, err := recordText(r, ps)
		if err != nil {
			return ExitError, err
		}
		blocks = append(blocks, text)
	}
	raw, err := json.Marshal(picked)
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "state_show", Text: strings.Join(blocks, "\n\n"), Data: raw})
	return ExitDone, nil
}

// recordText shows one record.
func recordText(r state.Resource, ps *plan.Providers) (string, error) {
	_, schema, err := ps.For(r.Type)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Addr, err)
	}
	v, err := r.Value(schema)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", schema.Noun, r.Addr)
	if r.Status == state.Tainted {
		b.WriteString(" (tainted: the next apply makes it anew)")
	}
	if len(r.Half) > 0 {
		b.WriteString(" (an update of it did not end: the next apply looks what came of it)")
	}
	if !r.Within.IsZero() {
		fmt.Fprintf(&b, "\n  # within %s", r.Within)
	}
	for _, d := range r.DependsOn {
		fmt.Fprintf(&b, "\n  # needs %s", d)
	}
	for _, l := range diff.Attributes(v) {
		b.WriteString("\n  " + strings.TrimRight(strings.Repeat("    ", max(l.Indent-1, 0))+l.Text, " "))
	}
	return b.String(), nil
}

// StateRemove makes the state forget resources, and what is within them,
// without touching what exists.
func StateRemove(ctx context.Context, s *Settings, o StateOptions) (Exit, error) {
	l, err := s.hereOnly(ctx, o.Lab)
	if err != nil {
		return ExitError, err
	}
	store, err := s.openStore(ctx, l.dir)
	if err != nil {
		return ExitError, err
	}
	defer store.Close()
	if _, err := store.Recover(); err != nil { // what a crash left in the journal can be forgotten, too
		return ExitError, err
	}
	st := store.State()
	picked, err := pick(st, o.Addresses)
	if err != nil {
		return ExitError, err
	}
	gone := withContents(st, picked)
	if err := store.Recorder().Gone(0, gone...); err != nil {
		return ExitError, err
	}
	var names []string
	for _, a := range gone {
		names = append(names, a.String())
	}
	raw, err := json.Marshal(map[string]any{"lab": st.Lab, "removed": gone, "serial": store.State().Serial})
	if err != nil {
		return ExitError, err
	}
	text := "Forgotten, and left as it is:\n  " + strings.Join(names, "\n  ")
	s.Events.Emit(ReportEvent{Kind: "state_rm", Text: text, Data: raw})
	return ExitDone, nil
}

// withContents adds what is held by those resources, directly or through others.
func withContents(st state.State, picked []state.Resource) []addr.Resource {
	gone := map[addr.Resource]bool{}
	for _, r := range picked {
		gone[r.Addr] = true
	}
	for grown := true; grown; {
		grown = false
		for _, r := range st.Resources {
			if gone[r.Within] && !gone[r.Addr] {
				gone[r.Addr], grown = true, true
			}
		}
	}
	var out []addr.Resource
	for _, r := range st.Resources {
		if gone[r.Addr] {
			out = append(out, r.Addr)
		}
	}
	return out
}

// recorded finds a lab and the resources that are meant.
func (s *Settings) recorded(ctx context.Context, o StateOptions) (lab, []state.Resource, error) {
	l, err := s.findLab(ctx, o.Lab)
	if err != nil {
		return lab{}, nil, err
	}
	picked, err := pick(l.state, o.Addresses)
	return l, picked, err
}

// pick returns the resources that belong to any of the addresses, all of them
// without addresses.
func pick(st state.State, addresses []string) ([]state.Resource, error) {
	if len(addresses) == 0 {
		return st.Resources, nil
	}
	chosen := map[addr.Resource]bool{}
	for _, text := range addresses {
		match, err := matcher(text)
		if err != nil {
			return nil, err
		}
		hit := false
		for _, r := range st.Resources {
			if match(r.Addr) {
				chosen[r.Addr], hit = true, true
			}
		}
		if !hit {
			return nil, diag.Fail(nil, "Not in the state", "Use an address that 'lvslab state list' prints.",
				"lab %s has no %s", st.Lab, text)
		}
	}
	return slices.DeleteFunc(slices.Clone(st.Resources), func(r state.Resource) bool { return !chosen[r.Addr] }), nil
}

// matcher reads an address as users give it.
func matcher(text string) (func(addr.Resource) bool, error) {
	if r, err := addr.ParseResource(text); err == nil {
		return func(a addr.Resource) bool { return a == r }, nil
	}
	n, err := addr.ParseNoun(text)
	if err != nil {
		return nil, diag.Fail(err, "Not an address", "Write a block or one of its resources, for example backend.ns[0] or backend.ns[0]/domain.", "")
	}
	return func(a addr.Resource) bool { return n.Covers(a.Noun) }, nil
}
