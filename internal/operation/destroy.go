package operation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/version"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/libvirt"
)

// Destroy takes a lab down and proves that nothing of it is left. The state
// survives with its lineage and outputs. What a killed apply has left of a
// template that it was making goes too, when its maker has died.
func Destroy(ctx context.Context, s *Settings, ref string, o DestroyOptions) (Exit, error) {
	exit, err := s.destroy(ctx, ref, o)
	if err != nil {
		return exit, err
	}
	cache, err := images.DefaultCacheDir()
	if err != nil {
		return ExitError, err
	}
	err = images.SweepTemplates(cache, endAbandoned(context.WithoutCancel(ctx)))
	if errors.Is(err, libvirt.ErrNoConnection) {
		s.warn(diag.Diagnostics{diag.Warnf("Something of another lab's template is left", "Run lvslab sweep when its libvirt runs again.", "%v", err)})
		return exit, nil
	}
	if err != nil {
		return ExitError, fmt.Errorf("remove what was left of a template: %w", err)
	}
	return exit, nil
}

func (s *Settings) destroy(ctx context.Context, ref string, o DestroyOptions) (Exit, error) {
	l, err := s.hereOnly(ctx, ref)
	switch {
	case errors.Is(err, state.ErrNone):
		return s.destroyWithoutState(ctx, ref, l.dir, nil, o)
	case errors.Is(err, state.ErrMissing), errors.Is(err, state.ErrUnreadable):
		return s.destroyWithoutState(ctx, ref, l.dir, err, o)
	case err != nil:
		return ExitError, err
	}
	store, err := s.openStore(ctx, l.dir)
	if err != nil {
		return ExitError, err
	}
	defer store.Close()
	if _, err := store.Recover(); err != nil { // what a crash left is taken down, too
		return ExitError, err
	}
	holder, err := findHolder(ctx, store.State().Lineage)
	if err != nil && holder == nil {
		s.warn(diag.From(err))
	}
	st := store.State()
	if holder == nil && len(st.Resources) == 0 && len(st.Hypervisor) == 0 && len(ofTheLab(store.Pending())) == 0 {
		s.Events.Emit(NoticeEvent{Text: fmt.Sprintf("Nothing to destroy: lab %s is down.", st.Lab)})
		return ExitDone, nil
	}
	if !o.AutoApprove && len(st.Resources) > 0 {
		yes, err := o.Confirm(ctx, fmt.Sprintf("Destroy lab %s with %s?", st.Lab, describe(st)))
		if errors.Is(err, ErrNoTerminal) {
			return ExitError, diag.Fail(err, "Destroy needs a yes", "Pass --auto-approve.", "lab %s has %s", st.Lab, describe(st))
		}
		if err != nil || !yes {
			return ExitError, errors.Join(err, errDeclined)
		}
	}
	if err := s.takeDown(ctx, store); err != nil {
		s.Events.Emit(NoticeEvent{Text: remaining(ctx, store.State())})
		return ExitError, err
	}
	return ExitDone, nil
}

// remaining lists what a destroy could not remove, as far as is known.
func remaining(ctx context.Context, st state.State) string {
	lines := []string{"Left of lab " + st.Lab + ", for the next destroy:"}
	if h, status, _ := hypervisor.Find(ctx, st.Lineage); h != nil && status != hypervisor.Gone {
		lines = append(lines, fmt.Sprintf("hypervisor, process %d, with all that is in it", h.PID))
	}
	for _, r := range st.Resources {
		lines = append(lines, r.Addr.String())
	}
	return strings.Join(lines, "\n  ")
}

// errDeclined is returned when the answer to a question was not yes.
var errDeclined = errors.New("nothing was changed: the answer was not yes")

func describe(st state.State) string {
	machines := 0
	for _, r := range st.Resources {
		if r.Type == "domain" {
			machines++
		}
	}
	return fmt.Sprintf("%d machines and %d settings", machines, len(st.Resources)-machines)
}

// openStore locks an existing lab.
func (s *Settings) openStore(ctx context.Context, dir string) (*state.Store, error) {
	return state.Open(ctx, dir, s.storeOptions())
}

func (s *Settings) storeOptions() state.Options {
	o := state.Options{Lvslab: version.Version, Command: strings.Join(os.Args, " "), LockTimeout: s.LockTimeout}
	if s.LockTimeout > 0 {
		o.Waiting = func(h state.Holder) {
			s.Events.Emit(NoticeEvent{Text: "Waiting for the lock of the lab: " + h.String()})
		}
	}
	return o
}

// takeDown ends the lab's hypervisor, or deletes what the lab has on the
// user's libvirt, verifies it, and forgets the resources. It is carried out to
// its end even when ctx is cancelled.
func (s *Settings) takeDown(ctx context.Context, store *state.Store) error {
	ctx = context.WithoutCancel(ctx)
	s.phase(PhaseDestroy, "started", "")
	if _, err := store.Recover(); err != nil { // of this process's own walk, when a record failed
		return err
	}
	st := store.State()
	if err := s.takeDownForeign(ctx, store); err != nil {
		return err
	}
	if err := stopHolder(ctx, st.Lineage); err != nil {
		return err
	}
	for _, in := range ofTheLab(store.Pending()) {
		if err := store.End(in.Seq, nil); err != nil { // what it was about is gone
			return err
		}
	}
	if err := store.Empty(nil); err != nil {
		return err
	}
	if err := store.WriteKeys(nil); err != nil {
		return err
	}
	for _, name := range []string{"ports", sshDir} {
		if err := os.RemoveAll(filepath.Join(store.Dir(), name)); err != nil {
			return err
		}
	}
	s.phase(PhaseDestroy, "done", fmt.Sprintf("%s gone, verified", describe(st)))
	return nil
}
