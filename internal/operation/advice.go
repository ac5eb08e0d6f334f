package operation

import (
	"strings"

	"github.com/lvslab/lvslab/internal/advise"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// AdviceEvent is what the design of the experiments cannot show, found before
// anything runs. It fails nothing.
type AdviceEvent struct {
	Text   string       `json:"-"`
	Advice []AdviceItem `json:"advice"`
}

// AdviceItem is one advice as data.
type AdviceItem struct {
	advise.Advice
	Title string     `json:"title"`
	Why   string     `json:"why"`
	At    adviceSpot `json:"at"`
}

type adviceSpot struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// EventType implements [Event].
func (AdviceEvent) EventType() string { return "advice" }

// advise shows what the experiments of a topology cannot show: one line each,
// or with Verbose each with its place, reason and fix. It fails nothing.
func (s *Settings) advise(t *lang.Topology) {
	found := advise.Check(t)
	var warnings diag.Diagnostics
	ev := AdviceEvent{}
	for _, a := range found {
		warnings = append(warnings, a.Diagnostic())
		r, _ := advise.Explain(a.Rule)
		ev.Advice = append(ev.Advice, AdviceItem{a, r.Title, r.Why, adviceSpot{a.Range.Filename, a.Range.Start.Line, a.Range.Start.Column}})
	}
	if len(warnings) == 0 {
		return
	}
	if s.Verbose {
		s.warn(warnings)
	} else {
		ev.Text = adviceText(ev.Advice)
	}
	s.Events.Emit(ev)
}

// adviceText groups the lines by experiment.
func adviceText(list []AdviceItem) string {
	var b strings.Builder
	last := ""
	for _, a := range list {
		if a.Address != last {
			b.WriteString("\nAdvice on " + a.Address + " (reasons: --verbose):\n")
			last = a.Address
		}
		b.WriteString("  " + a.Line() + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}
