package operation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/sighting"
	"github.com/lvslab/lvslab/plan/state"
)

// lab is the lab that is up, as experiments see it.
func (a *applying) lab() *experiment.Lab {
	return &experiment.Lab{Topology: a.study.topology, Layout: a.study.layout, Node: a.host.nodes.node}
}

// measure proves the path, carries out the pending trials, seals the artifact
// and takes the lab down by policy.
func (a *applying) measure(ctx context.Context) (Exit, error) {
	if err := a.prove(ctx); err != nil {
		return ExitError, err
	}
	w, err := a.openResult(ctx)
	if err != nil {
		return ExitError, err
	}
	began := time.Now()
	a.phase(PhaseRuns, "started", "")
	for _, e := range a.study.topology.Experiments {
		if err := a.runExperiment(ctx, w, e); err != nil {
			return a.interrupted(ctx, w, err)
		}
	}
	a.timings.RunsDoneS = a.since()
	a.phase(PhaseRuns, "done", fmt.Sprintf("%d runs in %.0f s", len(a.todo), time.Since(began).Seconds()))
	return a.conclude(ctx, w)
}

// prove shows before any run that every backend answers every client under
// the VIP, through the director and the tunnel, and that the director's kernel has
// the schedulers of the runs.
func (a *applying) prove(ctx context.Context) error {
	a.phase(PhaseProve, "started", "")
	if at := a.greeting.answered(); !at.IsZero() {
		a.timings.FirstAnswerS = a.after(at)
	}
	witnesses := 0
	a.paths = sighting.Record{Paths: []sighting.Path{}}
	for _, svc := range a.study.topology.Services {
		p, err := a.proveOne(ctx, svc.Noun)
		if err != nil {
			return err
		}
		if !p.FirstAnswer.IsZero() && a.timings.FirstAnswerS == nil {
			a.timings.FirstAnswerS = a.after(p.FirstAnswer)
		}
		witnesses += len(p.Witnesses)
		a.paths.Add(p.Seen)
	}
	if err := schedulersKnown(ctx, a.needs(), a.host.nodes.node); err != nil {
		return err
	}
	a.timings.ProvedS = a.since()
	text := fmt.Sprintf("%d paths client → director → backend → client answer under the VIP", witnesses)
	if first := a.timings.FirstAnswerS; first != nil {
		text += fmt.Sprintf(", the first after %.1f s", *first)
	}
	a.phase(PhaseProve, "done", text+a.paths.InWords())
	for _, warning := range a.paths.Warnings() {
		a.Events.Emit(NoticeEvent{Text: warning})
	}
	return nil
}

// proveOne proves one service under a journaled loan of it: Prove sets a scheduler
// of its own, and gives back what it borrowed, unless this process is killed.
func (a *applying) proveOne(ctx context.Context, service addr.Noun) (experiment.Proof, error) {
	borrowed, err := a.loanOf(service, service)
	if err != nil {
		return experiment.Proof{}, err
	}
	seq, err := a.store.Begin(borrowed)
	if err != nil {
		return experiment.Proof{}, err
	}
	p, err := experiment.Prove(ctx, a.lab(), service)
	if err == nil { // else it may not have been given back, and the next apply does it again
		err = a.store.End(seq, nil)
	}
	return p, err
}

// loanOf is the intent to borrow a service's settings.
func (a *applying) loanOf(borrower, service addr.Noun) (state.Intent, error) {
	loan, err := experiment.Borrow(a.study.topology, borrower, service)
	if err != nil {
		return state.Intent{}, err
	}
	data, err := json.Marshal(loan)
	return state.Intent{Op: opExperiment, Subject: borrower.String(), Data: data}, err
}

// resultName is the start of the apply in UTC and a random suffix, so that two
// applies in one second do not collide.
func resultName(at time.Time) string {
	var b [2]byte
	rand.Read(b[:])
	return at.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:])
}

// runExperiment carries out one experiment's trials under a journaled loan of
// the service.
func (a *applying) runExperiment(ctx context.Context, w *artifact.Writer, e lang.Experiment) error {
	trials := trialsOf(a.todo, e)
	if len(trials) == 0 {
		return nil // an earlier session has made them all
	}
	planned, err := a.planned()
	if err != nil {
		return err
	}
	borrowed, err := a.loanOf(e.Noun, e.Service)
	if err != nil {
		return err
	}
	seq, err := a.store.Begin(borrowed)
	if err != nil {
		return err
	}
	lab := a.lab()
	lab.Planned, lab.Kernels = planned, a.releases(e)
	lab.Renew = func(ctx context.Context, machines []addr.Noun, images map[addr.Noun]addr.Noun) ([]experiment.Renewed, error) {
		list, err := a.renew(ctx, machines, images)
		if err != nil {
			return nil, err
		}
		// What was borrowed has gone with the director, and the new one has its
		// declared services. With no intent open the journal begins anew: it would
		// grow with every run.
		if err := a.store.End(seq, nil); err != nil {
			return nil, err
		}
		seq, err = a.store.Begin(borrowed)
		return list, err
	}
	out, err := experiment.Run(ctx, lab, e, trials, experiment.Into(w), a.runHooks(e))
	a.noteDone(out.Done)
	if out.GivenBack {
		err = errors.Join(err, a.store.End(seq, err))
	}
	if err == nil && out.Interrupted {
		f := diag.Fail(diag.Told(ErrInterrupted), "Interrupted", "Apply again: it continues with the runs that are missing.",
			"%d of %d runs were done", len(out.Done), len(trials))
		f.Diagnostic = f.Diagnostic.For(e.Noun.String())
		err = f
	}
	return err
}

// noteDone keeps the order of the runs, and which boot of which machine each had,
// for the manifest.
func (a *applying) noteDone(done []experiment.Done) {
	for _, d := range done {
		a.made = append(a.made, d.Run.RunID)
		for _, r := range d.Renewed {
			if a.boots == nil {
				a.boots = map[string]map[string]string{}
			}
			if a.boots[d.Run.RunID] == nil {
				a.boots[d.Run.RunID] = map[string]string{}
			}
			a.boots[d.Run.RunID][r.Node] = r.BootID
		}
	}
}

// runHooks shows the runs as they go, counted over the whole result, with the time
// left from the pace so far.
func (a *applying) runHooks(e lang.Experiment) experiment.Hooks {
	began := time.Now()
	n := len(a.mine(a.list.trials))
	first := n - len(a.todo)
	for _, other := range a.study.topology.Experiments {
		if other.Noun == e.Noun {
			break
		}
		first += len(trialsOf(a.todo, other))
	}
	return experiment.Hooks{
		RunStarted: func(k, _ int, t experiment.Trial) {
			ev := RunEvent{Experiment: t.Experiment, RunID: t.RunID, Treatment: t.Treatment.ID, State: "started", K: first + k, N: n}
			if k > 1 {
				ev.Left = time.Since(began) / time.Duration(k-1) * time.Duration(n-first-k+1)
			}
			a.Events.Emit(ev)
		},
		RunDone: func(k, _ int, r artifact.Run, rows []artifact.BackendRow, took time.Duration) {
			a.Events.Emit(runDone(first+k, n, r, rows, took))
		},
	}
}

func runDone(k, n int, r artifact.Run, rows []artifact.BackendRow, took time.Duration) RunEvent {
	ev := RunEvent{Experiment: r.Experiment, RunID: r.RunID, Treatment: r.TreatmentID, State: "done", K: k, N: n,
		AnswersOK: r.AnswersOK, Sent: r.QueriesSent, Decisions: r.Decisions, Flags: r.OutcomeFlags, Valid: r.Valid,
		Took: took, Backends: map[string]int{}}
	for _, b := range rows {
		ev.Backends[b.Backend] = b.AnswersOK
	}
	return ev
}

// inOneLine is what went wrong without the stories: the summaries.
func inOneLine(err error) string {
	var list []string
	for _, d := range diag.From(err).Merged() {
		list = append(list, d.Summary)
	}
	return strings.Join(list, "; ")
}

// interrupted leaves what was measured as .partial and passes the cause on.
func (a *applying) interrupted(ctx context.Context, w *artifact.Writer, cause error) (Exit, error) {
	if died := a.hypervisorFate(); died != nil {
		cause = died
	}
	reason := inOneLine(cause)
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		reason = "interrupted by the user"
	}
	m, err := a.manifest(context.WithoutCancel(ctx))
	if err != nil {
		cause = errors.Join(cause, err)
	}
	m.Sessions = a.ended(reason)
	m.Outcome, m.ExitCode = "failed", int(ExitError)
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		m.Outcome, m.ExitCode = "interrupted", int(ExitInterrupted)
	}
	dir, err := w.Abandon(m, reason)
	if errors.Is(err, syscall.ENOSPC) && errors.Is(cause, syscall.ENOSPC) {
		err = nil // the same full disk; the whole runs are there
	}
	if err != nil {
		return ExitError, errors.Join(cause, err)
	}
	if dir == "" {
		dir = w.Dir()
	}
	a.Events.Emit(NoticeEvent{Text: "What was measured is in " + shownPath(dir) + "."})
	return ExitError, cause
}
