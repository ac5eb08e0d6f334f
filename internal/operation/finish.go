package operation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/report"
	"github.com/lvslab/lvslab/internal/sighting"
	"github.com/lvslab/lvslab/plan/state"
)

// conclude ends an apply that did what it set out to do: seal the artifact,
// store the outputs, evaluate the checks, take down by policy, close the
// artifact. w is nil when nothing was measured. Each step may be repeated: an
// intent is open meanwhile, by which the next apply goes on where this one was
// killed.
func (a *applying) conclude(ctx context.Context, w *artifact.Writer) (Exit, error) {
	ctx = context.WithoutCancel(ctx) // what is measured is not thrown away by a late Ctrl-C
	e, err := a.evaluation(w, a.result)
	if err != nil {
		return ExitError, err
	}
	if w == nil {
		if e.problems.HasErrors() {
			return ExitError, e.problems.Err()
		}
		return a.settle(ctx, e, "", "")
	}
	seq, err := a.beginConclusion(w)
	if err != nil {
		return ExitError, err
	}
	dir, screen, err := a.seal(ctx, w, e)
	if err != nil {
		return ExitError, errors.Join(err, a.store.End(seq, err))
	}
	return a.settled(ctx, seq, e, dir, screen)
}

// settled is settle under its intent, which stays open when something is left to be
// done again.
func (a *applying) settled(ctx context.Context, seq uint64, e evaluation, dir, screen string) (Exit, error) {
	exit, err := a.settle(ctx, e, dir, screen)
	if err == nil {
		err = a.store.End(seq, nil)
	}
	return exit, errors.Join(e.problems.Err(), err)
}

// evaluation is what checks and outputs make of a result.
type evaluation struct {
	lang.Conclusion
	problems diag.Diagnostics
	runs     []artifact.Run
	rows     []artifact.BackendRow
	paths    sighting.Proofs
	exit     Exit
}

// evaluation reads the result that is being written, or the sealed one.
func (a *applying) evaluation(w *artifact.Writer, sealed string) (evaluation, error) {
	var e evaluation
	var err error
	if e.runs, e.rows, e.paths, err = measured(w, sealed); err != nil {
		return e, err
	}
	e.Conclusion, e.problems = a.study.config.Conclude(a.study.skeleton, a.study.topology, results(a.study.topology, e.runs, e.rows, e.paths))
	e.exit = exitOf(e.Conclusion, e.runs, e.problems.HasErrors())
	return e, nil
}

// settle is what follows the seal: outputs, checks, teardown, closing. dir is the
// sealed result, "" when nothing was measured.
func (a *applying) settle(ctx context.Context, e evaluation, dir, screen string) (Exit, error) {
	if err := a.storeOutputs(e.Conclusion, dir); err != nil {
		return e.exit, err
	}
	for _, check := range e.Checks {
		a.Events.Emit(CheckEvent{Name: check.Name, Passed: check.Passed, Message: check.Message})
	}
	downErr := a.tearDownByPolicy(ctx, dir != "", e.exit)
	if dir != "" {
		own, err := owner()
		cerr := artifact.Close(dir, artifact.Closing{DestroyedS: a.timings.DestroyedS, Outcome: outcome(e.exit), ExitCode: int(e.exit)}, own)
		downErr = errors.Join(downErr, err, cerr)
	}
	if err := a.show(e.Conclusion, dir, screen); err != nil {
		return e.exit, err
	}
	return e.exit, downErr
}

// measured returns rows and paths of the result being written, or of the sealed one.
func measured(w *artifact.Writer, sealed string) ([]artifact.Run, []artifact.BackendRow, sighting.Proofs, error) {
	dir := sealed
	if w != nil {
		dir = w.Dir()
	}
	if dir == "" {
		return nil, nil, nil, nil
	}
	r, err := artifact.OpenStudy(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	paths, err := sighting.ProofsOf(r)
	return r.Runs(), r.Backends(), paths, err
}

// results is what experiments and proofs offer to checks and outputs.
func results(t *lang.Topology, runs []artifact.Run, rows []artifact.BackendRow, seen sighting.Proofs) *lang.Results {
	out := &lang.Results{Experiments: map[string]lang.ExperimentResult{}, Paths: pathResults(t, seen)}
	for _, e := range t.Experiments {
		var mine []artifact.Run
		for _, r := range runs {
			if r.Experiment == e.Noun.Name() {
				mine = append(mine, r)
			}
		}
		out.Experiments[e.Noun.Name()] = experiment.Represented(experiment.Result(mine, rows), e.StandsFor)
	}
	return out
}

// exitOf finds the exit code: broken measurements win over failed checks.
func exitOf(c lang.Conclusion, runs []artifact.Run, failed bool) Exit {
	exit := ExitDone
	if failed {
		exit = ExitError
	}
	for _, check := range c.Checks {
		if !check.Passed {
			exit = ExitCheckFailed
		}
	}
	for _, r := range runs {
		if !r.Valid {
			exit = ExitBroken
		}
	}
	return exit
}

func outcome(exit Exit) string {
	switch exit {
	case ExitDone:
		return "done"
	case ExitCheckFailed:
		return "check failed"
	case ExitBroken:
		return "counts broke"
	case ExitInterrupted:
		return "interrupted"
	}
	return "failed"
}

// seal writes summary and report, and closes the result for good.
func (a *applying) seal(ctx context.Context, w *artifact.Writer, e evaluation) (dir, screen string, err error) {
	a.phase(PhaseReport, "started", "")
	m, err := a.manifest(ctx)
	if err != nil {
		return "", "", err
	}
	m.Outcome, m.ExitCode, m.Sessions = outcome(e.exit), int(e.exit), a.ended("sealed")
	in := report.Input{Description: a.study.topology.Lab.Description, Manifest: m, Facts: a.facts(), Runs: e.runs, Backends: e.rows, Paths: e.paths}
	in.Manifest.Lab, in.Manifest.Run = a.study.topology.Lab.Name, strings.TrimSuffix(filepath.Base(w.Dir()), artifact.PartialSuffix)
	for _, check := range e.Checks {
		in.Checks = append(in.Checks, report.Check{Name: check.Name, Passed: check.Passed, Message: check.Message})
	}
	s, files, err := report.Files(in)
	if err != nil {
		return "", "", err
	}
	if dir, err = w.Finalise(ctx, m, files); err != nil {
		return "", "", err
	}
	if err := a.writeJUnit(files[artifact.JUnitFile]); err != nil {
		return dir, "", err
	}
	a.phase(PhaseReport, "done", shownPath(dir))
	latest := filepath.Join(filepath.Dir(shownPath(dir)), artifact.LatestLink)
	return dir, report.NewScreen(s, latest).Text(), nil
}

// storeOutputs keeps the outputs and the study in the state: they survive the lab.
func (a *applying) storeOutputs(c lang.Conclusion, dir string) error {
	outs := map[string]state.Output{}
	for name, o := range c.Outputs {
		if !o.Value.IsWhollyKnown() {
			continue // of an experiment that has not run: nothing to store
		}
		out, err := state.NewOutput(o.Value, o.Sensitive)
		if err != nil {
			return fmt.Errorf("output %s: %w", name, err)
		}
		outs[name] = out
	}
	return a.store.Update(func(s *state.State) error {
		s.Outputs = outs
		if dir != "" {
			s.Study, s.LastArtifact = a.list.hash, dir
		}
		return nil
	})
}

// tearDownByPolicy takes the lab down unless it is to be kept. Without runs the
// lab itself is the result, and stays. A failed check is a result; counts that
// broke are a reason to look at the lab.
func (a *applying) tearDownByPolicy(ctx context.Context, ran bool, exit Exit) error {
	policy := a.study.topology.Lab.Teardown
	good := exit == ExitDone || exit == ExitCheckFailed
	if a.opts.Keep || !ran || policy == lang.TeardownNever || policy == lang.TeardownOnSuccess && !good {
		return nil
	}
	a.host.close()
	a.host = nil
	if err := a.takeDown(ctx, a.store); err != nil {
		return err
	}
	a.timings.DestroyedS = a.since()
	return nil
}

// show prints outputs and the last screen.
func (a *applying) show(c lang.Conclusion, dir, screen string) error {
	if outs := a.store.State().Outputs; len(outs) > 0 {
		text, raw, err := renderOutputs(outs, false)
		if err != nil {
			return err
		}
		a.Events.Emit(OutputsEvent{Text: "\nOutputs:\n" + text, Outputs: raw})
	}
	if a.opts.Timings {
		a.Events.Emit(NoticeEvent{Text: timingsText(a.timings)})
	}
	if screen == "" {
		return nil
	}
	if a.host != nil {
		screen += "\nThe lab is up:\n" + strings.Join(a.handles(), "\n")
	}
	a.Events.Emit(SummaryEvent{Text: screen, Artifact: dir})
	return nil
}

func timingsText(t artifact.Timings) string {
	var b strings.Builder
	b.WriteString("\nTimings, seconds since the start:\n")
	for _, p := range []struct {
		name string
		at   *float64
	}{{"restored", t.RestoredS}, {"plugged", t.PluggedS}, {"created", t.CreatedS}, {"enrolled", t.EnrolledS}, {"configured", t.ConfiguredS}, {"first answer", t.FirstAnswerS},
		{"proved", t.ProvedS}, {"runs done", t.RunsDoneS}, {"destroyed", t.DestroyedS}} {
		if p.at != nil {
			fmt.Fprintf(&b, "  %-13s %7.2f\n", p.name, *p.at)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// shownPath is a path as the user would type it here.
func shownPath(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}
