package population

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text is the prediction as people read it.
func (p Prediction) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s: %s clients behind %s addresses ask %s queries a second", p.Population, p.Service, whole3(p.Clients), whole3(p.Addresses), short(p.Rate))
	if p.Ports == "fresh" {
		b.WriteString(", each from a fresh port")
	} else {
		fmt.Fprintf(&b, ", ports of each client: %s", p.Ports)
	}
	if p.Skew > 0 {
		fmt.Fprintf(&b, ", skew %.4g", p.Skew)
	}
	fmt.Fprintf(&b, ".\nBy the kernel's rules, the first %s:\n\n", span(p.Until))
	p.shares(&b)
	b.WriteString("\n")
	p.tableOf(&b)
	p.failures(&b)
	p.growth(&b)
	b.WriteString("\n" + strings.Join(p.notes(), "\n"))
	return strings.TrimRight(b.String(), "\n")
}

// columns writes rows below each other, the first cell to the left.
func columns(b *strings.Builder, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := "  "
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line += cell + pad
			} else {
				line += "  " + pad + cell
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func (p Prediction) shares(b *strings.Builder) {
	head := []string{"share of the queries", "by"}
	for _, n := range p.Backends {
		head = append(head, name(n))
	}
	rows := [][]string{append(head, "nobody")}
	for _, c := range p.Cells {
		row := []string{c.Treatment, "model"}
		if len(c.Shares) > 0 && c.Shares[0].Exact != nil {
			row[1] = "hash"
		}
		for _, s := range c.Shares {
			text := fmt.Sprintf("%.2f %%", 100*s.Share())
			if s.Exact == nil {
				text += fmt.Sprintf(" ±%.2f", 100*s.SE)
			}
			row = append(row, text)
		}
		rows = append(rows, append(row, fmt.Sprintf("%.2f %%", 100*c.Unserved)))
	}
	columns(b, rows)
}

func (p Prediction) tableOf(b *strings.Builder) {
	rows := [][]string{{"table at the end", "entries", "simulated", "memory", "chain", "by entry", "simulated", "half obey", "95 % obey"}}
	for _, c := range p.Cells {
		rows = append(rows, []string{
			c.Treatment, closed(c.Entries.Closed), short(c.Entries.Simulated) + " ±" + short(c.Entries.SE), size(&c.Bytes), fmt.Sprintf("%.1f", c.Chain),
			percent(c.Pinned.Closed), fmt.Sprintf("%.1f %%", 100*c.Pinned.Simulated), c.obey(c.Half), c.obey(c.Most),
		})
	}
	columns(b, rows)
}

// obey is a time until weights are obeyed.
func (c Cell) obey(s *float64) string {
	switch {
	case c.persistent:
		return "–"
	case s == nil:
		return "> " + span(horizon*c.Timeout)
	}
	return span(*s)
}

func (p Prediction) failures(b *strings.Builder) {
	rows := [][]string{{"a backend fails", "backend", "lost", "simulated", "within", "moved"}}
	for _, c := range p.Cells {
		for _, o := range c.Outages {
			rows = append(rows, []string{c.Treatment, name(o.Backend), closed(o.Lost.Closed), short(o.Lost.Simulated) + " ±" + short(o.Lost.SE), span(o.Seconds), percent(o.Moved)})
		}
	}
	if len(rows) > 1 {
		b.WriteString("\n")
		columns(b, rows)
	}
}

func (p Prediction) growth(b *strings.Builder) {
	rows := [][]string{{"more clients", "clients", "queries/s", "entries", "memory", "chain", "by entry", "95 % obey", "spread"}}
	for _, c := range p.Cells {
		for _, g := range c.Growth {
			chain := "–"
			if g.Chain != nil {
				chain = fmt.Sprintf("%.1f", *g.Chain)
			}
			spread := "–"
			if g.Spread != nil {
				spread = fmt.Sprintf("±%.2g %%", 100**g.Spread)
			}
			rows = append(rows, []string{c.Treatment + " ×" + strconv.Itoa(g.Times), whole3(g.Clients), short(g.Rate), closed(g.Entries), size(g.Bytes), chain, percent(g.Pinned), c.obey(g.Most), spread})
		}
	}
	b.WriteString("\n")
	columns(b, rows)
}

func (p Prediction) notes() []string {
	packets, repeated := 0, 0
	for _, c := range p.Cells {
		packets += c.Packets
		repeated = c.Repeated
	}
	out := []string{
		fmt.Sprintf("Simulated: %s packets of a sample, each treatment %d times; ± is the standard error. The columns before \"simulated\" are closed forms.", whole3(packets), repeated),
		`"obey": until so many queries follow weights that are changed when the table is full.`,
		`"spread": how far a share may lie from what is expected, for other ports, addresses or draws: one standard deviation, at most.`,
	}
	for _, c := range p.Cells {
		for _, o := range c.Outages {
			if o.Moved != nil {
				return append(out, `"moved": queries that change their backend though it did not fail.`)
			}
		}
	}
	return out
}

// name is a backend's name without its kind and its module.
func name(backend string) string {
	if i := strings.LastIndex(backend, "backend."); i >= 0 {
		return backend[i+len("backend."):]
	}
	return backend
}

// whole3 writes a whole number with its thousands apart.
func whole3(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes three digits of a number.
func short(x float64) string {
	switch {
	case math.Abs(x) >= 999.5e6:
		return fmt.Sprintf("%.3g G", x/1e9)
	case math.Abs(x) >= 999.5e3:
		return fmt.Sprintf("%.3g M", x/1e6)
	case math.Abs(x) >= 9999.5:
		return fmt.Sprintf("%.3g k", x/1e3)
	case math.Abs(x) >= 99.5 || x == 0:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

func closed(x *float64) string {
	if x == nil {
		return "–"
	}
	return short(*x)
}

func percent(x *float64) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100**x)
}

// size writes bytes.
func size(x *float64) string {
	switch {
	case x == nil:
		return "–"
	case *x >= 1<<30:
		return fmt.Sprintf("%.3g GiB", *x/(1<<30))
	case *x >= 1<<20:
		return fmt.Sprintf("%.3g MiB", *x/(1<<20))
	}
	return fmt.Sprintf("%.3g KiB", *x/(1<<10))
}

// span writes seconds.
func span(s float64) string {
	switch {
	case s >= 2*3600:
		return fmt.Sprintf("%.3g h", s/3600)
	case s >= 600:
		return fmt.Sprintf("%.3g min", s/60)
	}
	return fmt.Sprintf("%.3g s", s)
}
