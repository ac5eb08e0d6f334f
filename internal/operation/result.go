package operation

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/experiment"
)

// openResult makes the artifact, or takes up the interrupted one, and writes down
// what is known before the runs.
func (a *applying) openResult(ctx context.Context) (*artifact.Writer, error) {
	own, err := owner()
	if err != nil {
		return nil, err
	}
	var w *artifact.Writer
	if a.unfinished != nil {
		w, err = a.resumeResult(ctx, own)
	} else {
		w, err = artifact.Create(a.opts.Results, a.study.topology.Lab.Name, resultName(a.Started), own)
	}
	if err != nil {
		return nil, err
	}
	if err := a.addInputs(w); err != nil {
		return w, err
	}
	if a.unfinished == nil {
		if err := w.SetFactors(a.list.factors); err != nil {
			return w, err
		}
	}
	m, err := a.manifest(ctx)
	if err != nil {
		return w, err
	}
	a.sessions = append(a.sessions, a.session(ctx, m))
	m.Sessions = a.sessions
	if err := w.Checkpoint(m); err != nil {
		return w, err
	}
	return w, a.keepPaths(w)
}

// addInputs stores the topology as it was read, the variables and the plan.
func (a *applying) addInputs(w *artifact.Writer) (err error) {
	for _, f := range a.study.source.All() {
		err = errors.Join(err, w.AddInput(inputName(a.study.source.Root, f.Name), f.Bytes))
	}
	vars, verr := variablesJSON(a.study.topology.Variables)
	planned, perr := a.planJSON()
	if err = errors.Join(err, verr, perr); err != nil {
		return err
	}
	return errors.Join(w.AddInput(variablesFile, vars), w.SetPlan(planned))
}

// resumeResult opens the interrupted result under its lock, and looks once more at
// what it lacks.
func (a *applying) resumeResult(ctx context.Context, own *artifact.Owner) (*artifact.Writer, error) {
	w, u, err := artifact.Resume(ctx, a.unfinished.Dir(), own)
	if err != nil {
		return nil, err
	}
	a.unfinished = u
	a.repeated()
	a.lacking()
	a.sessions = u.Draft().Sessions
	links := u.Links()
	for _, r := range links[len(links)-1].Runs() {
		if !u.Whole[r.RunID] {
			continue
		}
		done := experiment.Done{Run: r}
		if data, err := u.ReadFile(artifact.RawDir + "/" + r.RunID + "/" + experiment.RenewedFile); err == nil {
			if err := json.Unmarshal(data, &done.Renewed); err != nil {
				return nil, err
			}
		}
		a.noteDone([]experiment.Done{done})
	}
	return w, nil
}

// session describes this apply's part in the result.
func (a *applying) session(ctx context.Context, m artifact.Manifest) artifact.Session {
	s := artifact.Session{StartedAt: a.Started.UTC().Truncate(time.Microsecond), Lineage: m.Lineage, Versions: m.Versions, Host: m.Host, HostBoot: a.hostBoot()}
	if a.host == nil {
		return s
	}
	s.GuestBoots = map[string]string{}
	for _, machine := range a.study.topology.Machines {
		if _, boot, err := a.host.nodes.caller(ctx, machine.Noun.String()); err == nil {
			s.GuestBoots[machine.Noun.String()] = boot
		}
	}
	return s
}

// ended are the sessions with the end of the last one.
func (a *applying) ended(why string) []artifact.Session {
	out := slices.Clone(a.sessions)
	if len(out) == 0 {
		return nil
	}
	last := &out[len(out)-1]
	if a.unsealed() {
		return out // this apply has made none of the runs
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	last.EndedAt, last.End, last.Runs = &now, why, len(a.made)
	for _, s := range out[:len(out)-1] {
		last.Runs -= s.Runs
	}
	return out
}

// sealOnly ends an apply whose result has all its runs: an earlier one was killed
// between the last run and the seal.
func (a *applying) sealOnly(ctx context.Context) (Exit, error) {
	own, err := owner()
	if err != nil {
		return ExitError, err
	}
	w, err := a.resumeResult(ctx, own)
	if err != nil {
		return ExitError, err
	}
	if err := a.addInputs(w); err != nil {
		return ExitError, err
	}
	if err := w.Checkpoint(a.unfinished.Draft()); err != nil {
		return ExitError, err
	}
	return a.conclude(ctx, w)
}
