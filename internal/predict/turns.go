package predict

import (
	"cmp"
	"math"
	"slices"

	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
)

// Keeping is what the shares of a treatment keep to when the list turns.
type Keeping string

// What shares keep to.
const (
	// Place: a place of the list gets the same in each block, whoever stands there.
	Place Keeping = "place"
	// Backend: a backend gets the same in each block, wherever it stands.
	Backend Keeping = "backend"
	// Block: neither; each list has shares of its own.
	Block Keeping = "block"
)

// Turn is what is foreseen of a treatment in the blocks that have one list.
type Turn struct {
	Blocks    []int   `json:"blocks"`
	Head      string  `json:"head"` // the backend that the list begins with
	Decisions int     `json:"decisions"`
	Unserved  int     `json:"unserved"`
	Pinned    float64 `json:"pinned"`
	Shares    []Share `json:"shares"` // declared order
}

// ofTurns predicts a treatment in every place of its list: the cell is that of the
// first block. One that depends on more than the list is simulated only for the
// blocks that there are, in that many parts of the budget.
func ofTurns(t *lang.Topology, e lang.Experiment, svc lang.Service, tr experiment.Treatment, budget int, kernels Kernels) (Cell, error) {
	turned := experiment.Turned(e, tr)
	run := min(len(turned), max(1, e.Iterations))
	cell, err := predict(t, e, svc, turned[0], budget, kernels)
	if err != nil {
		return cell, err
	}
	cells, exact := []Cell{cell}, cell.Kind == Exact
	if !exact {
		turned, budget = turned[:run], max(1000, budget/run)
	}
	for _, one := range turned[1:] {
		c, err := predict(t, e, svc, one, budget, kernels)
		if err != nil {
			return cell, err
		}
		if exact { // one treatment is one in every place of the list
			cell.signature += "\n" + c.signature
		}
		cells = append(cells, c)
	}
	if run > 1 {
		cell.keep(cells[:run], e.Iterations)
	}
	return cell, nil
}

// keep says what the shares keep to, given a treatment's cells in the order of their
// first block.
func (c *Cell) keep(turns []Cell, blocks int) {
	c.KeepsTo = Block
	for _, to := range []Keeping{Place, Backend} {
		first := c.by(to)
		if !slices.ContainsFunc(turns, func(o Cell) bool { return o.Unserved != c.Unserved || !slices.EqualFunc(o.by(to), first, Share.same) }) {
			c.KeepsTo = to
			return
		}
	}
	for i, o := range turns {
		turn := Turn{Decisions: o.Decisions, Unserved: o.Unserved, Pinned: o.Pinned, Shares: o.Shares}
		for b := i + 1; b <= blocks; b += len(o.Shares) {
			turn.Blocks = append(turn.Blocks, b)
		}
		for _, s := range o.Shares {
			if s.Position == 0 {
				turn.Head = s.Backend
			}
		}
		c.Turns = append(c.Turns, turn)
	}
}

// by are the shares in the order of the list or in the declared one.
func (c *Cell) by(to Keeping) []Share {
	out := slices.Clone(c.Shares)
	if to == Place {
		slices.SortStableFunc(out, func(a, b Share) int { return cmp.Compare(a.Position, b.Position) })
	}
	return out
}

// drawnAlike is how far expected shares of what draws may lie apart and be one: a
// hash fills its buckets by the list, which moves a share by less than that.
const drawnAlike = 0.01

// same reports whether two shares are one: the very numbers, or about what is
// expected where chance decides.
func (s Share) same(o Share) bool {
	if s.Low != nil && o.Low != nil {
		return math.Abs(s.Share-o.Share) <= drawnAlike
	}
	return s.Low == o.Low && s.Decisions == o.Decisions && s.Queries == o.Queries
}

// unserved is the largest number of queries that IPVS sends to nobody in a run.
func (c *Cell) unserved() int {
	n := c.Unserved
	for _, t := range c.Turns {
		n = max(n, t.Unserved)
	}
	return n
}
