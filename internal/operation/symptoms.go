package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/symptom"
	"github.com/lvslab/lvslab/plan/state"
)

// DoctorOptions say which lab is looked at, and what is planted there.
type DoctorOptions struct {
	Path string
	// Inject are the symptoms that are planted, one after the other; none = only look.
	Inject []symptom.Name
}

// Symptoms looks at a lab that is up and names what is wrong with it, by what its
// guests say and by one query to each backend. The exit code is that of a failed
// check when something is. With Inject it plants symptoms instead, and tells whether
// each was named and nothing else.
func Symptoms(ctx context.Context, s *Settings, o DoctorOptions) (Exit, error) {
	a, err := s.enter(ctx, o.Path)
	if err != nil {
		return ExitError, err
	}
	defer a.store.Close()
	defer func() { a.host.close() }()
	defer a.shutDoors()
	work := a.showSymptoms
	if len(o.Inject) > 0 {
		work = func(ctx context.Context) (Exit, error) { return a.inject(ctx, o.Inject) }
	}
	exit, err := work(ctx)
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		exit = ExitInterrupted
	}
	return exit, err
}

// enter takes a lab that is up, as it is, under its lock.
func (s *Settings) enter(ctx context.Context, path string) (*applying, error) {
	a, err := s.prepare(path, ApplyOptions{Choices: Choices{Keep: true, Fresh: true, Results: "results"}})
	if err != nil {
		return nil, err
	}
	if len(a.study.topology.Services) == 0 {
		return nil, diag.Fail(nil, "Nothing to look at", "Declare a service block: symptoms are those of the way to a service.", "%s declares no service", path)
	}
	a.store, err = state.Open(ctx, a.dir, s.storeOptions())
	if errors.Is(err, state.ErrNone) {
		return nil, notUp(path)
	}
	if err != nil {
		return nil, err
	}
	if err = a.plan(ctx); err == nil && a.host == nil {
		err = notUp(path)
	}
	if err != nil {
		a.host.close()
		return nil, errors.Join(err, a.store.Close())
	}
	return a, nil
}

func (a *applying) showSymptoms(ctx context.Context) (Exit, error) {
	if t := a.changes.Totals(); !a.changes.Empty() {
		a.Events.Emit(NoticeEvent{Text: fmt.Sprintf("The lab is not as declared, %s; 'lvslab plan %s' shows them.",
			count(t.Create+t.Update+t.Replace+t.Delete, "difference"), a.source)})
	}
	seen, err := a.diagnose(ctx)
	if err != nil {
		return ExitError, err
	}
	raw, err := json.Marshal(seen)
	if err != nil {
		return ExitError, err
	}
	a.Events.Emit(ReportEvent{Kind: "symptoms", Text: seen.text(), Data: raw})
	if len(seen.Findings) > 0 {
		return ExitCheckFailed, nil
	}
	return ExitDone, nil
}

// diagnosis is what was found, and how much was asked for it.
type diagnosis struct {
	Findings []symptom.Finding `json:"findings"`
	VIPs     int               `json:"vips"`
	Queries  int               `json:"queries"`
}

// diagnose looks at every service and, when that shows nothing, follows a query to
// each of its backends: those borrow the service and empty its table, which would
// take away what is to be seen, and a VIP that is gone or stolen explains all that
// comes after it.
func (a *applying) diagnose(ctx context.Context) (diagnosis, error) {
	d := diagnosis{Findings: []symptom.Finding{}}
	for _, svc := range a.study.topology.Services {
		vips, err := experiment.Look(ctx, a.lab(), svc.Noun)
		if err != nil {
			return d, err
		}
		d.VIPs += len(vips)
		for _, v := range vips {
			d.Findings = append(d.Findings, v.Judge()...)
		}
	}
	if len(d.Findings) > 0 {
		return d, nil
	}
	for _, svc := range a.study.topology.Services {
		paths, err := a.probe(ctx, svc)
		if err != nil {
			return d, err
		}
		d.Queries += len(paths)
		for _, p := range paths {
			if f := p.Judge(); f != nil {
				d.Findings = append(d.Findings, *f)
			}
		}
	}
	return d, nil
}

// probe follows queries to the backends of a service under a journaled loan of it.
func (a *applying) probe(ctx context.Context, svc lang.Service) ([]symptom.Path, error) {
	var paths []symptom.Path
	err := a.onLoan(svc.Noun, func() (err error) {
		paths, err = experiment.Probe(ctx, a.lab(), svc.Noun)
		return err
	})
	return paths, err
}

// onLoan does something that borrows a service and gives it back, unless it fails.
func (a *applying) onLoan(service addr.Noun, do func() error) error {
	borrowed, err := a.loanOf(service, service)
	if err != nil {
		return err
	}
	seq, err := a.store.Begin(borrowed)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err // it may not have been given back: the next command does it again
	}
	return a.store.End(seq, nil)
}

// text is the diagnosis for people.
func (d diagnosis) text() string {
	if len(d.Findings) == 0 {
		return fmt.Sprintf("ok    %s held by the director alone, %s: each went through IPVS to its backend and back",
			count(d.VIPs, "VIP"), queries(d.Queries))
	}
	var b strings.Builder
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "FAIL  %-14s %s: %s\n      %s\n      → %s\n", f.Symptom, f.Address, f.Summary, f.Evidence, f.Remedy)
	}
	if d.Queries == 0 {
		b.WriteString("No query was sent to the backends: mend this first, and look again.\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

func queries(n int) string {
	if n == 1 {
		return "1 query"
	}
	return fmt.Sprintf("%d queries", n)
}
