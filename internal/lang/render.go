package lang

import (
	"fmt"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
)

// sensitive marks values of sensitive variables.
const sensitive = valueMark("sensitive")

type valueMark string

// maxRendered bounds a value in a message, in bytes.
const maxRendered = 100

// render writes a value for a message, in the language's own notation, short.
func render(v cty.Value) string {
	var b strings.Builder
	renderTo(&b, v)
	s := b.String()
	if len(s) > maxRendered {
		s = strings.ToValidUTF8(s[:maxRendered], "") + " …"
	}
	return s
}

func renderTo(b *strings.Builder, v cty.Value) {
	if v == cty.NilVal {
		b.WriteString("nothing")
		return
	}
	if v.HasMark(sensitive) {
		b.WriteString("(sensitive)")
		return
	}
	v, _ = v.Unmark()
	switch ty := v.Type(); {
	case v.IsNull():
		b.WriteString("null")
	case !v.IsKnown():
		b.WriteString("(" + article(typeName(ty)) + ", not known yet)")
	case ty == cty.String:
		fmt.Fprintf(b, "%q", v.AsString())
	case ty == cty.Number:
		b.WriteString(v.AsBigFloat().Text('g', 12))
	case ty == cty.Bool:
		fmt.Fprint(b, v.True())
	case isHandleType(ty):
		renderHandle(b, v)
	case ty.IsCapsuleType():
		b.WriteString("(block)")
	case ty.IsMapType() || ty.IsObjectType():
		renderMap(b, v)
	case v.CanIterateElements():
		renderList(b, v)
	default:
		b.WriteString("(" + ty.FriendlyName() + ")")
	}
}

func renderHandle(b *strings.Builder, v cty.Value) {
	n, ok := handleOf(v)
	if !ok {
		b.WriteString("(block)")
		return
	}
	b.WriteString(n.String())
}

func renderList(b *strings.Builder, v cty.Value) {
	b.WriteString("[")
	i := 0
	for it := v.ElementIterator(); it.Next() && b.Len() <= maxRendered; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		_, e := it.Element()
		renderTo(b, e)
	}
	b.WriteString("]")
}

func renderMap(b *strings.Builder, v cty.Value) {
	m := v.AsValueMap()
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	b.WriteString("{")
	for i, k := range keys {
		if b.Len() > maxRendered {
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(k + " = ")
		renderTo(b, m[k])
	}
	b.WriteString("}")
}

// involved lists the values that took part in an expression, for the message
// about it: each reference once, in order.
func involved(expr hcl.Expression, ctx *hcl.EvalContext) []diag.Value {
	if expr == nil || ctx == nil {
		return nil
	}
	var out []diag.Value
	seen := map[string]bool{}
	for _, t := range expr.Variables() {
		name := traversalString(t)
		if seen[name] {
			continue
		}
		seen[name] = true
		v, ds := t.TraverseAbs(ctx)
		for ds.HasErrors() && len(t) > 2 { // a wrong index: show what it was applied to
			t = t[:len(t)-1]
			name = traversalString(t)
			v, ds = t.TraverseAbs(ctx)
		}
		if ds.HasErrors() || render(v) == name { // director.lb = director.lb says nothing
			continue
		}
		out = append(out, diag.Value{Name: name, Rendered: render(v)})
	}
	return out
}

func sorted(names []string) []string {
	sort.Strings(names)
	return names
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

func (c *Config) variableNames() []string {
	var out []string
	for _, v := range c.variables {
		out = append(out, v.name)
	}
	return out
}

func (c *Config) localNames() []string {
	var out []string
	for _, l := range c.localOrder {
		out = append(out, l.name)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return sorted(out)
}
