package operation

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
)

// Exit is the process's exit code; the meanings are part of the contract.
type Exit int

// The exit codes. Measured-but-broken (4) wins over a failed check (3).
const (
	ExitDone        Exit = 0
	ExitError       Exit = 1
	ExitChanges     Exit = 2 // plan --detailed-exitcode only
	ExitCheckFailed Exit = 3
	ExitBroken      Exit = 4 // measured, but preconditions or counts broke
	ExitUsage       Exit = 64
	ExitInterrupted Exit = 130
)

// ErrInterrupted is the cause of a context that the user cancelled.
var ErrInterrupted = errors.New("interrupted")

// ErrNoTerminal is returned by Confirm functions that have nobody to ask.
var ErrNoTerminal = errors.New("no terminal to ask on")

// Variable is one -var (Name, Value) or one -var-file (File), in the order of
// the command line.
type Variable struct {
	Name, Value string
	File        string
}

// Settings are what all operations share.
type Settings struct {
	Chdir       string
	LockTimeout time.Duration
	Variables   []Variable
	Environ     []string
	Events      Events
	Started     time.Time
	Verbose     bool // advice with its reasons
	// Abort, when it ends, cancels the calls under way, which the end of an
	// operation's context lets finish; nil = never.
	Abort context.Context

	// Text is the topology, when not nil: its path then names no file, and says only
	// what messages call it and where the lab's directory is.
	Text []byte
	// Bond, when not nil, ends an embedded hypervisor that this operation starts:
	// see [hypervisor.Options].
	Bond *os.File

	// pinned are the inputs of a saved plan; nil = from Variables and Environ.
	pinned *lang.Inputs

	mu      sync.Mutex
	sources map[string][]byte
}

// Sources returns the files read so far, for snippets in diagnostics.
func (s *Settings) Sources() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources
}

func (s *Settings) remember(files map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources == nil {
		s.sources = map[string][]byte{}
	}
	for name, b := range files {
		s.sources[name] = b
	}
}

// at returns seconds since the operation began: the unit of the artifact's timings.
func (s *Settings) at() float64 { return time.Since(s.Started).Seconds() }

func (s *Settings) phase(p Phase, state, detail string) {
	s.Events.Emit(PhaseEvent{Phase: p, State: state, Detail: detail, At: s.at()})
}

// Confirm asks the user; it returns ErrNoTerminal when it cannot.
type Confirm func(ctx context.Context, question string) (bool, error)

// Choices are the flags that plan and apply share: what is planned follows from
// them, so a saved plan keeps them.
type Choices struct {
	Keep    bool           `json:"keep,omitempty"`
	Fresh   bool           `json:"fresh,omitempty"`
	Results string         `json:"results"`
	Shard   artifact.Share `json:"shard,omitzero"`
	Target  []addr.Noun    `json:"target,omitempty"`
	Replace []addr.Noun    `json:"replace,omitempty"`
	// Boot, when not "", is [BootCold] or [BootRestore] and holds for all machines.
	Boot string `json:"boot,omitempty"`
	// RefreshOnly looks at what exists and changes nothing but the state.
	RefreshOnly bool `json:"-"`
	// Parallelism is the most calls in flight; 0 = by what the machine has.
	Parallelism int `json:"-"`
}

// ApplyOptions are apply's flags.
type ApplyOptions struct {
	Choices
	// Chosen are the names of the choices that were made on the command line,
	// which a saved plan refuses: it was made with its own.
	Chosen                         []string
	PlanOnly, AutoApprove, Timings bool
	// NoRuns makes the lab and leaves its experiments to [Run], and checks and
	// outputs with them.
	NoRuns  bool
	JUnit   string
	Confirm Confirm
}

// noStudy reports whether experiments, checks and outputs are left alone: a part
// of a lab, or one that has not been measured, says nothing about them.
func (o ApplyOptions) noStudy() bool { return o.NoRuns || len(o.Target) > 0 }

// PlanOptions are plan's flags.
type PlanOptions struct {
	Choices
	Out              string
	DetailedExitCode bool
}

// RunOptions are run's flags.
type RunOptions struct{ Results, JUnit string }

// DestroyOptions are destroy's flags.
type DestroyOptions struct {
	AutoApprove bool
	Confirm     Confirm
}

// OutputOptions are output's flags.
type OutputOptions struct {
	Lab, Name string
	JSON, Raw bool
	Out       io.Writer
}

// ExecOptions are those of exec and ssh.
type ExecOptions struct {
	Lab, Node      string
	Argv           []string
	Shell          bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// CopyOptions are those of cp. An end is a path here, or NODE:PATH.
type CopyOptions struct {
	Lab       string
	Recursive bool
	From      []string
	To        string
}

// CaptureOptions are those of capture.
type CaptureOptions struct {
	Lab, Node string
	Device    string        // in the guest; any = all of them
	For       time.Duration // 0 = until ctx ends
	Count     int           // packets; 0 = no limit
	Write     string        // a pcap file, - for standard output; empty = lines of text
	Filter    []string      // of tcpdump
	Stdout    io.Writer
	Stderr    io.Writer
}

// LogsOptions are those of logs.
type LogsOptions struct {
	Lab, Node string
	Follow    bool
	Out       io.Writer
}
