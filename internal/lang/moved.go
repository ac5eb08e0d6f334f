package lang

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// Move says that what was called From is called To now. Both are of one kind;
// module calls move everything inside.
type Move struct {
	From, To addr.Noun
	Range    diag.Range
}

// Whole reports whether all instances move, each keeping its key: neither side
// names one of them.
func (m Move) Whole() bool { return m.From.Key.IsNone() && m.To.Key.IsNone() }

// Apply returns the new address of what has the old one, and whether it moves.
func (m Move) Apply(n addr.Noun) (addr.Noun, bool) {
	if m.From.Kind == addr.ModuleCall {
		inside, moved := m.path(n.Module)
		return n.In(inside), moved
	}
	switch {
	case m.Whole() && n.Block() == m.From:
		return m.To.At(n.Key), true
	case !m.Whole() && n == m.From:
		return m.To, true
	}
	return n, false
}

// path is Apply for the path of a module.
func (m Move) path(p addr.Module) (addr.Module, bool) {
	calls := p.Calls()
	depth := len(m.From.Module.Calls())
	if len(calls) <= depth {
		return p, false
	}
	var to addr.Module
	switch at := calls[depth]; {
	case m.Whole() && at.Block() == m.From:
		to = m.To.At(at.Key).Inside()
	case !m.Whole() && at == m.From:
		to = m.To.Inside()
	default:
		return p, false
	}
	for _, rest := range calls[depth+1:] {
		to = to.Child(rest.Label, rest.Key)
	}
	return to, true
}

// moved reads the moved blocks: addresses, never evaluated.
func (p *parser) moved() {
	from, to := map[addr.Noun]Move{}, map[addr.Noun]Move{}
	for _, b := range p.c.moved {
		m := Move{Range: b.rng}
		ok := true
		for name, into := range map[string]*addr.Noun{"from": &m.From, "to": &m.To} {
			a := b.args[name]
			if a == nil { // reported as missing
				ok = false
				continue
			}
			n, d := movable(a.Expr)
			if d != nil {
				p.problems.add(d.At(a.Expr.Range()))
				ok = false
				continue
			}
			*into = n
		}
		if !ok {
			continue
		}
		if d := p.badMove(m, from, to); d != nil {
			p.problems.add(d.At(b.rng))
			continue
		}
		from[m.From], to[m.To] = m, m
		p.c.moves = append(p.c.moves, m)
	}
	p.movesInCircles(from)
}

// badMove says what is wrong with a move, or nil.
func (p *parser) badMove(m Move, from, to map[addr.Noun]Move) *diag.Diagnostic {
	switch {
	case m.From == m.To:
		return fail("Nothing to move", "Leave the block out.", "It moves %s to itself.", m.From)
	case m.From.Kind != m.To.Kind:
		return fail("Another kind of block", "Leave the block out: what changes its kind is made anew.", "%s cannot become %s.", m.From, m.To)
	case from[m.From] != Move{}:
		return fail("Moved twice", "Remove one of the two.", "Line %d moves %s already.", from[m.From].Range.Start.Line, m.From)
	case to[m.To] != Move{}:
		return fail("Moved twice", "Remove one of the two.", "Line %d moves %s to %s already.", to[m.To].Range.Start.Line, to[m.To].From, m.To)
	}
	return nil
}

// moveRules looks for instances that have moved and are still there.
func (e *evaluator) moveRules(sk *Skeleton) {
	for _, m := range sk.Moves {
		for _, n := range sk.Nouns {
			if to, moves := m.Apply(n); moves {
				e.problems.add(diag.Errorf("Moved block is still there", "Rename the block, or leave moved out.",
					"%s is declared, so it has not become %s.", n, to).At(m.Range))
				break
			}
		}
	}
}

func (p *parser) movesInCircles(from map[addr.Noun]Move) {
	for _, m := range p.c.moves {
		at := m.To
		for range from {
			next, ok := from[at]
			if !ok {
				break
			}
			if at = next.To; at == m.From {
				p.problems.add(diag.Errorf("Moves in a circle", "Leave one of them out.", "%s would become itself again.", m.From).At(m.Range))
				break
			}
		}
	}
}

// movable reads an address that is written as a reference; the block need not
// exist.
func movable(e hclsyntax.Expression) (addr.Noun, *diag.Diagnostic) {
	const remedy = "Write an address without quotes: backend.old, backend.ns[0], module.site."
	st := scopeTraversal(e)
	if st == nil {
		return addr.Noun{}, fail("Not an address", remedy, "moved takes the addresses of blocks.")
	}
	n, ok := addressOf(st.Traversal)
	switch {
	case !ok:
		return addr.Noun{}, fail("Not an address", remedy, "%s is not the address of a block.", traversalString(st.Traversal))
	case n.Kind == addr.Zone || n.Kind == addr.Image || n.Kind == addr.Experiment || n.Kind == addr.Population:
		return addr.Noun{}, fail("Nothing to move", "Leave the block out: it may be renamed freely.", "Nothing is kept of %s in the state.", n)
	}
	return n, nil
}

// addressOf reads module.A[K].KIND.LABEL[K].
func addressOf(t hcl.Traversal) (addr.Noun, bool) {
	in := addr.Module("")
	for {
		if len(t) < 2 {
			return addr.Noun{}, false
		}
		kind, label := stepText(t[0]), stepText(t[1])
		n := addr.Noun{Module: in, Kind: addr.Kind(kind), Label: label}
		t = t[2:]
		if len(t) > 0 {
			if ix, ok := t[0].(hcl.TraverseIndex); ok {
				key, ok := keyOf(ix.Key)
				if !ok {
					return addr.Noun{}, false
				}
				n.Key, t = key, t[1:]
			}
		}
		known := n.Kind == addr.ModuleCall || attributesOf[n.Kind] != nil
		if label == "" || !known || len(t) > 0 && n.Kind != addr.ModuleCall {
			return addr.Noun{}, false
		}
		if len(t) == 0 {
			return n, true
		}
		in = n.Inside()
	}
}

func stepText(s hcl.Traverser) string {
	switch s := s.(type) {
	case hcl.TraverseRoot:
		return s.Name
	case hcl.TraverseAttr:
		return s.Name
	}
	return ""
}

func keyOf(v cty.Value) (addr.Key, bool) {
	switch {
	case v.Type() == cty.String && v.IsKnown() && !v.IsNull():
		return addr.Name(v.AsString()), true
	case v.Type() == cty.Number && v.IsKnown() && !v.IsNull():
		if i, acc := v.AsBigFloat().Int64(); acc == 0 && i >= 0 && i < 1<<31 {
			return addr.Index(int(i)), true
		}
	}
	return addr.NoKey, false
}
