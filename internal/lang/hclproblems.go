package lang

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
)

// hclProblems turns HCL's messages about an expression into ours: the values
// involved and a remedy are added, the place is kept.
func hclProblems(in hcl.Diagnostics, expr hcl.Expression, ctx *hcl.EvalContext) diag.Diagnostics {
	out := diag.FromHCL(in)
	for i, h := range in {
		if out[i].Subject == nil {
			r := expr.Range()
			out[i].Subject = &r
		}
		from, in := h.Expression, h.EvalContext
		if from == nil || in == nil {
			from, in = expr, ctx
		}
		out[i].Values = involved(from, in)
		out[i].Detail = strings.TrimSpace(out[i].Detail)
		out[i].Remedy = remedyFor(h)
		if word, names := attributesThere(h); len(names) > 0 {
			out[i].Remedy = suggest(word, names, "Write")
		}
	}
	return out
}

func remedyFor(h *hcl.Diagnostic) string {
	switch h.Summary {
	case "Invalid index":
		return "Use an index or key that exists; length(…) and keys(…) tell which do."
	case "Unsupported attribute", "Missing map element":
		return "Use a name that exists; try(…) gives a fallback."
	case "Attempt to get attribute from null value", "Attempt to index null value":
		return "Check for null first: x == null ? … : ….value."
	case "Inconsistent conditional result types":
		return "Give both sides of ? : the same type: two texts, two numbers, two blocks of one kind."
	case "Invalid operand", "Unsuitable value type", "Incorrect condition type", "Invalid template interpolation value":
		return "Give a value of the type named; tostring(…) and tonumber(…) convert."
	case "Not enough function arguments", "Too many function arguments":
		return "Call the function with the arguments that it takes."
	case "Iteration over null value", "Iteration over non-iterable value":
		return "Give a list, a set or a map after in."
	case "Duplicate object key":
		return "Make the keys different, or collect their values with … after the value."
	case "Division by zero", "Invalid function argument", "Error in function call":
		return "Correct the argument; its values are listed."
	}
	return "Correct the expression."
}

// attributesThere returns the attribute that an object was asked for, and those that
// it has.
func attributesThere(h *hcl.Diagnostic) (string, []string) {
	if h.Summary != "Unsupported attribute" || h.Subject == nil || h.EvalContext == nil {
		return "", nil
	}
	var steps hcl.Traversal
	var from func(hcl.Traversal) (cty.Value, hcl.Diagnostics)
	switch x := h.Expression.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		steps = x.Traversal
		from = func(t hcl.Traversal) (cty.Value, hcl.Diagnostics) { return t.TraverseAbs(h.EvalContext) }
	case *hclsyntax.RelativeTraversalExpr:
		steps = x.Traversal
		from = func(t hcl.Traversal) (cty.Value, hcl.Diagnostics) {
			v, ds := x.Source.Value(h.EvalContext)
			if ds.HasErrors() {
				return v, ds
			}
			return t.TraverseRel(v)
		}
	default:
		return "", nil
	}
	for i, step := range steps {
		attr, ok := step.(hcl.TraverseAttr)
		if !ok || attr.SrcRange != *h.Subject {
			continue
		}
		v, ds := from(steps[:i])
		if ds.HasErrors() || !v.Type().IsObjectType() {
			return "", nil
		}
		names := slices.Sorted(maps.Keys(v.Type().AttributeTypes()))
		return attr.Name, slices.DeleteFunc(names, func(n string) bool { return n == handleAttr })
	}
	return "", nil
}

// wrongType says what was given where something else is needed.
func wrongType(argument, owner string, want cty.Type, got cty.Value, err error) diag.Diagnostic {
	remedy := "Give a " + typeName(want) + "."
	switch n, isBlock := handleOf(unmarked(got)); {
	case isBlock && len(attributesOf[n.Kind]) > 1:
		remedy = fmt.Sprintf("Name one of its attributes, for example %s.%s.", n, attributesOf[n.Kind][1].name)
	case want == cty.Number && got.Type() == cty.String:
		remedy = "Give a number, without quotes and without a unit."
	case want == cty.Bool:
		remedy = "Write true or false."
	}
	detail := fmt.Sprintf("%s of %s must be a %s, but is %s", argument, owner, typeName(want), render(got))
	if want.IsCollectionType() && err != nil {
		detail += ": " + errorText(err)
	}
	return diag.Errorf("Wrong type", remedy, "%s.", detail)
}

func unmarked(v cty.Value) cty.Value {
	v, _ = v.Unmark()
	return v
}

// typeName says a type in the words of the language's users.
func typeName(t cty.Type) string {
	switch {
	case t == cty.String:
		return "text"
	case t == cty.Number:
		return "number"
	case t == cty.Bool:
		return "bool"
	case t == cty.DynamicPseudoType:
		return "value"
	case t.IsListType():
		return "list of " + plural(t.ElementType())
	case t.IsSetType():
		return "set of " + plural(t.ElementType())
	case t.IsMapType():
		return "map of " + plural(t.ElementType())
	}
	return t.FriendlyName()
}

// plural: lists of texts, maps of maps of numbers.
func plural(t cty.Type) string {
	first, rest, more := strings.Cut(typeName(t), " ")
	if more {
		return first + "s " + rest
	}
	return first + "s"
}

// errorText is an error of cty with its path, without a final full stop.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	text := strings.TrimSuffix(err.Error(), ".")
	var pe cty.PathError
	if !errors.As(err, &pe) || len(pe.Path) == 0 {
		return text
	}
	var b strings.Builder
	for _, step := range pe.Path {
		switch s := step.(type) {
		case cty.GetAttrStep:
			b.WriteString("." + s.Name)
		case cty.IndexStep:
			b.WriteString("[" + render(s.Key) + "]")
		}
	}
	return strings.TrimPrefix(b.String(), ".") + ": " + text
}
