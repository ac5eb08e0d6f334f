package predict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lvslab/lvslab/internal/experiment"
)

// Text is the prediction as people read it.
func (p Prediction) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s: %s. By the kernel's rules, each run:\n\n", p.Experiment, p.Service, count(len(p.Cells), "treatment"))
	for _, s := range p.sections() {
		if s.title != "" {
			b.WriteString("  " + s.title + "\n")
		}
		s.table(&b)
		b.WriteByte('\n')
	}
	for _, line := range p.findings() {
		b.WriteString(line + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// short is a backend's name without its kind and its module.
func short(backend string) string {
	if i := strings.LastIndex(backend, "backend."); i >= 0 {
		return backend[i+len("backend."):]
	}
	return backend
}

func (s section) table(b *strings.Builder) {
	rows := [][]string{append([]string{"treatment", "sure", "ports", "decisions", "by entry"}, s.columns...)}
	for _, r := range s.rows {
		line := []string{r.cell.Treatment + r.where, string(r.cell.Kind), strconv.Itoa(r.cell.Ports), strconv.Itoa(r.decisions), fmt.Sprintf("%.1f %%", 100*r.pinned)}
		for _, share := range r.shares {
			line = append(line, share.text())
		}
		rows = append(rows, line)
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := " "
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i < 2 { // words to the left, numbers to the right
				line += " " + cell + pad + " "
			} else {
				line += " " + pad + cell + " "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func (p Prediction) names() []string {
	var out []string
	for _, n := range p.Backends {
		out = append(out, short(n))
	}
	return out
}

// text is a number of queries, or an expectation with its range.
func (s Share) text() string {
	if s.Low == nil {
		return strconv.FormatFloat(s.Queries, 'f', 0, 64)
	}
	return fmt.Sprintf("%.1f %% (%.0f–%.0f)", 100*s.Share, 100**s.Low, 100**s.High)
}

// findings are the sentences below the table.
func (p Prediction) findings() []string {
	var out []string
	for _, same := range p.Same {
		out = append(out, fmt.Sprintf("These %d are one treatment here, in all of them each query goes to the same backend: %s.", len(same), names(same)))
	}
	if p.Collapses && len(p.Same) > 0 {
		out = append(out, "collapse = true: of treatments that are one by the rules of every kernel only the first is run, and stands for the others.")
	}
	kinds := map[Kind]string{
		Order:  `"order": several generators share the scheduler; decisions are exact, whose queries they are depends on who comes first.`,
		Ports:  `"ports": the source ports decide, which the client's kernel draws: what is expected, and where 95 of 100 runs are.`,
		Chance: `"chance": the scheduler draws: what is expected, and where 95 of 100 runs are.`,
		Time:   `"time": the load's exact times decide: sockets rest about as long as entries live, or connections of one query each overlap.`,
		Path:   `"path": an impairment may lose, copy or reorder packets; the numbers are those without it.`,
	}
	for _, k := range []Kind{Order, Ports, Chance, Time, Path} {
		if slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.Kind == k }) {
			out = append(out, kinds[k])
		}
	}
	if p.Rotates {
		out = append(out, p.turning())
	}
	out = append(out, p.extremes()...)
	return out
}

// turning says how the list turns and who is its head when.
func (p Prediction) turning() string {
	line := "The kernel's list begins one place further on in each block"
	if slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.KeepsTo != "" }) {
		return line + "."
	}
	return line + ", and there is one block."
}

// names writes treatments by what tells them apart, controls as they are.
func names(treatments []string) string {
	var out, plain, controls []string
	for _, t := range treatments {
		if strings.HasPrefix(t, experiment.ControlPrefix) {
			controls = append(controls, t)
		} else {
			plain = append(plain, t)
		}
	}
	if len(plain) > 0 {
		out = append(out, varying(plain))
	}
	return strings.Join(append(out, controls...), "; ")
}

// varying writes treatments of one experiment as the values of the factor that
// varies, and behind them once what all have in common.
func varying(treatments []string) string {
	if len(treatments) == 1 {
		return treatments[0]
	}
	var parts [][]string
	for _, t := range treatments {
		parts = append(parts, strings.Split(t, ","))
	}
	var common []string
	at := -1
	for i := range parts[0] {
		if !slices.ContainsFunc(parts, func(p []string) bool { return p[i] != parts[0][i] }) {
			common = append(common, parts[0][i])
		} else if at < 0 {
			at = i
		} else {
			return strings.Join(treatments, "; ")
		}
	}
	var values []string
	for _, p := range parts {
		_, value, _ := strings.Cut(p[at], "=")
		values = append(values, value)
	}
	out := strings.Join(values, ", ")
	if len(common) > 0 {
		out += " (" + strings.Join(common, ", ") + ")"
	}
	return out
}

// extremes tells what holds for all treatments or how far it goes.
func (p Prediction) extremes() []string {
	if len(p.Cells) == 0 {
		return nil
	}
	var out []string
	worst := slices.MaxFunc(p.Cells, func(a, b Cell) int { return compare(a.Quantum, b.Quantum) })
	if worst.Decisions > 0 && worst.Quantum > 0.01 {
		out = append(out, fmt.Sprintf("Where %s to be made, one is %.3g %% of the queries, and no share can be finer (%s).", are(worst.Decisions), 100*worst.Quantum, worst.Treatment))
	}
	if lost := slices.MaxFunc(p.Cells, func(a, b Cell) int { return a.unserved() - b.unserved() }); lost.unserved() > 0 {
		out = append(out, fmt.Sprintf("IPVS sends up to %s to nobody (%s).", queries(lost.unserved()), lost.Treatment))
	}
	long := slices.MaxFunc(p.Cells, func(a, b Cell) int { return compare(a.EntryMax, b.EntryMax) })
	if long.EntryMax > 0 {
		line := fmt.Sprintf("Entries live %.4g to %.4g s after their last packet", long.EntryMin, long.EntryMax)
		if long.Hurts > 0 {
			line += "; the flows of a backend that is removed are dropped for as long"
		}
		out = append(out, line+".")
	}
	if long.Reuse != nil {
		out = append(out, fmt.Sprintf("In a load that lasts, %.0f %% of fresh source ports meet a living entry.", 100**long.Reuse))
	}
	return out
}

func are(n int) string {
	if n == 1 {
		return "1 decision is"
	}
	return strconv.Itoa(n) + " decisions are"
}

func queries(n int) string {
	if n == 1 {
		return "1 query"
	}
	return strconv.Itoa(n) + " queries"
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
