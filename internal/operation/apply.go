package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/internal/sighting"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/planfile"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider"
)

// applying is one apply on its way: what it has found out so far. Each method
// below is one step of the story in [Apply].
type applying struct {
	*Settings
	opts  ApplyOptions
	study *study

	store  *state.Store // nil in a preview
	prior  state.State  // as it was when the topology was read
	source string       // the topology as it was named
	// saved is the plan file that is carried out, nil when it is a topology.
	saved                  *planfile.File
	savedStudy, savedImage string

	dir   string
	cache string
	// guests are the images that the machines boot, image that of the directors.
	guests   []guestKind
	image    guestImage
	guestsMu sync.Mutex // guards what machines tell about their guests while they come up
	// imageText says which images they are, for when there is something to do with them.
	imageText string
	accel     hypervisor.Accelerator
	// accelWhy says in one phrase why it was chosen.
	accelWhy string
	holder   *hypervisor.Holder
	keys     *keyring
	host     *host // nil while no hypervisor runs

	wanted  []provider.Resource
	reality reality
	changes plan.Plan
	// lent are machines that a study has booted otherwise; beside is what changes
	// apart from them, changes itself when there are none.
	lent   []lentMachine
	beside plan.Plan

	list    trialList
	todo    []experiment.Trial // trials that this apply carries out
	result  string             // sealed result of the same study, "" when there is none
	amiss   string             // a sentence on what was amiss at that one's end, "" = nothing
	junit   bool               // the file of --junit is written
	timings artifact.Timings
	paths   sighting.Record // what the proof has seen
	// unfinished is the interrupted result that is continued, parent the sealed one
	// that blocks are added to; nil when there is none.
	unfinished *artifact.Unfinished
	parent     *artifact.Artifact
	// sessions are those of the result that is written; the last one is this apply's.
	sessions []artifact.Session
	made     []string // run ids of the result that is written, as they were made

	// shipment and farHas are of a lab on another machine.
	shipment shipment
	farHas   farFacts

	templates templates
	// world is what saved machines depend on beside their own shape.
	world    string
	worldErr error
	greeting *greeting // nil when no query goes before the proof
	// boots are run id → machine that was made anew for the run → id of its boot.
	boots map[string]map[string]string
	// doors are the user ports that scripts go through, by machine.
	doors map[string]door
}

// Apply makes the lab that a topology describes, runs what its experiments
// still lack, leaves the artifact, and takes the lab down by policy.
func Apply(ctx context.Context, s *Settings, path string, o ApplyOptions) (Exit, error) {
	a, err := s.prepareAny(path, o)
	if err != nil {
		a = &applying{Settings: s, opts: o, source: path}
		return ExitError, a.withJUnit(err)
	}
	switch {
	case o.RefreshOnly && o.PlanOnly:
		exit, _, err := a.showDrift(ctx)
		return exit, err
	case o.RefreshOnly:
		return a.writeDrift(ctx)
	case o.PlanOnly:
		return a.showOnly(ctx)
	}
	exit, err := a.apply(ctx)
	return exit, a.withJUnit(err)
}

// apply is an apply that may change something.
func (a *applying) apply(ctx context.Context) (Exit, error) {
	err := a.fitness()
	if err != nil {
		return ExitError, err
	}
	options := a.storeOptions()
	options.Lineage = a.prior.Lineage // the one that the plan was made with
	a.store, err = state.OpenOrCreate(ctx, a.dir, a.study.config.LabName(), a.source, options)
	if err != nil {
		return ExitError, err
	}
	defer a.store.Close()
	return a.carryOut(ctx)
}

// prepare reads the topology and finds everything that can be wrong with it,
// before anything is created.
func (s *Settings) prepare(path string, o ApplyOptions) (*applying, error) {
	st, err := s.parse(path)
	if err != nil {
		return nil, err
	}
	a, err := s.prepareStudy(st, o)
	if err == nil {
		a.source = path
		if s.Text != nil {
			a.source = a.dir // what commands find the lab by: the path is no file
		}
	}
	return a, err
}

// prepareAny takes a topology or a saved plan.
func (s *Settings) prepareAny(path string, o ApplyOptions) (*applying, error) {
	if s.Text == nil && planfile.Is(path) {
		return s.prepareSaved(path, o)
	}
	return s.prepare(path, o)
}

func (s *Settings) prepareStudy(st *study, o ApplyOptions) (*applying, error) {
	dir, err := st.dir()
	if err != nil {
		return nil, err
	}
	prior, _, err := readState(dir)
	if err != nil {
		return nil, err
	}
	if err := s.resolve(st, prior); err != nil {
		return nil, err
	}
	a := &applying{Settings: s, opts: o, study: st, prior: prior, dir: dir}
	if a.cache, err = images.DefaultCacheDir(); err != nil {
		return nil, err
	}
	if _, err := guestsOf(st.topology); err != nil {
		return nil, err
	}
	list, err := st.trials(nil, "")
	if err != nil {
		return nil, err
	}
	return a, someBlock(o.Shard, list.trials)
}

// carryOut is the story of an apply under the lab's lock.
func (a *applying) carryOut(ctx context.Context) (Exit, error) {
	if err := a.plan(ctx); err != nil {
		return ExitError, err
	}
	defer func() { a.host.close() }()
	if done, exit, err := a.resumeConclusion(ctx); done || err != nil {
		return exit, err
	}
	if !a.idle() {
		a.phase(PhaseImage, "done", a.imageText)
	}
	if err := a.showPlan(); err != nil {
		return ExitError, err
	}
	if err := a.asPlanned(); err != nil {
		return ExitError, err
	}
	if a.changes.Empty() && len(a.todo) == 0 && !a.unsealed() && len(a.moves()) > 0 {
		return a.onlyMoves()
	}
	if a.idle() {
		if err := errors.Join(a.recordDrift(), a.noteHidden()); err != nil {
			return ExitError, err
		}
		a.Events.Emit(SummaryEvent{Text: a.idleText(), Artifact: a.result})
		return ExitDone, nil
	}
	if err := a.confirm(ctx); err != nil {
		return ExitError, err
	}
	if a.unsealed() {
		return a.sealOnly(ctx)
	}
	if err := a.makeRoom(); err != nil {
		return ExitError, err
	}
	if err := a.create(ctx); err != nil {
		return a.failed(ctx, err)
	}
	if len(a.todo) == 0 {
		return a.withoutRuns(ctx)
	}
	exit, err := a.measure(ctx)
	if err != nil {
		return a.failed(ctx, err)
	}
	return exit, nil
}

// state is what is stored, by the names of today.
func (a *applying) state() state.State { st := a.stored(); return st.Renamed(a.study.renames) }

// stored returns what is recorded: now, or, in a preview, when it was read.
func (a *applying) stored() state.State {
	if a.store != nil {
		return a.store.State()
	}
	return a.prior
}

// plan finds out what is to be done, under the lab's lock.
func (a *applying) plan(ctx context.Context) error {
	if _, err := a.store.Recover(); err != nil {
		return err
	}
	err := a.resolve(a.study, a.stored())
	if err != nil {
		return err
	}
	if a.imageText, err = a.prepareGuests(ctx); err != nil {
		return err
	}
	if err := a.capable(); err != nil {
		return err
	}
	if a.keys, err = openKeys(a.dir, a.store); err != nil {
		return err
	}
	return a.compare(ctx)
}

// preview is plan without a lock and without an effect: an image that is not
// in the cache is not built, it is only said that it would be.
func (a *applying) preview(ctx context.Context) error {
	err := a.cachedGuests(ctx)
	if err == nil {
		err = a.capable()
	}
	if err != nil {
		return err
	}
	if a.keys, err = openKeys(a.dir, nil); err != nil {
		return err
	}
	return a.compare(ctx)
}

// compare finds accelerator, pending trials, what exists and what is wanted,
// and makes the plan of changes.
func (a *applying) compare(ctx context.Context) error {
	var err error
	if a.far() {
		err = a.farAccelerator(ctx)
	} else {
		a.accel, a.accelWhy, err = hypervisor.ProbeAccelerator(ctx, a.cache, a.probeKernel())
	}
	if err != nil {
		return err
	}
	if err := a.pendingTrials(ctx); err != nil {
		return err
	}
	if err := a.lookAround(ctx); err != nil {
		return err
	}
	a.world, a.worldErr = a.findWorld(ctx)
	if a.wanted, err = a.desired(); err != nil {
		return err
	}
	ps, err := a.providers()
	if err != nil {
		return err
	}
	if a.changes, err = compare(ps, a.wanted, a.reality, a.opts.Choices, a.study.topology); err != nil {
		return err
	}
	return a.findLent(ps)
}

// desired returns the resources that are wanted: none when there is nothing to
// measure and nobody asked to keep the lab.
func (a *applying) desired() ([]provider.Resource, error) {
	studyDone := len(a.list.trials) > 0 && len(a.todo) == 0 && !a.opts.noStudy()
	if studyDone && !a.opts.Keep {
		return nil, nil
	}
	return lower.Resources(a.study.topology, a.study.layout, a.lowering())
}

// confirm asks when something that exists is to be replaced or deleted.
func (a *applying) confirm(ctx context.Context) error {
	if !a.beside.Destructive() || a.opts.AutoApprove { // what a study itself has booted is nobody's loss
		return nil
	}
	t := a.beside.Totals()
	yes, err := a.opts.Confirm(ctx, fmt.Sprintf("Replace %d and delete %d things that exist?", t.Replace, t.Delete))
	if errors.Is(err, ErrNoTerminal) {
		return diag.Fail(err, "The plan replaces or deletes what exists", "Pass --auto-approve.", "%d to replace, %d to delete", t.Replace, t.Delete)
	}
	if err == nil && !yes {
		err = errDeclined
	}
	return err
}

// withoutRuns ends an apply that had only resources to change.
func (a *applying) withoutRuns(ctx context.Context) (Exit, error) {
	if len(a.wanted) == 0 {
		if err := a.takeDown(ctx, a.store); err != nil {
			return ExitError, err
		}
		return ExitDone, nil
	}
	exit, err := ExitDone, error(nil)
	if !a.opts.noStudy() {
		if exit, err = a.conclude(ctx, nil); err != nil {
			return a.failed(ctx, err)
		}
	}
	a.Events.Emit(SummaryEvent{Text: "The lab is up.\n" + strings.Join(a.handles(), "\n"), Next: a.handles()})
	return exit, nil
}

// failed ends an apply that cannot go on. By policy the lab stays for a look,
// and the commands for it are named.
func (a *applying) failed(ctx context.Context, cause error) (Exit, error) {
	exit := ExitError
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		exit = ExitInterrupted
	}
	died := a.hypervisorFate()
	if died != nil {
		cause = died // whatever else failed did so for this
	}
	cause = a.withJUnit(cause)
	if a.study.topology.Lab.Teardown == lang.TeardownAlways && !a.opts.Keep {
		a.host.close()
		a.host = nil
		return exit, errors.Join(cause, a.takeDown(ctx, a.store))
	}
	if died != nil {
		src := cmp.Or(a.source, a.state().Source)
		a.Events.Emit(NoticeEvent{Text: "Nothing of the lab runs any more:\n" +
			"  lvslab apply " + src + "    makes it anew\n  lvslab destroy " + src + "  forgets it"})
		return exit, cause
	}
	switch st := a.store.State(); {
	case len(st.Resources) == 0 && len(st.Hypervisor) > 0:
		a.Events.Emit(NoticeEvent{Text: "The hypervisor of the lab runs, without a machine:\n  lvslab destroy " + cmp.Or(a.source, st.Source)})
	case len(st.Resources) > 0:
		a.Events.Emit(NoticeEvent{Text: "The lab is kept for a look:\n" + strings.Join(a.handles(), "\n")})
	}
	return exit, cause
}

// handles are the commands for working with a lab that is up.
func (a *applying) handles() []string {
	node := "NODE"
	if t := a.study.topology; t != nil && len(t.Machines) > 0 {
		node = t.Machines[0].Noun.String()
	}
	src := cmp.Or(a.source, a.state().Source)
	return []string{
		fmt.Sprintf("  lvslab exec %s -- ip addr", quoteNode(node)),
		fmt.Sprintf("  lvslab logs %s", quoteNode(node)),
		"  lvslab destroy " + src,
	}
}

// since returns seconds since the start of the apply, as the manifest keeps them.
func (a *applying) since() *float64 { return a.after(time.Now()) }

// after is the same for another moment.
func (a *applying) after(at time.Time) *float64 {
	s := float64(at.Sub(a.Started).Milliseconds()) / 1000
	return &s
}
