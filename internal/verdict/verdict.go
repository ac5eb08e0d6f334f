// Package verdict holds the rules that compare the evidence of a study and say
// what it shows, what it cannot show, and why. It is pure: rows in, verdicts
// out, and every sentence is made from the counts that it names.
package verdict

import "github.com/lvslab/lvslab/internal/artifact"

// Level says what kind of statement a verdict is.
type Level string

// The levels. A Refusal names a claim that this evidence cannot carry; a
// Finding is something that the counts show; a Caution is something to know
// before reading on; OK says that a check was made and passed.
const (
	Refusal Level = "refusal"
	Finding Level = "finding"
	Caution Level = "caution"
	OK      Level = "ok"
)

// Evidence points at the cells that a verdict rests on.
type Evidence struct {
	File   string `json:"file"`   // runs.csv, backends.csv, manifest.json or a path in raw/
	Rows   string `json:"rows"`   // which rows, in words or as run ids
	Column string `json:"column"` // one or more columns
	Value  string `json:"value"`  // what stands there
}

// Verdict is one statement.
type Verdict struct {
	ID       string     `json:"id"`
	Level    Level      `json:"level"`
	Title    string     `json:"title"`
	Text     string     `json:"text"`
	Evidence []Evidence `json:"evidence"`
	// Aside marks what belongs into a report but not among the few lines of a screen.
	Aside  bool   `json:"aside,omitempty"`
	Remedy string `json:"remedy,omitempty"` // what to do to get further
}

// Input is the evidence about one experiment. Rows of other experiments are
// left out of account.
type Input struct {
	Facts    Facts
	Runs     []artifact.Run
	Backends []artifact.BackendRow
}

// Judge applies all rules and returns their verdicts in the order in which they
// are best read: first whether the counts can be trusted, then what happened
// and why, then what may not be said, last the checks that passed.
func Judge(in Input) []Verdict {
	s := newStudy(in)
	if len(s.all) == 0 {
		return []Verdict{{ID: "no-runs", Level: Refusal, Title: "No runs",
			Text:     "The experiment has no run, so nothing can be said.",
			Evidence: []Evidence{{File: artifact.RunsFile, Rows: "all", Column: "run_id", Value: "0 rows"}},
			Remedy:   "Run the experiment: lvslab apply."}}
	}
	rules := []func(*study) []Verdict{
		validity, completeness, losses, generator, straight, agreement, asPlanned, asReplayed, represented,
		decisions, pinned, rotation, oneKey, neverActive,
		onePacket, spread, chance,
		timing, equivalence, drift, redundantRate, twice, controls,
	}
	var first, passed []Verdict
	for _, rule := range rules {
		for _, v := range rule(s) {
			if v.Level == OK {
				passed = append(passed, v)
			} else {
				first = append(first, v)
			}
		}
	}
	return append(first, passed...)
}
