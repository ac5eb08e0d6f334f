package operation

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/schema"
)

// overlookLoans takes what an open loan covers for what it was before: a plan
// that is only shown holds no lock and gives nothing back, but whoever has
// borrowed does, or the next apply. It says so.
func (a *applying) overlookLoans() error {
	pending, err := state.ReadPending(a.dir)
	if err != nil {
		return err
	}
	for _, in := range pending {
		if in.Op != opExperiment {
			continue
		}
		loan, err := loanIn(in)
		if err != nil {
			return err
		}
		if !a.reality.overlook(loan.Director.String()) {
			continue
		}
		text := fmt.Sprintf("%s had borrowed the services of %s when it was ended; the next apply gives them back.", loan.Borrower, loan.Director)
		if _, held, err := state.Held(a.dir); err == nil && held {
			text = fmt.Sprintf("%s has borrowed the services of %s and gives them back when it is done.", loan.Borrower, loan.Director)
		}
		a.Events.Emit(NoticeEvent{Text: text})
	}
	return nil
}

// loanIn returns the loan that an intent has recorded.
func loanIn(in state.Intent) (experiment.Loan, error) {
	var loan experiment.Loan
	if err := json.Unmarshal(in.Data, &loan); err != nil {
		return loan, fmt.Errorf("loan in the journal: %w", err)
	}
	return loan, nil
}

// overlook puts the recorded services of a director in the place of what was
// read, and reports whether that made a difference. What went with the director's
// boot is gone and stays so: a loan ends with it.
func (r *reality) overlook(director string) bool {
	differed := false
	for _, e := range r.existing {
		if e.Type != schema.TypeIPVS || e.Half != cty.NilVal || schema.Text(e.Value, "node") != director || !r.boots(director, schema.Text(e.Value, "boot_id")) {
			continue
		}
		at := slices.IndexFunc(r.have, func(h plan.Existing) bool { return h.Addr == e.Addr })
		_, gone := r.gone[e.Addr]
		switch {
		case at >= 0 && slices.Contains(r.changed, e.Addr):
			r.have[at].Value = e.Value
			r.changed = slices.DeleteFunc(r.changed, func(a addr.Resource) bool { return a == e.Addr })
		case gone: // between two runs there is none for a moment
			delete(r.gone, e.Addr)
			r.have = append(r.have, e)
			slices.SortFunc(r.have, func(a, b plan.Existing) int { return a.Addr.Compare(b.Addr) })
		default:
			continue
		}
		differed = true
	}
	return differed
}

// boots reports whether a machine is still in that boot: something else that was
// set in it was read.
func (r *reality) boots(node, boot string) bool {
	return slices.ContainsFunc(r.have, func(h plan.Existing) bool {
		return schema.Text(h.Value, "node") == node && schema.Text(h.Value, "boot_id") == boot && boot != ""
	})
}
