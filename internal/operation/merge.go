package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/merge"
	"github.com/lvslab/lvslab/internal/report"
	"github.com/lvslab/lvslab/plan/state"
)

// variablesFile is the file of an artifact's topology/ that holds the variables.
const variablesFile = "variables.json"

// MergeOptions are merge's flags.
type MergeOptions struct{ Results, JUnit string }

// Merge joins results that hold the shares of one study into a new one below the
// results directory. The exit code is what an apply of all blocks would have ended
// with.
func Merge(ctx context.Context, s *Settings, dirs []string, o MergeOptions) (Exit, error) {
	if err := junitFits(o.JUnit); err != nil {
		return ExitError, err
	}
	var parts []*artifact.Artifact
	for _, dir := range dirs {
		p, err := artifact.OpenStudy(dir)
		if err != nil {
			return ExitError, err
		}
		parts = append(parts, p)
	}
	whole, err := merge.Join(ctx, parts)
	if err != nil {
		return ExitError, err
	}
	in, exit, problem := s.judged(whole)
	dir, err := writeMerged(ctx, s, whole, in, exit, o)
	if err != nil {
		return ExitError, err
	}
	for _, c := range in.Checks {
		s.Events.Emit(CheckEvent{Name: c.Name, Passed: c.Passed, Message: c.Message})
	}
	latest := filepath.Join(filepath.Dir(shownPath(dir)), artifact.LatestLink)
	in.Manifest.Run = filepath.Base(dir)
	s.Events.Emit(SummaryEvent{Text: report.NewScreen(report.Build(in), latest).Text(), Artifact: dir})
	return exit, problem
}

// judged is what the report on the whole is made from, and the exit code. problem
// says why the checks could not be evaluated, which keeps nothing from being merged.
func (s *Settings) judged(w *merge.Whole) (in report.Input, exit Exit, problem error) {
	in, problem = report.FromArtifact(w.First())
	in.Manifest, in.Runs, in.Backends, in.Paths, in.Checks = w.Manifest, w.Runs, w.Backends, w.Proofs, nil
	for i, f := range in.Facts {
		seen := map[int]bool{}
		for _, r := range w.Runs {
			if r.Experiment == f.Experiment {
				seen[r.Block] = true
			}
		}
		in.Facts[i].Blocks = len(seen)
	}
	c, err := s.checksOf(w)
	for _, check := range c.Checks {
		in.Checks = append(in.Checks, report.Check{Name: check.Name, Passed: check.Passed, Message: check.Message})
	}
	problem = errors.Join(problem, err)
	exit = exitOf(c, w.Runs, problem != nil)
	in.Manifest.Outcome, in.Manifest.ExitCode = outcome(exit), int(exit)
	return in, exit, problem
}

// checksOf evaluates the checks of the topology that the parts keep, over all rows.
func (s *Settings) checksOf(w *merge.Whole) (lang.Conclusion, error) {
	a := w.First()
	kept := &Settings{Events: nobody{}, Started: s.Started} // what is said of it was said when it was first read
	var err error
	if kept.pinned, err = keptInputs(a); err != nil {
		return lang.Conclusion{}, err
	}
	st, err := kept.parse(filepath.Join(a.Dir(), artifact.TopologyDir))
	if err == nil {
		prior := state.State{Lineage: state.NewLineage(), Addresses: map[string]netip.Addr{}}
		for slot, text := range a.Manifest().Addresses {
			if ip, err := netip.ParseAddr(text); err == nil && !strings.HasPrefix(slot, "service.") {
				prior.Addresses[slot] = ip
			}
		}
		err = kept.resolve(st, prior)
	}
	for name, text := range kept.Sources() {
		s.remember(map[string][]byte{name: text})
	}
	if err != nil {
		return lang.Conclusion{}, err
	}
	c, ds := st.config.Conclude(st.skeleton, st.topology, results(st.topology, w.Runs, w.Backends, w.Proofs))
	return c, ds.Err()
}

// nobody hears what was said when the topology was first read.
type nobody struct{}

func (nobody) Emit(Event) {}

// keptInputs are the variables that a result was made with.
func keptInputs(a *artifact.Artifact) (*lang.Inputs, error) {
	in := &lang.Inputs{Version: a.Manifest().Versions.Lvslab}
	data, err := a.ReadFile(artifact.TopologyDir + "/" + variablesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return in, nil
	}
	vars := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(data, &vars)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variablesFile, err)
	}
	for name, raw := range vars {
		value := string(raw)
		var text string
		if json.Unmarshal(raw, &text) == nil {
			value = text
		}
		if value != "null" {
			in.Flags = append(in.Flags, lang.VarFlag{Name: name, Value: value})
		}
	}
	slices.SortFunc(in.Flags, func(a, b lang.VarFlag) int { return strings.Compare(a.Name, b.Name) })
	return in, nil
}

// writeMerged writes and seals the whole.
func writeMerged(ctx context.Context, s *Settings, w *merge.Whole, in report.Input, exit Exit, o MergeOptions) (string, error) {
	own, err := owner()
	if err != nil {
		return "", err
	}
	out, err := artifact.Create(o.Results, w.Manifest.Lab, resultName(s.Started), own)
	if err != nil {
		return "", err
	}
	dir, files, err := sealMerged(ctx, out, w, in)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(out.Dir())) // the parts have everything
	}
	if o.JUnit == "" {
		return dir, nil
	}
	if err := os.WriteFile(o.JUnit, files[artifact.JUnitFile], 0o644); err != nil {
		return dir, fmt.Errorf("--junit: %w", err)
	}
	return dir, nil
}

func sealMerged(ctx context.Context, out *artifact.Writer, w *merge.Whole, in report.Input) (string, map[string][]byte, error) {
	if err := w.Write(ctx, out); err != nil {
		return "", nil, err
	}
	m := in.Manifest
	m.FinishedAt = time.Time{}
	in.Manifest.Run = strings.TrimSuffix(filepath.Base(out.Dir()), artifact.PartialSuffix)
	_, files, err := report.Files(in)
	if err != nil {
		return "", nil, err
	}
	parts, err := w.Files()
	if err != nil {
		return "", nil, err
	}
	all := maps.Clone(files)
	maps.Copy(all, parts)
	dir, err := out.Finalise(ctx, m, all)
	return dir, files, err
}
