package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/plan/state"
)

// lab is a lab that exists as a directory with a state, found by what a user
// calls it.
type lab struct {
	dir   string
	state state.State
	share *farShare // nil in tests
}

// hereOnly is findLab for commands that take away: without a name they never
// reach for a lab of another directory.
func (s *Settings) hereOnly(ctx context.Context, ref string) (lab, error) {
	if ref == "" {
		if here, _, err := labDirs(ctx); err == nil && len(here) == 0 {
			return lab{}, diag.Fail(nil, "No lab here", "Name the topology or the lab, or go to its directory.", "there is no %s directory here", labsDir)
		}
	}
	return s.findLab(ctx, ref)
}

// findLab finds the lab that ref names: a topology (file, directory, builtin),
// or a lab's name among those beside the working directory and those that run
// on this machine. An empty ref means the only one there is.
func (s *Settings) findLab(ctx context.Context, ref string) (lab, error) {
	if ref != "" {
		if _, err := os.Stat(filepath.Join(ref, "state.json")); err == nil {
			return openLab(ref) // how lvslab itself names a lab in the commands that it writes down
		}
		if _, err := os.Stat(ref); err == nil || s.Text != nil || strings.HasPrefix(ref, builtinPrefix) {
			st, err := s.parseConfig(ref)
			if err != nil {
				return lab{}, err
			}
			dir, err := st.dir()
			if err != nil {
				return lab{}, err
			}
			return openLab(dir)
		}
	}
	here, elsewhere, err := labDirs(ctx)
	if err != nil {
		return lab{}, err
	}
	dirs := append(slices.Clone(here), elsewhere...)
	var found []string
	switch {
	case ref != "":
		for _, d := range dirs {
			if filepath.Base(d) == ref {
				found = append(found, d)
			}
		}
	case len(here) > 0: // what is here comes before what runs elsewhere
		if found = here; len(here) > 1 {
			found = running(ctx, here)
		}
	default:
		found = elsewhere
	}
	switch {
	case len(found) == 1:
		return openLab(found[0])
	case len(found) == 0 && ref == "":
		return lab{}, diag.Fail(nil, "No lab here", "Name the topology, for example 'lvslab show topology.hcl', or go to its directory.",
			"there is no %s directory here and no lab runs on this machine", labsDir)
	case len(found) == 0:
		return lab{}, diag.Fail(nil, "No such lab", "Name a topology file, or one of: "+strings.Join(names(dirs), ", ")+".",
			"%q is neither a topology nor a lab here", ref)
	}
	return lab{}, diag.Fail(nil, "Several labs are here", "Name one of them: "+strings.Join(names(dirs), ", ")+".",
		"%d labs could be meant", len(found))
}

func openLab(dir string) (lab, error) {
	st, err := state.Read(dir)
	return lab{dir: dir, state: st, share: &farShare{}}, err
}

// labDirs lists the labs beside the working directory, and the others that
// run on this machine.
func labDirs(ctx context.Context) (here, elsewhere []string, err error) {
	matches, err := filepath.Glob(filepath.Join(labsDir, "*", "state.json"))
	if err != nil {
		return nil, nil, err
	}
	for _, m := range matches {
		abs, err := filepath.Abs(filepath.Dir(m))
		if err != nil {
			return nil, nil, err
		}
		here = append(here, abs)
	}
	entries, err := hypervisor.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if e.Status == hypervisor.Running && e.LabDir != "" && !e.Bound() && !slices.Contains(here, e.LabDir) {
			elsewhere = append(elsewhere, e.LabDir)
		}
	}
	return here, elsewhere, nil
}

// running keeps the labs whose hypervisor runs, all of them when none does.
func running(ctx context.Context, dirs []string) []string {
	var up []string
	for _, d := range dirs {
		st, err := state.Read(d)
		if err != nil {
			continue
		}
		if h, err := findHolder(ctx, st.Lineage); err == nil && h != nil {
			up = append(up, d)
		}
	}
	if len(up) == 0 {
		return dirs
	}
	return up
}

func names(dirs []string) []string {
	out := make([]string, len(dirs))
	for i, d := range dirs {
		out[i] = filepath.Base(d)
	}
	return out
}

// Show prints what the state says and whether the lab is up.
func Show(ctx context.Context, s *Settings, ref string) (Exit, error) {
	l, err := s.findLab(ctx, ref)
	if err != nil {
		return ExitError, err
	}
	h, err := findHolder(ctx, l.state.Lineage)
	if err != nil {
		return ExitError, err
	}
	var b strings.Builder
	uri, foreign := foreignURI(l.state)
	status := "down"
	switch {
	case h != nil:
		status = fmt.Sprintf("up, hypervisor process %d", h.PID)
	case foreign:
		status = "on " + uri
	case len(l.state.Resources) > 0:
		status = "gone: its hypervisor has ended; apply makes it anew"
	}
	fmt.Fprintf(&b, "lab %s: %s\n", l.state.Lab, status)
	fmt.Fprintf(&b, "  directory  %s\n  lineage    %s, serial %d\n", l.dir, l.state.Lineage, l.state.Serial)
	if l.state.LastArtifact != "" {
		fmt.Fprintf(&b, "  results    %s\n", l.state.LastArtifact)
	}
	if len(l.state.Resources) > 0 {
		b.WriteString("\nResources:\n")
	}
	for _, r := range l.state.Resources {
		mark := ""
		if r.Status == state.Tainted {
			mark = "  (tainted: the next apply makes it anew)"
		}
		fmt.Fprintf(&b, "  %s%s\n", r.Addr, mark)
	}
	shown, err := maskedState(l.state)
	if err != nil {
		return ExitError, err
	}
	raw, err := json.Marshal(shown)
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "state", Text: strings.TrimRight(b.String(), "\n"), Data: raw})
	return ExitDone, nil
}

// Outputs prints the outputs that the last apply stored.
func Outputs(ctx context.Context, s *Settings, o OutputOptions) (Exit, error) {
	l, err := s.findLab(ctx, o.Lab)
	if err != nil {
		return ExitError, err
	}
	if len(l.state.Outputs) == 0 {
		return ExitError, diag.Fail(nil, "No outputs", "Declare an output block and apply the topology.",
			"lab %s has stored none", l.state.Lab)
	}
	if o.Name == "" {
		text, raw, err := renderOutputs(l.state.Outputs, o.JSON)
		if err != nil {
			return ExitError, err
		}
		s.Events.Emit(OutputsEvent{Text: text, Outputs: raw})
		return ExitDone, nil
	}
	out, ok := l.state.Outputs[o.Name]
	if !ok {
		return ExitError, diag.Fail(nil, "No such output", "Use one of "+strings.Join(sortedKeys(l.state.Outputs), ", ")+".", "%q is not among them", o.Name)
	}
	text, err := renderOutput(out, o)
	if err != nil {
		return ExitError, err
	}
	_, err = fmt.Fprintln(o.Out, text)
	return ExitDone, err
}

// errNotUp is wrapped when a command needs machines that do not run.
var errNotUp = errors.New("the lab is not up")
