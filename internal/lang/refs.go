package lang

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/lvslab/lvslab/internal/addr"
)

// exprInfo is what is known of an expression without evaluating it.
type exprInfo struct {
	refs []ref
	bad  bool // a reference or function in it was reported: do not evaluate
}

// ref is one reference out of an expression.
type ref struct {
	root  string // var, local, each, count, lab, or a kind of noun
	name  string // the variable, local or label; key, value, index, name
	attr  string // of a noun: the attribute, "" for the whole block
	index bool   // an instance was picked
	splat bool   // all instances were: [*]
	plain bool   // whole, but its attributes are surely not looked at (length(…))
	rng   hcl.Range
	trav  hcl.Traversal
}

// noun is the block that the reference leads to.
func (r ref) noun() addr.Noun { return addr.N(addr.Kind(r.root), r.name) }

// refWalker finds the references of an expression. HCL's own walk yields only
// traversals; this one also sees the attribute behind a splat
// (backend.ns[*].address) and behind a computed index
// (backend.ns[count.index].address), which decide the phase.
type refWalker struct {
	hidden []map[string]struct{} // names bound by for expressions
	attrs  map[*hclsyntax.ScopeTraversalExpr]string
	picked map[*hclsyntax.ScopeTraversalExpr]bool
	plain  map[*hclsyntax.ScopeTraversalExpr]bool
	splat  map[*hclsyntax.ScopeTraversalExpr]bool
	found  []ref
	calls  []*hclsyntax.FunctionCallExpr
}

func walkRefs(expr hclsyntax.Expression) *refWalker {
	w := &refWalker{
		attrs:  map[*hclsyntax.ScopeTraversalExpr]string{},
		picked: map[*hclsyntax.ScopeTraversalExpr]bool{},
		plain:  map[*hclsyntax.ScopeTraversalExpr]bool{},
		splat:  map[*hclsyntax.ScopeTraversalExpr]bool{},
	}
	hclsyntax.Walk(expr, w)
	return w
}

// Enter notes what a parent says about its child before the child is met.
func (w *refWalker) Enter(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case hclsyntax.ChildScope:
		w.hidden = append(w.hidden, n.LocalNames)
	case *hclsyntax.FunctionCallExpr:
		w.calls = append(w.calls, n)
		if n.Name == "length" && len(n.Args) == 1 {
			if st := scopeTraversal(n.Args[0]); st != nil {
				w.plain[st] = true
			}
		}
	case *hclsyntax.SplatExpr:
		if st := blockTraversal(n.Source); st != nil {
			if rel, ok := n.Each.(*hclsyntax.RelativeTraversalExpr); ok {
				w.attrs[st] = firstAttr(rel.Traversal)
			}
			w.splat[st] = true
		}
	case *hclsyntax.RelativeTraversalExpr:
		if ix, ok := n.Source.(*hclsyntax.IndexExpr); ok {
			if st := blockTraversal(ix.Collection); st != nil {
				w.attrs[st] = firstAttr(n.Traversal)
			}
		}
	case *hclsyntax.IndexExpr:
		if st := blockTraversal(n.Collection); st != nil {
			w.picked[st] = true
		}
	case *hclsyntax.ScopeTraversalExpr:
		if !w.isHidden(n.Traversal.RootName()) {
			w.found = append(w.found, w.ref(n))
		}
	}
	return nil
}

// Exit closes the scope of a for expression.
func (w *refWalker) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if _, ok := n.(hclsyntax.ChildScope); ok {
		w.hidden = w.hidden[:len(w.hidden)-1]
	}
	return nil
}

func (w *refWalker) isHidden(name string) bool {
	for _, names := range w.hidden {
		if _, ok := names[name]; ok {
			return true
		}
	}
	return false
}

// blockTraversal is scopeTraversal for KIND.NAME alone: what stands behind it
// picks instances. Behind an attribute it picks parts of that attribute.
func blockTraversal(e hclsyntax.Expression) *hclsyntax.ScopeTraversalExpr {
	if st := scopeTraversal(e); st != nil && len(st.Traversal) == 2 {
		return st
	}
	return nil
}

func scopeTraversal(e hclsyntax.Expression) *hclsyntax.ScopeTraversalExpr {
	if par, ok := e.(*hclsyntax.ParenthesesExpr); ok {
		return scopeTraversal(par.Expression)
	}
	st, _ := e.(*hclsyntax.ScopeTraversalExpr)
	return st
}

func firstAttr(t hcl.Traversal) string {
	for _, step := range t {
		if a, ok := step.(hcl.TraverseAttr); ok {
			return a.Name
		}
	}
	return ""
}

// ref takes a traversal apart.
func (w *refWalker) ref(st *hclsyntax.ScopeTraversalExpr) ref {
	t := st.Traversal
	r := ref{root: t.RootName(), rng: t.SourceRange(), trav: t, attr: w.attrs[st], index: w.picked[st], splat: w.splat[st], plain: w.plain[st]}
	if len(t) > 1 {
		r.name = stepName(t[1])
	}
	if len(t) <= 2 {
		return r
	}
	rest := t[2:]
	if _, ok := rest[0].(hcl.TraverseIndex); ok {
		r.index, rest = true, rest[1:]
	}
	if a := firstAttr(rest); a != "" {
		r.attr = a
	}
	return r
}

// stepName reads .name and ["name"]; any other step yields "".
func stepName(step hcl.Traverser) string {
	switch s := step.(type) {
	case hcl.TraverseAttr:
		return s.Name
	case hcl.TraverseIndex:
		if s.Key.Type().FriendlyName() == "string" && s.Key.IsKnown() && !s.Key.IsNull() {
			return s.Key.AsString()
		}
	}
	return ""
}
