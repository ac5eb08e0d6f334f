package operation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/plan/state"
)

// SweepOptions are sweep's flags.
type SweepOptions struct {
	Labs        []string // names of labs to take down although they have a state
	AutoApprove bool
	Confirm     Confirm
}

// Sweep finds what labs have left on this machine without any state: every
// hypervisor that lvslab starts stands in the machine's registry. It passes
// over labs that somebody works on, and over those that have a state, unless
// they are named.
func Sweep(ctx context.Context, s *Settings, o SweepOptions) (Exit, error) {
	entries, err := hypervisor.List(ctx)
	if err != nil {
		return ExitError, err
	}
	var remove []hypervisor.Entry
	for _, e := range entries {
		why, err := passOver(e, o.Labs)
		if err != nil {
			return ExitError, err
		}
		line := fmt.Sprintf("%s (%s, process %d, %s)", e.Lab, e.LabDir, e.PID, e.Status)
		if why != "" {
			s.Events.Emit(NoticeEvent{Text: "passed over  " + line + ": " + why})
			continue
		}
		s.Events.Emit(NoticeEvent{Text: "left over    " + line})
		remove = append(remove, e)
	}
	for _, name := range o.Labs {
		if !slices.ContainsFunc(entries, func(e hypervisor.Entry) bool { return e.Lab == name }) {
			return ExitError, diag.Fail(nil, "No such lab on this machine", "Leave the name out to see all.", "no hypervisor of a lab %q is registered", name)
		}
	}
	if len(remove) == 0 {
		s.Events.Emit(NoticeEvent{Text: "Nothing to sweep."})
		return ExitDone, nil
	}
	if !o.AutoApprove {
		yes, err := o.Confirm(ctx, fmt.Sprintf("Remove %d labs with everything in them?", len(remove)))
		if errors.Is(err, ErrNoTerminal) {
			return ExitError, diag.Fail(err, "Sweep needs a yes", "Pass --auto-approve.", "%d labs would be removed", len(remove))
		}
		if err != nil || !yes {
			return ExitError, errors.Join(err, errDeclined)
		}
	}
	var failed []error
	for _, e := range remove {
		if err := e.Holder.Stop(context.WithoutCancel(ctx)); err != nil {
			failed = append(failed, err)
			continue
		}
		s.Events.Emit(NoticeEvent{Text: "removed      " + e.Lab + ", verified"})
	}
	return exitFor(failed), errors.Join(failed...)
}

func exitFor(errs []error) Exit {
	if len(errs) > 0 {
		return ExitError
	}
	return ExitDone
}

// passOver says why a lab is left alone, "" when it is not.
func passOver(e hypervisor.Entry, named []string) (string, error) {
	if holder, held, err := state.Held(e.LabDir); err != nil {
		return "", err
	} else if held {
		return "somebody works on it: " + holder.String(), nil
	}
	if slices.Contains(named, e.Lab) {
		return "", nil
	}
	if len(named) > 0 {
		return "it was not named", nil
	}
	st, err := state.Read(e.LabDir)
	switch {
	case err == nil && st.Lineage == e.Lineage && e.Status == hypervisor.Running:
		return "it has a state; 'lvslab destroy' there takes it down, or name it", nil
	case err == nil || errors.Is(err, state.ErrNone) || errors.Is(err, state.ErrMissing):
		return "", nil
	}
	return strings.TrimSpace(fmt.Sprintf("its state in %s cannot be read; name the lab to remove it", filepath.Base(e.LabDir))), nil
}
