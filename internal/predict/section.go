package predict

import (
	"fmt"

	"github.com/lvslab/lvslab/internal/verdict"
)

// section is a table of treatments whose shares have the same columns.
type section struct {
	title   string // "" when the list does not turn
	columns []string
	rows    []row
}

// row is a treatment, or one in the blocks that have one list.
type row struct {
	where     string // ", blocks 1 and 4 (head ns[0])", "" = in all
	head      string // ", head ns[0]" in short
	cell      Cell
	decisions int
	pinned    float64
	shares    []Share // one for each column
}

// sections sort the treatments by what their shares keep to when the list turns;
// else there is one.
func (p Prediction) sections() []section {
	var places []string
	for i := range p.Backends {
		places = append(places, verdict.Place(i))
	}
	order := []Keeping{"", Place, Backend, Block}
	all := map[Keeping]*section{
		"":      {columns: p.names()},
		Place:   {title: "By place of the list, whoever stands there:", columns: places},
		Backend: {title: "By backend, wherever in the list it stands:", columns: p.names()},
		Block:   {title: "By backend, in the blocks that have one list:", columns: p.names()},
	}
	for _, c := range p.Cells {
		s := all[c.KeepsTo]
		s.rows = append(s.rows, c.rows()...)
	}
	var out []section
	for _, to := range order {
		if s := all[to]; len(s.rows) > 0 || to == "" && len(p.Cells) == 0 {
			out = append(out, *s)
		}
	}
	return out
}

func (c Cell) rows() []row {
	if c.KeepsTo != Block {
		return []row{{"", "", c, c.Decisions, c.Pinned, c.by(c.KeepsTo)}}
	}
	var out []row
	for _, t := range c.Turns {
		where := fmt.Sprintf(", %s (head %s)", verdict.BlocksText(t.Blocks), short(t.Head))
		out = append(out, row{where, ", head " + short(t.Head), c, t.Decisions, t.Pinned, t.Shares})
	}
	return out
}
