package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/plan/state"
)

// SweepOptions are sweep's flags.
type SweepOptions struct {
	// Labs are names or directories of labs to take down although they have a state.
	Labs []string
	// Connect is a libvirt of the user's own on which labs are looked for, too; ""
	// = the one of LIBVIRT_DEFAULT_URI.
	Connect     string
	AutoApprove bool
	Confirm     Confirm
}

// Sweep finds what labs have left on this machine without any state: every
// hypervisor that lvslab starts stands in the machine's registry, and what is made
// on a libvirt of the user's own bears the lab's mark. It passes
// over labs that somebody works on, and over those that have a state, unless
// they are named. What a killed process has left of a template is removed from
// the cache.
func Sweep(ctx context.Context, s *Settings, o SweepOptions) (Exit, error) {
	entries, err := hypervisor.List(ctx)
	if err != nil {
		return ExitError, err
	}
	c, err := s.consulate(ctx, o.Connect)
	if err != nil {
		return ExitError, err
	}
	defer c.close()
	labs, err := c.labs(ctx)
	if err != nil {
		return ExitError, err
	}
	all := slices.Clone(entries)
	for _, l := range labs {
		all = append(all, l.entry())
	}
	for _, name := range o.Labs {
		if err := oneOf(all, name); err != nil {
			return ExitError, err
		}
	}
	l, err := s.leftovers(entries, o.Labs)
	if err == nil {
		l.consulate = c
		err = s.leftAbroad(&l, labs, o.Labs)
	}
	if err != nil {
		return ExitError, err
	}
	if l.empty() {
		s.Events.Emit(NoticeEvent{Text: "Nothing to sweep."})
		return ExitDone, nil
	}
	if err := agree(ctx, o.AutoApprove, o.Confirm, "Sweep", l); err != nil {
		return ExitError, err
	}
	failed := s.remove(context.WithoutCancel(ctx), l)
	return exitFor(failed), errors.Join(failed...)
}

// agree asks whether all that may go.
func agree(ctx context.Context, auto bool, ask Confirm, command string, l leftovers) error {
	if auto {
		return nil
	}
	yes, err := ask(ctx, fmt.Sprintf("Remove %s with everything in them?", l))
	if errors.Is(err, ErrNoTerminal) {
		return diag.Fail(err, command+" needs a yes", "Pass --auto-approve.", "%s would be removed", l)
	}
	if err != nil || !yes {
		return errors.Join(err, errDeclined)
	}
	return nil
}

// isNamed reports whether a lab is meant by one of these: names or directories
// of labs.
func isNamed(e hypervisor.Entry, named []string) bool {
	return slices.ContainsFunc(named, func(n string) bool { return n == e.Lab || isDir(n, e.LabDir) })
}

func isDir(name, dir string) bool {
	abs, err := filepath.Abs(name)
	return err == nil && strings.ContainsRune(name, filepath.Separator) && abs == dir
}

// oneOf refuses a name that no lab has, and one that several have: each may be
// somebody else's.
func oneOf(entries []hypervisor.Entry, name string) error {
	var dirs []string
	for _, e := range entries {
		if !e.Bound() && isNamed(e, []string{name}) {
			dirs = append(dirs, e.LabDir)
		}
	}
	switch {
	case len(dirs) > 1:
		return diag.Fail(nil, "Several labs have this name", "Give the directory of the one that you mean instead: "+strings.Join(dirs, ", ")+".",
			"%d labs of this machine are called %q", len(dirs), name)
	case len(dirs) == 0 && !slices.ContainsFunc(entries, func(e hypervisor.Entry) bool { return e.Lab == name }):
		return diag.Fail(nil, "No such lab on this machine", "Leave the name out to see all.", "no hypervisor of a lab %q is registered", name)
	}
	return nil
}

// leftovers are what a sweep removes.
type leftovers struct {
	holders []hypervisor.Entry
	// templates are the directories of unfinished ones.
	templates []string
	// abroad is on the libvirt that consulate is connected to.
	abroad    []abroad
	consulate *consulate
}

func (l leftovers) empty() bool { return len(l.holders)+len(l.templates)+len(l.abroad) == 0 }

func (l leftovers) String() string {
	labs := len(l.holders) + len(l.abroad)
	switch {
	case len(l.templates) == 0:
		return fmt.Sprintf("%d labs", labs)
	case labs == 0:
		return fmt.Sprintf("%d unfinished templates", len(l.templates))
	}
	return fmt.Sprintf("%d labs and %d unfinished templates", labs, len(l.templates))
}

// leftovers finds what to remove, and says it.
func (s *Settings) leftovers(entries []hypervisor.Entry, named []string) (leftovers, error) {
	var l leftovers
	var caches []string
	if cache, err := images.DefaultCacheDir(); err == nil && len(named) == 0 {
		caches = append(caches, cache)
	}
	for _, e := range entries {
		why, err := passOver(e, named)
		if err != nil {
			return l, err
		}
		line := fmt.Sprintf("%s (%s, process %d, %s)", e.Lab, e.LabDir, e.PID, e.Status)
		if e.PID == 0 {
			line = "registry entry of a lab that never came up (" + e.Path + ")"
		}
		if why != "" {
			s.Events.Emit(NoticeEvent{Text: "passed over  " + line + ": " + why})
			continue
		}
		s.Events.Emit(NoticeEvent{Text: "left over    " + line})
		l.holders = append(l.holders, e)
		if e.Bound() {
			caches = append(caches, images.CacheOf(e.LabDir))
		}
	}
	slices.Sort(caches)
	for _, cache := range slices.Compact(caches) {
		dirs, err := images.UnfinishedTemplates(cache)
		if err != nil {
			return l, fmt.Errorf("look for unfinished templates: %w", err)
		}
		for _, dir := range dirs {
			s.Events.Emit(NoticeEvent{Text: "left over    unfinished template " + dir})
		}
		l.templates = append(l.templates, dirs...)
	}
	return l, nil
}

// leftAbroad finds what to remove on a libvirt of the user's own, and says it.
func (s *Settings) leftAbroad(l *leftovers, labs []abroad, named []string) error {
	for _, found := range labs {
		why, err := passOverAbroad(found, named)
		if err != nil {
			return err
		}
		line := found.String() + " on " + l.consulate.uri
		if why != "" {
			s.Events.Emit(NoticeEvent{Text: "passed over  " + line + ": " + why})
			continue
		}
		s.Events.Emit(NoticeEvent{Text: "left over    " + line})
		l.abroad = append(l.abroad, found)
	}
	return nil
}

// remove removes all it can and returns what failed.
func (s *Settings) remove(ctx context.Context, l leftovers) []error {
	var failed []error
	for _, e := range l.holders {
		if err := e.Holder.Stop(ctx); err != nil {
			failed = append(failed, err)
			continue
		}
		s.Events.Emit(NoticeEvent{Text: "removed      " + cmp.Or(e.Lab, e.Lineage) + ", verified"})
	}
	for _, found := range l.abroad {
		if err := l.consulate.remove(ctx, found); err != nil {
			failed = append(failed, err)
			continue
		}
		s.Events.Emit(NoticeEvent{Text: "removed      " + found.String() + ", verified"})
	}
	for _, dir := range l.templates {
		if err := images.SweepTemplates(images.CacheOf(dir), endAbandoned(ctx)); err != nil {
			failed = append(failed, err)
			continue
		}
		s.Events.Emit(NoticeEvent{Text: "removed      " + dir})
	}
	return failed
}

func exitFor(errs []error) Exit {
	if len(errs) > 0 {
		return ExitError
	}
	return ExitDone
}

// passOver says why a lab is left alone, "" when it is not.
func passOver(e hypervisor.Entry, named []string) (string, error) {
	if e.Bound() {
		return passOverBound(e, named)
	}
	if e.LabDir == "" { // nothing was written before there is a process
		switch {
		case e.Status == hypervisor.Running:
			return "somebody is starting it", nil
		case len(named) > 0:
			return "it was not named", nil
		}
		return "", nil
	}
	if holder, held, err := state.Held(e.LabDir); err != nil {
		return "", err
	} else if held {
		return "somebody works on it: " + holder.String(), nil
	}
	if isNamed(e, named) {
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

// passOverBound is passOver for the hypervisor that a template is made in. It
// has no state and no lock; it is its maker's as long as that one lives, and
// ends with him, unless something keeps it from ending.
func passOverBound(e hypervisor.Entry, named []string) (string, error) {
	lives, err := e.StarterAlive()
	switch {
	case err != nil:
		return "", err
	case lives:
		return fmt.Sprintf("process %d is making a template in it", e.StarterPID), nil
	case len(named) > 0 && !isNamed(e, named):
		return "it was not named", nil
	}
	return "", nil
}
