package reproduce

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/lvslab/lvslab/internal/verdict"
)

// notPublished stands in the cells that what is public of the paper leaves open.
const notPublished = "not published here"

// Text is the table and the reasons, for people; width 100.
func (r Reproduction) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The published protocol, ten schedulers by the mean of their runs (%s, guest kernel %s), beside the abstract of the paper:\n\n", r.Accelerator, r.GuestKernel)
	table := [][]string{{"scheduler", "runs", "batch s", "published", "Mbps", "published", "answers", "published"}}
	for _, row := range r.Rows {
		table = append(table, []string{row.Scheduler, fmt.Sprint(row.Runs), value(row.BatchS), cell(row.Published.BatchS), value(row.Mbps), cell(row.Published.Mbps),
			row.answered(), shape(row.Published.Shape)})
	}
	align(&b, table)
	if len(r.Findings) > 0 {
		b.WriteString("\nWhy it looks like this, from the counts of this result:\n")
	}
	for _, f := range r.Findings {
		b.WriteString("\n")
		for i, line := range wrap(f.Text, 96) {
			lead := "    "
			if i == 0 {
				lead = "  • "
			}
			b.WriteString(lead + line + "\n")
		}
		for _, e := range f.Evidence {
			b.WriteString("      " + e + "\n")
		}
	}
	fmt.Fprintf(&b, "\nResult: %s (lvslab verify checks it; report.html shows all of it)", r.Dir)
	return b.String()
}

// answered says who answered: the one backend, or each one's number.
func (r Row) answered() string {
	if used := r.used(); len(used) == 1 {
		return "all " + used[0]
	}
	var parts []string
	for _, s := range r.Backends {
		parts = append(parts, fmt.Sprintf("%s %d", verdict.Short(s.Backend), s.Answers))
	}
	return strings.Join(parts, ", ")
}

func value(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.4f", *v)
}

func cell(v float64) string {
	if v == 0 {
		return notPublished
	}
	return fmt.Sprintf("%.4f", v)
}

func shape(s string) string {
	if s == "" {
		return notPublished
	}
	return s
}

// align writes a table in columns as wide as their widest cell.
func align(b *strings.Builder, table [][]string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range table {
		fmt.Fprintln(w, "  "+strings.Join(row, "\t"))
	}
	_ = w.Flush() // a strings.Builder takes everything
}

// wrap breaks a text at blanks.
func wrap(text string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(out, line)
}
