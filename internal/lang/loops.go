package lang

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// inLoops evaluates what stands inside the for expressions of expr with an element of
// which only the type is known. hcl does not look there while it does not know the
// collection, and a misspelt attribute of what the runs yield would be found after
// them. It returns the errors of the first for expression that has any.
func inLoops(expr hclsyntax.Expression, ctx *hcl.EvalContext) (hcl.Diagnostics, *hcl.EvalContext) {
	w := &insides{scopes: []*hcl.EvalContext{ctx}}
	hclsyntax.Walk(expr, w)
	return w.found, w.foundIn
}

// insides walks through an expression with the scope of each place.
type insides struct {
	scopes   []*hcl.EvalContext
	loops    []*hcl.EvalContext // of each for expression around here, its inner scope
	tolerant int                // calls around here that take an error for an answer
	found    hcl.Diagnostics
	foundIn  *hcl.EvalContext
}

func (w *insides) scope() *hcl.EvalContext { return w.scopes[len(w.scopes)-1] }

func (w *insides) Enter(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case *hclsyntax.FunctionCallExpr:
		if forgives(n) {
			w.tolerant++
		}
	case *hclsyntax.ForExpr:
		w.loops = append(w.loops, inner(n, w.scope()))
	case hclsyntax.ChildScope:
		ctx := w.loops[len(w.loops)-1]
		w.scopes = append(w.scopes, ctx)
		if w.tolerant > 0 || w.found.HasErrors() {
			break
		}
		if _, ds := n.Expr.Value(ctx); ds.HasErrors() {
			w.found, w.foundIn = ds, ctx
		}
	}
	return nil
}

func (w *insides) Exit(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case *hclsyntax.FunctionCallExpr:
		if forgives(n) {
			w.tolerant--
		}
	case *hclsyntax.ForExpr:
		w.loops = w.loops[:len(w.loops)-1]
	case hclsyntax.ChildScope:
		w.scopes = w.scopes[:len(w.scopes)-1]
	}
	return nil
}

// forgives reports whether an error in the call's arguments is none of its own.
func forgives(n *hclsyntax.FunctionCallExpr) bool { return n.Name == "try" || n.Name == "can" }

// inner is the scope inside a for expression, with key and element unknown.
func inner(n *hclsyntax.ForExpr, outer *hcl.EvalContext) *hcl.EvalContext {
	key, elem := cty.DynamicPseudoType, cty.DynamicPseudoType
	if coll, ds := n.CollExpr.Value(outer); !ds.HasErrors() {
		switch ty := coll.Type(); {
		case ty.IsListType():
			key, elem = cty.Number, ty.ElementType()
		case ty.IsMapType():
			key, elem = cty.String, ty.ElementType()
		case ty.IsSetType():
			key, elem = ty.ElementType(), ty.ElementType()
		}
	}
	ctx := outer.NewChild()
	ctx.Variables = map[string]cty.Value{n.ValVar: cty.UnknownVal(elem)}
	if n.KeyVar != "" {
		ctx.Variables[n.KeyVar] = cty.UnknownVal(key)
	}
	return ctx
}
