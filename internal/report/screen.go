package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

// Screen is what a command shows at its end: what happened, where the evidence
// lies, what to do next. Text and Wrap lay it out; other views may use the parts.
type Screen struct {
	Parts    []ScreenPart `json:"parts"` // one for each experiment
	Checks   []Check      `json:"checks,omitempty"`
	Dir      string       `json:"dir"`
	Evidence []Pointer    `json:"evidence"` // paths inside Dir
	Next     []string     `json:"next"`
}

// ScreenPart is the part of one experiment.
type ScreenPart struct {
	Headline string            `json:"headline"`
	Table    Table             `json:"table"`
	Note     string            `json:"note,omitempty"` // who stood at which place of the list
	Points   []verdict.Verdict `json:"points"`
	Rest     string            `json:"rest,omitempty"` // how much more is in the report
}

// Pointer is a place and what is found there.
type Pointer struct {
	Path string `json:"path"`
	What string `json:"what"`
}

// shownPoints is how many statements a screen holds, and shownNext how many
// remedies; the rest is in the report.
const (
	shownPoints = 5
	shownNext   = 3
)

// NewScreen takes what matters most out of a summary. dir is the result's
// directory as the user should type it.
func NewScreen(s Summary, dir string) Screen {
	sc := Screen{Dir: dir, Next: []string{}, Checks: s.failedChecks(), Evidence: []Pointer{
		{artifact.ReportFile, "everything on one page"},
		{artifact.RunsFile, "one row a run"},
		{artifact.BackendsFile, "one row a run and backend"},
		{artifact.RawDir + "/<run_id>/" + artifact.QueriesFile, "one row a query: every number above follows from these"},
	}}
	for _, e := range s.Experiments {
		p := ScreenPart{Headline: headline(e), Table: tableOf(e), Note: e.whoWasWhere()}
		more := 0
		for _, v := range e.Verdicts {
			switch {
			case v.Level == verdict.OK:
			case v.Aside || len(p.Points) == shownPoints:
				more++
			default:
				p.Points = append(p.Points, v)
				if v.Remedy != "" && len(sc.Next) < shownNext && !slices.Contains(sc.Next, v.Remedy) {
					sc.Next = append(sc.Next, v.Remedy)
				}
			}
		}
		p.Rest = rest(more, e.count(verdict.OK))
		sc.Parts = append(sc.Parts, p)
	}
	return sc
}

func headline(e Experiment) string { return e.Facts.Experiment + ": " + counted(e) }

// counted says what was run and how much of it was answered.
func counted(e Experiment) string {
	t := e.Totals
	return fmt.Sprintf("%d treatments in %d blocks, %s of %s runs valid, %s of %s queries answered", len(e.Treatments), t.Blocks,
		verdict.Count(t.ValidRuns), verdict.Count(t.Runs), verdict.Count(t.AnswersOK), verdict.Count(t.QueriesPlanned))
}

func rest(more, passed int) string {
	var parts []string
	if more > 0 {
		parts = append(parts, fmt.Sprintf("%d more to know", more))
	}
	if passed > 0 {
		parts = append(parts, fmt.Sprintf("%d checks passed", passed))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + ": see the report"
}

// marks stand before statements; levels are also told apart without colour.
var marks = map[verdict.Level]string{verdict.Refusal: "✗", verdict.Caution: "!", verdict.Finding: "•", verdict.OK: "✓"}

// plainWidth is where lines are broken when nobody knows the terminal.
const plainWidth = 100

// Text lays the screen out in lines of at most 100 columns.
func (sc Screen) Text() string { return sc.Wrap(plainWidth) }

// Wrap lays the screen out in lines of at most width columns, as far as words
// and the narrowest form of the table allow.
func (sc Screen) Wrap(width int) string {
	width = max(width, 40)
	var b strings.Builder
	for _, p := range sc.Parts {
		fold(&b, p.Headline, "", "", width)
		b.WriteString("\n" + p.Table.Text(width))
		if p.Note != "" {
			fold(&b, p.Note, "", "", width)
		}
		b.WriteString("\n")
		for _, v := range p.Points {
			fold(&b, v.Title+". "+v.Text, marks[v.Level]+" ", "  ", width)
		}
		if p.Rest != "" {
			fold(&b, p.Rest, "  ", "  ", width)
		}
		b.WriteString("\n")
	}
	for _, c := range sc.Checks {
		fold(&b, "Check "+c.Name+" failed: "+c.Message, "✗ ", "  ", width)
	}
	b.WriteString("Evidence in " + sc.Dir + "\n") // never broken: it is there to be copied
	longest := 0
	for _, e := range sc.Evidence {
		longest = max(longest, utf8.RuneCountInString(e.Path))
	}
	for _, e := range sc.Evidence {
		fold(&b, e.What, fmt.Sprintf("  %-*s  ", longest, e.Path), strings.Repeat(" ", longest+4), width)
	}
	if len(sc.Next) > 0 {
		b.WriteString("Next\n")
	}
	for _, n := range sc.Next {
		fold(&b, n, "  ", "  ", width)
	}
	return b.String()
}

// fold writes words in lines of at most width columns.
func fold(b *strings.Builder, text, first, indent string, width int) {
	line := first
	empty := true
	for _, w := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width {
			b.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += w
		empty = false
	}
	b.WriteString(line + "\n")
}
