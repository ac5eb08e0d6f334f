package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider"
)

// Run carries out the experiments on the lab that is up, whether or not their
// study is complete, and leaves the lab as it was.
func Run(ctx context.Context, s *Settings, path string, o RunOptions) (Exit, error) {
	a, err := s.prepare(path, ApplyOptions{Choices: Choices{Keep: true, Fresh: true, Results: o.Results}, JUnit: o.JUnit})
	if err != nil {
		return ExitError, err
	}
	if err := junitFits(o.JUnit); err != nil {
		return ExitError, err
	}
	if len(a.study.topology.Experiments) == 0 {
		return ExitError, diag.Fail(nil, "No experiments", "Declare an experiment block.", "%s declares none", path)
	}
	a.store, err = state.Open(ctx, a.dir, s.storeOptions())
	if errors.Is(err, state.ErrNone) {
		return ExitError, notUp(path)
	}
	if err != nil {
		return ExitError, err
	}
	defer a.store.Close()
	defer func() { a.host.close() }()
	if err := a.plan(ctx); err != nil {
		return ExitError, err
	}
	if a.host == nil {
		return ExitError, notUp(path)
	}
	if !a.changes.Empty() || len(a.moves()) > 0 {
		if err := a.showPlan(); err != nil {
			return ExitError, err
		}
		return ExitError, diag.Fail(nil, "The lab is not as declared", "Bring it in line with 'lvslab apply --keep "+path+"'.",
			"a run on another lab than the declared one would measure something else")
	}
	a.warnRenewals()
	a.prepareTemplates(ctx)
	exit, err := a.measure(ctx)
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		exit = ExitInterrupted
	}
	return exit, err
}

func notUp(path string) error {
	return diag.Fail(diag.Told(errNotUp), "The lab is not up", "Bring it up with 'lvslab apply --keep "+path+"'.", "there is no running lab for %s", path)
}

// giveBackLoans returns services that an experiment had borrowed when it was
// killed: the loan stands in the journal until it is given back.
func (a *applying) giveBackLoans(ctx context.Context) error {
	for _, in := range a.store.Pending() {
		if in.Op != opExperiment {
			continue
		}
		loan, err := loanIn(in)
		if err != nil {
			return err
		}
		if a.host != nil && a.stands(ctx, loan.Director) {
			// When it fails, the refresh that follows sees the borrowed
			// settings as a change and the plan repairs it.
			if err := loan.GiveBack(ctx, a.lab()); err != nil {
				a.Events.Emit(NoticeEvent{Text: fmt.Sprintf("%s had borrowed settings when it was ended: %v", loan.Borrower, err)})
			}
		}
		if err := a.store.End(in.Seq, nil); err != nil {
			return err
		}
	}
	return nil
}

// stands reports whether a machine is there and not in doubt: one that was being
// replaced has nothing that it could give back.
func (a *applying) stands(ctx context.Context, n addr.Noun) bool {
	r, v, _, err := a.domain(n.String())
	if err != nil || r.Status != state.OK {
		return false
	}
	_, err = a.host.libvirt.Read(ctx, provider.Resource{Addr: r.Addr, Type: r.Type, Attrs: v}, v)
	return !errors.Is(err, provider.ErrGone)
}
