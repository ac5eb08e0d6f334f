package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/version"
)

// pendingTrials decides which trials this apply carries out, and into which result:
// those that an interrupted result lacks, the blocks that a sealed one lacks, or all.
func (a *applying) pendingTrials(ctx context.Context) error {
	var err error
	if a.list, err = a.lay(foundation{}); err != nil {
		return err
	}
	if a.opts.noStudy() || len(a.list.trials) == 0 {
		return nil
	}
	a.todo = a.mine(a.list.trials)
	partials, err := artifact.Partials(a.opts.Results, a.study.config.LabName())
	if err != nil {
		return err
	}
	slices.Reverse(partials) // the newest first
	if a.opts.Fresh {
		if len(partials) > 0 {
			a.left(partials[0], "a study of its own was asked for")
		}
		return nil
	}
	sealed, err := artifact.Find(ctx, a.opts.Results, a.study.config.LabName(), a.list.hash, a.opts.Shard.String())
	if err != nil {
		return err
	}
	for _, dir := range partials {
		if taken, err := a.continueFrom(ctx, dir, sealed); taken || err != nil {
			return err
		}
	}
	if sealed != "" {
		return a.addTo(sealed)
	}
	return nil
}

// left says of a partial result why it is not continued.
func (a *applying) left(dir, why string) {
	a.Events.Emit(NoticeEvent{Text: fmt.Sprintf("The interrupted %s is not continued: %s. It stays where it is.", shownPath(dir), why)})
}

// continueFrom takes a partial result for this apply when it is one of this study
// that was begun after the newest sealed one, and made under the same conditions.
func (a *applying) continueFrom(ctx context.Context, dir, sealed string) (bool, error) {
	head, err := artifact.Open(dir)
	if err != nil || head.Manifest().Study == "" {
		return false, nil // what cannot be read says nothing
	}
	m := head.Manifest()
	if m.Study != a.list.hash {
		if sealed == "" {
			a.left(dir, "it is of another study")
		}
		return false, nil
	}
	if m.Shard != a.opts.Shard.String() {
		return false, nil // another share is another apply's
	}
	if sealed != "" {
		if s, err := artifact.Open(sealed); err == nil && !m.StartedAt.After(s.Manifest().StartedAt) {
			return false, nil // an older try, which has been repeated since
		}
	}
	if artifact.Busy(dir) {
		a.left(dir, "another lvslab writes to it")
		return false, nil
	}
	if why := a.otherConditions(m); why != "" {
		a.left(dir, why)
		return false, nil
	}
	u, err := artifact.Unfinish(ctx, dir)
	if errors.Is(err, artifact.ErrCannotContinue) || errors.Is(err, artifact.ErrParent) {
		a.left(dir, diag.From(err)[0].Detail)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return a.takeUp(u)
}

// takeUp lays the trials of a partial result out again and keeps those that it
// lacks.
func (a *applying) takeUp(u *artifact.Unfinished) (bool, error) {
	links := u.Links()
	own := links[len(links)-1].Runs()
	list, err := a.lay(foundationOf(links[:len(links)-1], u.Manifest(), own))
	if err != nil {
		return false, err
	}
	planned := map[string]bool{}
	for _, t := range list.trials {
		planned[runKey(t.RunID, t.Experiment, t.Block, t.Treatment.ID)] = true
	}
	for _, r := range own {
		if !planned[runKey(r.RunID, r.Experiment, r.Block, r.TreatmentID)] {
			a.left(u.Dir(), fmt.Sprintf("its run %s has another place in the study now, by the numbers of blocks", r.RunID))
			return false, nil
		}
	}
	a.list, a.unfinished = list, u
	a.lacking()
	return true, nil
}

// lacking are the trials that the partial result which is continued has no whole
// run of.
func (a *applying) lacking() {
	a.todo = nil
	for _, t := range a.mine(a.list.trials) {
		if !a.unfinished.Whole[t.RunID] {
			a.todo = append(a.todo, t)
		}
	}
}

// addTo finds the blocks that a sealed result lacks. They are made in a result of
// their own, whose parent it is.
func (a *applying) addTo(sealed string) error {
	chain, err := artifact.OpenStudy(sealed)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, r := range chain.Runs() {
		have[runKey("", r.Experiment, r.Block, r.TreatmentID)] = true
	}
	missing := without(a.mine(a.list.trials), have)
	if len(missing) == 0 {
		a.todo, a.result, a.amiss = nil, sealed, amiss(chain)
		return nil
	}
	if !a.opts.Shard.All() {
		a.anew(sealed, missing, "blocks are not added to a share")
		return nil
	}
	added, err := a.lay(foundationOf(chain.Links(), chain.Manifest(), nil))
	if err != nil {
		return err
	}
	for _, t := range added.trials {
		have[runKey("", t.Experiment, t.Block, t.Treatment.ID)] = true
	}
	why := a.otherConditions(chain.Manifest())
	switch {
	case why != "":
	case len(without(a.list.trials, have)) > 0:
		why = "it has holes, not only too few blocks"
	}
	if why != "" {
		a.anew(sealed, missing, why)
		return nil
	}
	a.list, a.todo, a.parent = added, added.trials, chain
	return nil
}

// completeText says where the sealed result is, and how it has ended unless all was well.
func (a *applying) completeText() string {
	what := "the study"
	if !a.opts.Shard.All() {
		what = fmt.Sprintf("share %s of the study", a.opts.Shard)
	}
	text := fmt.Sprintf("%s is complete in %s.", what, shownPath(a.result))
	if a.amiss != "" {
		text += " " + a.amiss
	}
	return text
}

// amiss is a sentence on how a sealed result has ended, "" when all was well. A second
// apply has nothing to do and exits 0, which would read as if all were.
func amiss(r *artifact.Artifact) string {
	switch m := r.Manifest(); Exit(m.ExitCode) {
	case ExitDone:
		return ""
	case ExitBroken:
		invalid := 0
		for _, run := range r.Runs() {
			if !run.Valid {
				invalid++
			}
		}
		return fmt.Sprintf("It has ended with exit code %d, runs not valid: %d of %d.", m.ExitCode, invalid, len(r.Runs()))
	default:
		return fmt.Sprintf("It has ended with exit code %d: %s.", m.ExitCode, m.Outcome)
	}
}

// anew says why a sealed result gets no blocks added.
func (a *applying) anew(sealed string, missing []experiment.Trial, why string) {
	a.Events.Emit(NoticeEvent{Text: fmt.Sprintf("The result %s lacks %d of %d runs; they are all made anew, in a result of their own: %s.",
		shownPath(sealed), len(missing), len(a.mine(a.list.trials)), why)})
}

// runKey identifies a run of a study; id is "" where only what it measures counts.
func runKey(id, experiment string, block int, treatment string) string {
	return fmt.Sprintf("%s\x00%s\x00%d\x00%s", id, experiment, block, treatment)
}

// without returns the trials that are not there.
func without(trials []experiment.Trial, have map[string]bool) []experiment.Trial {
	var out []experiment.Trial
	for _, t := range trials {
		if !have[runKey("", t.Experiment, t.Block, t.Treatment.ID)] {
			out = append(out, t)
		}
	}
	return out
}

// otherConditions says in which condition a result differs from what its missing
// runs would be made under, "" = in none. Runs of two versions or kernels are two
// studies that happen to have one name.
func (a *applying) otherConditions(m artifact.Manifest) string {
	if len(m.Parts) > 0 {
		return "it was merged from shares that were made apart"
	}
	now := a.hostVersions()
	host := a.hostFacts()
	for _, c := range []struct{ what, then, now string }{
		{"lvslab", m.Versions.Lvslab, version.Version},
		{"guests' kernel", m.Versions.GuestKernel, a.image.KernelRelease},
		{"this machine's kernel", m.Versions.HostKernel, now.HostKernel},
		{"QEMU", m.Versions.QEMU, now.QEMU},
		{"accelerator", m.Accelerator, string(a.accel)},
		{"machine", m.Host.ID, host.ID},
	} {
		if c.then != "" && c.now != "" && c.then != c.now {
			return fmt.Sprintf("its runs were made with %s %s, now it is %s, and the two are not mixed", c.what, short(c.then), short(c.now))
		}
	}
	return ""
}

// short is the beginning of a long id.
func short(text string) string {
	if len(text) == 64 {
		return text[:12] + "…"
	}
	return text
}

// unsealed reports whether a partial result has all its runs and was only not sealed.
func (a *applying) unsealed() bool { return a.unfinished != nil && len(a.todo) == 0 }

// trialsLine says how many runs are pending, and of what they become a part.
func (a *applying) trialsLine() string {
	pending, all := count(len(a.todo), "run"), count(len(a.mine(a.list.trials)), "run")
	if !a.opts.Shard.All() {
		all += fmt.Sprintf(" of share %s", a.opts.Shard)
	}
	switch {
	case a.unsealed():
		return fmt.Sprintf("Trials: none pending, all %s are in %s, which is sealed now.", all, shownPath(a.unfinished.Dir()))
	case a.unfinished != nil:
		return fmt.Sprintf("Trials: %d of %s pending, continuing %s.", len(a.todo), all, shownPath(a.unfinished.Dir()))
	case a.parent != nil:
		return fmt.Sprintf("Trials: %s pending, added to the %d of %s.", pending, len(a.parent.Runs()), shownPath(a.parent.Dir()))
	case len(a.todo) > 0 && !a.opts.Shard.All():
		return fmt.Sprintf("Trials: %s pending, share %s of the study's %d.", pending, a.opts.Shard, len(a.list.trials))
	case len(a.todo) > 0:
		return "Trials: " + pending + " pending."
	case a.result != "":
		return "Trials: none, " + a.completeText()
	}
	return ""
}

// repeated says which runs are made again although they have left something.
func (a *applying) repeated() {
	ids := make([]string, 0, len(a.unfinished.Broken))
	for id := range a.unfinished.Broken {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare[string])
	for _, id := range ids {
		a.Events.Emit(NoticeEvent{Text: fmt.Sprintf("Run %s is made again: %s.", id, a.unfinished.Broken[id])})
	}
}
