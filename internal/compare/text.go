package compare

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text is the comparison for people.
func (c Comparison) Text() string {
	var b strings.Builder
	for _, s := range []struct {
		name string
		Side
	}{{"A", c.A}, {"B", c.B}} {
		fmt.Fprintf(&b, "%s  %s: lvslab %s, guest %s, %s, %d of %d runs valid\n", s.name, s.Dir, known(s.Lvslab), known(s.GuestKernel), known(s.Accelerator), s.ValidRuns, s.Runs)
	}
	section := func(title string, list []Change) {
		if len(list) == 0 {
			return
		}
		b.WriteString("\n" + title + "\n")
		table(&b, list)
	}
	if len(c.Inputs) == 0 {
		b.WriteString("\nInputs: nothing differs.\n")
	}
	section("Inputs that differ", c.Inputs)
	for _, only := range []struct {
		name string
		list []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		if len(only.list) > 0 {
			fmt.Fprintf(&b, "\nTreatments only in %s\n  %s\n", only.name, strings.Join(only.list, "\n  "))
		}
	}
	fmt.Fprintf(&b, "\nOutcomes: %d of %d treatments in both results are alike.\n", c.Alike(), len(c.Treatments))
	for _, t := range c.Treatments {
		if len(t.Differences) > 0 {
			turns := ""
			if t.ListTurns {
				turns = "; the list turns"
			}
			section(fmt.Sprintf("%s: %s (%d and %d runs%s)", t.Experiment, t.ID, t.RunsA, t.RunsB, turns), t.Differences)
		}
	}
	section("Verdicts that differ", c.Verdicts)
	c.timeText(&b)
	return strings.TrimRight(b.String(), "\n")
}

func (c Comparison) timeText(b *strings.Builder) {
	if c.Time.Refused != "" {
		fmt.Fprintf(b, "\nTime is not compared: %s.\n", c.Time.Refused)
		return
	}
	b.WriteString("\nbatch_s, median in seconds\n")
	width := 0
	for _, r := range c.Time.Rows {
		width = max(width, len(r.ID))
	}
	for _, r := range c.Time.Rows {
		delta := "~"
		if r.Differs() {
			delta = fmt.Sprintf("%+.2f %%", 100*(r.Ratio-1))
		}
		fmt.Fprintf(b, "  %-*s  %9.6f │ %9.6f  %9s (p = %.3f, n = %d + %d)\n", width, r.ID, r.MedianA, r.MedianB, delta, r.P, r.NA, r.NB)
	}
	b.WriteString("  ~ no difference beyond chance; p of the rank sum test after Holm's correction\n")
}

// table writes names and both values in columns; what is long gets lines of its own.
func table(b *strings.Builder, list []Change) {
	name, a := 0, 0
	for _, c := range list {
		name, a = max(name, utf8.RuneCountInString(c.Name)), max(a, utf8.RuneCountInString(shown(c.A)))
	}
	a = min(a, 40)
	for _, c := range list {
		fmt.Fprintf(b, "  %-*s  %*s │ %s\n", name, c.Name, a, shown(c.A), shown(c.B))
	}
}

func shown(v string) string {
	if v == "" {
		return "–"
	}
	return v
}
