package operation

import (
	"encoding/json"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// Event is one thing that happened, told to whoever watches. The types below
// are the whole list; internal/ui shows them to people or as JSON lines.
type Event interface {
	// EventType is the "type" of the JSON line.
	EventType() string
}

// Events receives events, from several goroutines at once.
type Events interface{ Emit(Event) }

// Phase names a stage of an operation, in the order in which they happen.
type Phase string

// The phases of an apply.
const (
	PhaseImage      Phase = "image"
	PhaseTemplate   Phase = "template"
	PhaseHypervisor Phase = "hypervisor"
	PhaseCreate     Phase = "create"
	PhaseEnrol      Phase = "enrol"
	PhaseConfigure  Phase = "configure"
	PhaseProve      Phase = "prove"
	PhaseRuns       Phase = "runs"
	PhaseReport     Phase = "report"
	PhaseDestroy    Phase = "destroy"
)

// The phases of a replay of cases on a kernel, after [PhaseImage].
const (
	PhaseBoot  Phase = "boot"
	PhaseCases Phase = "cases"
)

// PhaseEvent says that a phase began, is going on, or is done.
type PhaseEvent struct {
	Phase Phase `json:"phase"`
	// State is "started", "progress" or "done".
	State  string  `json:"state"`
	Detail string  `json:"detail,omitempty"`
	At     float64 `json:"at_s"` // seconds since the start of the operation
}

// ResourceEvent is one step of the walk over the resources.
type ResourceEvent struct {
	Address string  `json:"address"`
	Action  string  `json:"action"`
	State   string  `json:"state"` // started, done, failed, skipped
	Took    float64 `json:"took_s,omitempty"`
}

// PlanEvent is the plan as it is shown: text for people, data for machines.
type PlanEvent struct {
	Lab     string          `json:"lab"`
	Text    string          `json:"-"`
	Plan    json.RawMessage `json:"plan"`
	Changes int             `json:"changes"`
	Trials  int             `json:"trials"`
}

// RunEvent is one finished (or just started) run of an experiment.
type RunEvent struct {
	Experiment string         `json:"experiment"`
	RunID      string         `json:"run_id"`
	Treatment  string         `json:"treatment_id"`
	State      string         `json:"state"` // started, done
	K          int            `json:"k"`     // from 1
	N          int            `json:"n"`
	AnswersOK  int            `json:"answers_ok"`
	Sent       int            `json:"queries_sent"`
	Decisions  *int           `json:"decisions,omitempty"`
	Backends   map[string]int `json:"answers_by_backend,omitempty"`
	Flags      []string       `json:"flags,omitempty"`
	Valid      bool           `json:"valid"`
	Took       time.Duration  `json:"took_ns,omitempty"`
	Left       time.Duration  `json:"left_ns,omitempty"`
}

// DiagnosticEvent is a message with its sources, so that a snippet can be shown.
type DiagnosticEvent struct {
	Diagnostics diag.Diagnostics
	Sources     map[string][]byte
}

// CheckEvent is the result of a check block.
type CheckEvent struct {
	Name    string `json:"name"`
	Passed  bool   `json:"passed"`
	Message string `json:"message,omitempty"`
}

// NoticeEvent is one sentence for people.
type NoticeEvent struct {
	Text string `json:"text"`
}

// SummaryEvent ends an operation that has something to say: the screen of the
// study, where the evidence lies and what to do next.
type SummaryEvent struct {
	Text     string          `json:"-"`
	Artifact string          `json:"artifact,omitempty"`
	Summary  json.RawMessage `json:"summary,omitempty"`
	Next     []string        `json:"next,omitempty"`
}

// OutputsEvent shows the outputs of the topology, sensitive ones masked.
type OutputsEvent struct {
	Text    string          `json:"-"`
	Outputs json.RawMessage `json:"outputs"`
}

// EventType implements [Event].
func (PhaseEvent) EventType() string { return "phase" }

// EventType implements [Event].
func (ResourceEvent) EventType() string { return "resource" }

// EventType implements [Event].
func (PlanEvent) EventType() string { return "plan" }

// EventType implements [Event].
func (RunEvent) EventType() string { return "run" }

// EventType implements [Event].
func (DiagnosticEvent) EventType() string { return "diagnostic" }

// EventType implements [Event].
func (CheckEvent) EventType() string { return "check" }

// EventType implements [Event].
func (NoticeEvent) EventType() string { return "notice" }

// EventType implements [Event].
func (SummaryEvent) EventType() string { return "summary" }

// EventType implements [Event].
func (OutputsEvent) EventType() string { return "outputs" }

// ReportEvent is the answer of a command that looks at something: text for
// people, data for machines under the type Kind.
type ReportEvent struct {
	Kind string          `json:"-"`
	Text string          `json:"-"`
	Data json.RawMessage `json:"data"`
}

// EventType implements [Event].
func (e ReportEvent) EventType() string { return e.Kind }
