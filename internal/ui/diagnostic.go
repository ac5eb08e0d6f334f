package ui

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// Diagnostic renders one message: a coloured bar, the summary, the place with
// its source line and a marker under the culprit, the values involved, the
// detail, and the remedy on a line of its own.
func Diagnostic(d diag.Diagnostic, sources map[string][]byte, s Style) string {
	var b strings.Builder
	title, paint := "Error", s.Red
	if d.Severity == diag.Warning {
		title, paint = "Warning", s.Yellow
	}
	fmt.Fprintf(&b, "%s %s\n", paint(title+":"), s.Bold(d.Summary))
	if d.Subject != nil {
		b.WriteString(snippet(d, sources, s))
	} else if d.Address != "" {
		fmt.Fprintf(&b, "\n  with %s\n", d.Address)
	}
	for _, v := range d.Values {
		fmt.Fprintf(&b, "    %s is %s\n", v.Name, v.Rendered)
	}
	if d.Detail != "" {
		b.WriteString("\n" + indent(wrap(d.Detail, s.Width-2), "  ") + "\n")
	}
	if d.Remedy != "" {
		b.WriteString("\n" + indent(wrap("→ "+d.Remedy, s.Width-2), "  ") + "\n")
	}
	return b.String()
}

func snippet(d diag.Diagnostic, sources map[string][]byte, s Style) string {
	var b strings.Builder
	r := d.Subject
	fmt.Fprintf(&b, "\n  on %s line %d, column %d", r.Filename, r.Start.Line, r.Start.Column)
	if d.Address != "" {
		fmt.Fprintf(&b, ", in %s", d.Address)
	}
	b.WriteString(":\n")
	line, ok := sourceLine(sources[r.Filename], r.Start.Line)
	if !ok {
		return b.String()
	}
	fmt.Fprintf(&b, "  %4d: %s\n", r.Start.Line, line)
	width := r.End.Column - r.Start.Column
	if r.End.Line != r.Start.Line {
		width = len([]rune(line)) - r.Start.Column + 1
	}
	if width < 1 {
		width = 1
	}
	if r.Start.Column >= 1 && r.Start.Column-1 <= len([]rune(line)) {
		pad := strings.Map(keepTabs, string([]rune(line)[:r.Start.Column-1]))
		fmt.Fprintf(&b, "        %s%s\n", pad, s.Red(strings.Repeat("^", width)))
	}
	return b.String()
}

// keepTabs keeps the marker under its column when the line is indented by tabs.
func keepTabs(r rune) rune {
	if r == '\t' {
		return r
	}
	return ' '
}

func sourceLine(src []byte, n int) (string, bool) {
	lines := bytes.Split(src, []byte("\n"))
	if src == nil || n < 1 || n > len(lines) {
		return "", false
	}
	return strings.TrimRight(string(lines[n-1]), "\r"), true
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(text, "\n", "\n"+by)
}

// wrap breaks lines at blanks; lines that the author broke stay broken.
func wrap(text string, width int) string {
	var out []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		cur := ""
		for _, word := range strings.Fields(line) {
			switch {
			case cur == "":
				cur = leading(line) + word
			case len([]rune(cur))+1+len([]rune(word)) > width:
				out = append(out, cur)
				cur = word
			default:
				cur += " " + word
			}
		}
		out = append(out, cur)
	}
	return strings.Join(out, "\n")
}

func leading(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}
