package report

import (
	"strings"
	"unicode/utf8"
)

// Table is a table of text. Keep says how needed a column is: when the table is
// too wide, those with the lowest number go first; 0 is never left out.
type Table struct {
	Head  []string   `json:"head"`
	Right []bool     `json:"-"` // numbers stand right
	Keep  []int      `json:"-"`
	Rows  [][]string `json:"rows"`
}

// manyBackends is how many columns of shares a table takes; beyond it the
// number of backends used and the largest share stand in for them.
const manyBackends = 6

// tableOf makes the table that is shown at the end of a study.
func tableOf(e Experiment) Table {
	t := Table{}
	t.column(e.firstColumn(), false, 0)
	t.column("runs", true, 4)
	wide := len(e.Backends) > manyBackends
	if wide {
		t.column("backends used", true, 0)
		t.column("largest share", true, 0)
	} else {
		for _, name := range e.columns() {
			t.column(name, true, 0)
		}
	}
	t.column("decisions", true, 0)
	t.column("ports", true, 1)
	t.column("jain", true, 2)
	t.column("answers ok", true, 5)
	t.column("batch_s median (min–max)", false, 3)
	for _, l := range e.Treatments {
		row := []string{l.Label, runsText(l)}
		if wide {
			row = append(row, e.extent(l)...)
		} else {
			row = append(row, e.parts(l)...)
		}
		t.Rows = append(t.Rows, append(row, wholeText(l.Decisions), wholeText(l.SourcePorts), indexText(l.Jain), okText(l), distText(l.BatchS)))
	}
	return t
}

func (t *Table) column(name string, right bool, keep int) {
	t.Head = append(t.Head, name)
	t.Right = append(t.Right, right)
	t.Keep = append(t.Keep, keep)
}

// Text lays the table out in at most width columns, leaving columns out where
// it must.
func (t Table) Text(width int) string {
	shown := make([]bool, len(t.Head))
	for i := range shown {
		shown[i] = true
	}
	widths := make([]int, len(t.Head))
	for i, h := range t.Head {
		widths[i] = utf8.RuneCountInString(h)
		for _, r := range t.Rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
	}
	for total(widths, shown) > width {
		drop := -1
		for i := range t.Head {
			if shown[i] && t.Keep[i] > 0 && (drop < 0 || t.Keep[i] < t.Keep[drop]) {
				drop = i
			}
		}
		if drop < 0 {
			break
		}
		shown[drop] = false
	}
	var b strings.Builder
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			if !shown[i] {
				continue
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if line.Len() > 0 {
				line.WriteString("  ")
			}
			if t.Right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func total(widths []int, shown []bool) int {
	n := -2
	for i, w := range widths {
		if shown[i] {
			n += w + 2
		}
	}
	return n
}
