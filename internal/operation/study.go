package operation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/predict"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/internal/version"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/topologies"
)

// builtinPrefix marks a topology that is embedded in the program.
const builtinPrefix = "builtin:"

// labsDir holds the labs' directories, beside the topology.
const labsDir = ".lvslab"

// study is a topology as it was read, with all that follows from it and from
// the addresses that an earlier apply has assigned.
type study struct {
	source   lang.Source
	config   *lang.Config
	skeleton *lang.Skeleton

	// renames are the moves that the state does not know yet.
	renames   topo.Renames
	addresses map[string]netip.Addr
	topology  *lang.Topology
	layout    *topo.Layout
	// kernels are the rules of the images' kernels, nil while the images are not
	// known: the newest rules then.
	kernels predict.Kernels
}

// parse reads a topology up to the point where prior addresses are needed. It
// touches nothing but the files named.
func (s *Settings) parse(path string) (*study, error) {
	src, ds := s.read(path)
	return s.parseSource(src, ds)
}

// parseConfig reads a topology as far as its name is known: enough to find the
// lab that was made from it, whatever its variables.
func (s *Settings) parseConfig(path string) (*study, error) {
	src, ds := s.read(path)
	return s.configure(src, ds)
}

// read returns the text of a topology.
func (s *Settings) read(path string) (lang.Source, diag.Diagnostics) {
	if s.Text != nil {
		return lang.TextSource(path, s.Text)
	}
	name, builtin := strings.CutPrefix(path, builtinPrefix)
	if !builtin {
		return lang.ReadSource(path)
	}
	text, ok := topologies.Get(name)
	if !ok {
		return lang.Source{}, diag.Diagnostics{diag.Errorf("No such built-in topology", "Use one of "+strings.Join(topologies.Names(), ", ")+".", "%q is none of them", name)}
	}
	return lang.BuiltinSource(name, text), nil
}

// configure parses a source that has been read, with what reading had to say.
func (s *Settings) configure(src lang.Source, ds diag.Diagnostics) (*study, error) {
	for _, f := range src.All() {
		s.remember(map[string][]byte{f.Name: f.Bytes})
	}
	if ds.HasErrors() {
		return nil, ds.Err()
	}
	src.Version = version.Version
	st := &study{source: src}
	var more diag.Diagnostics
	st.config, more = lang.Parse(src)
	ds = append(ds, more...)
	s.warn(ds)
	return st, ds.Err()
}

// parseSource is parse for a source that has been read.
func (s *Settings) parseSource(src lang.Source, ds diag.Diagnostics) (*study, error) {
	st, err := s.configure(src, ds)
	if err != nil {
		return nil, err
	}
	in, err := s.inputs()
	if err != nil {
		return nil, err
	}
	st.skeleton, ds = st.config.Skeleton(in)
	s.warn(ds)
	return st, ds.Err()
}

// inputs gathers the variables in the order in which they win.
func (s *Settings) inputs() (lang.Inputs, error) {
	if s.pinned != nil {
		return *s.pinned, nil
	}
	in := lang.Inputs{Environ: s.Environ, Version: version.Version}
	for _, v := range s.Variables {
		if v.File == "" {
			in.Flags = append(in.Flags, lang.VarFlag{Name: v.Name, Value: v.Value})
			continue
		}
		text, err := os.ReadFile(v.File)
		if err != nil {
			return in, diag.Fail(err, "Cannot read the variable file", "Correct the path given with -var-file.", "%s", v.File)
		}
		s.remember(map[string][]byte{v.File: text})
		in.Files = append(in.Files, lang.VarFile{File: lang.File{Name: v.File, Bytes: text}, After: len(in.Flags)})
	}
	return in, nil
}

// resolve follows what was moved, assigns the addresses, evaluates the rest, and
// lays the lab out. prior is the state as it is, or that of a new lab.
func (s *Settings) resolve(st *study, prior state.State) error {
	var ds, more diag.Diagnostics
	st.renames, ds = follow(st.skeleton, prior)
	s.warn(ds)
	prior = prior.Renamed(st.renames)
	st.addresses, ds = topo.Assign(st.skeleton, prior.Addresses)
	if ds.HasErrors() {
		return ds.Err()
	}
	st.topology, more = st.config.Resolve(st.skeleton, st.addresses)
	if ds = append(ds, more...); ds.HasErrors() {
		return ds.Err()
	}
	_, more = st.config.Conclude(st.skeleton, st.topology, nil) // finds misspelt attributes of experiments
	if ds = append(ds, more...); ds.HasErrors() {
		return ds.Err()
	}
	s.warn(ds)
	var err error
	if err = st.collapse(); err != nil {
		return err
	}
	st.layout, err = topo.LayAs(st.topology, prior.Lineage, prior.Identities)
	return err
}

// redact takes sensitive values out of what is shown of the topology.
func (st *study) redact(text string) string { return st.config.Redact(st.skeleton, text) }

// warn shows warnings; errors travel as errors.
func (s *Settings) warn(ds diag.Diagnostics) {
	var warnings diag.Diagnostics
	for _, d := range ds {
		if d.Severity == diag.Warning {
			warnings = append(warnings, d)
		}
	}
	if len(warnings) > 0 {
		s.Events.Emit(DiagnosticEvent{Diagnostics: warnings, Sources: s.Sources()})
	}
}

// dir returns the lab's directory, absolute: .lvslab/<lab> beside the
// topology, in the working directory for a builtin.
func (st *study) dir() (string, error) {
	abs, err := filepath.Abs(filepath.Join(st.source.Root, labsDir, st.config.LabName()))
	if err != nil {
		return "", fmt.Errorf("directory of the lab: %w", err)
	}
	return abs, nil
}

// readState returns the state of a lab without its lock, a new one in memory
// when there is none.
func readState(dir string) (state.State, bool, error) {
	st, err := state.Read(dir)
	if errors.Is(err, state.ErrNone) {
		return state.State{Lineage: state.NewLineage()}, false, nil
	}
	return st, err == nil, err
}

// validateOpen validates a topology whose variables have no values: they are
// unknown but typed then. When that finds nothing, the values were all that
// was missing, and the topology is valid as far as it can be said.
func (s *Settings) validateOpen(path string, cause error) (Exit, error) {
	st, err := s.parseConfig(path)
	if err != nil {
		return ExitError, err
	}
	in, err := s.inputs()
	if err != nil {
		return ExitError, err
	}
	missing := st.config.Missing(in)
	if len(missing) == 0 {
		return ExitError, cause
	}
	if ds := st.config.Check(in); ds.HasErrors() {
		return ExitError, ds.Err()
	}
	s.Events.Emit(NoticeEvent{Text: fmt.Sprintf("The topology is valid as far as it can be said without a value for %s.", strings.Join(missing, ", "))})
	return ExitDone, nil
}

// Validate checks a topology without touching the host.
func Validate(_ context.Context, s *Settings, path string) (Exit, error) {
	st, err := s.parse(path)
	if err != nil {
		return s.validateOpen(path, err)
	}
	if err := s.resolve(st, state.State{Lineage: state.NewLineage()}); err != nil {
		return ExitError, err
	}
	if _, err := st.trials(nil, ""); err != nil {
		return ExitError, err
	}
	t := st.topology
	s.Events.Emit(NoticeEvent{Text: fmt.Sprintf("The topology is valid: %s with %d machines, %d services, %d experiments.",
		addr.N(addr.Lab, t.Lab.Name), len(t.Machines), len(t.Services), len(t.Experiments))})
	s.advise(t)
	return ExitDone, nil
}
