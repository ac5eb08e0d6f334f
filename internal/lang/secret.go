package lang

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
)

// minSecret is the shortest text that is taken out of messages: shorter ones
// occur in them by chance.
const minSecret = 4

// Redact takes the texts of sensitive variables out of what is shown of a
// topology: its values carry no marks any more.
func (c *Config) Redact(sk *Skeleton, message string) string {
	e := newEvaluator(c, phaseNames)
	e.secrets = sk.secrets
	return e.redact(message)
}

// HoldsSecret reports whether a text that was made of a topology holds the text of
// a sensitive variable.
func HoldsSecret(sk *Skeleton, text string) bool { return holdsAny(text, sk.secrets) }

func holdsAny(text string, secrets []string) bool {
	for _, s := range secrets {
		quoted := strconv.Quote(s)
		if strings.Contains(text, s) || strings.Contains(text, quoted[1:len(quoted)-1]) {
			return true
		}
	}
	return false
}

// leaks reports whether a value without marks holds the text of a sensitive
// variable: what comes by way of a block has lost its mark. Who writes
// nonsensitive(…) wants to show it.
func (e *evaluator) leaks(x hcl.Expression, v cty.Value) bool {
	shown := false
	if node, ok := x.(hclsyntax.Node); ok {
		_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics { // the callback finds no faults
			call, is := n.(*hclsyntax.FunctionCallExpr)
			shown = shown || is && call.Name == "nonsensitive"
			return nil
		})
	}
	return !shown && slices.ContainsFunc(texts(v), func(s string) bool { return holdsAny(s, e.secrets) })
}

// hide remembers the texts of a sensitive value.
func (e *evaluator) hide(v cty.Value) {
	for _, s := range texts(v) {
		if !slices.Contains(e.secrets, s) {
			e.secrets = append(e.secrets, s)
		}
	}
}

// redact takes the texts of sensitive variables out of a message. Rules speak
// of plain values, which carry no marks any more.
func (e *evaluator) redact(message string) string {
	for _, s := range e.secrets {
		message = strings.ReplaceAll(message, s, "(sensitive)")
		quoted := strconv.Quote(s)
		message = strings.ReplaceAll(message, quoted[1:len(quoted)-1], "(sensitive)")
	}
	return message
}

// told are the problems, without the secrets: rules speak of plain values, and a
// value that went through a block has lost its mark.
func (e *evaluator) told() diag.Diagnostics {
	ds := e.problems.sorted()
	for i := range ds {
		for j := range ds[i].Values {
			ds[i].Values[j].Rendered = e.redact(ds[i].Values[j].Rendered)
		}
	}
	return ds
}

// texts are all texts within a value.
func texts(v cty.Value) []string {
	var out []string
	v, _ = v.UnmarkDeep()
	_ = cty.Walk(v, func(_ cty.Path, part cty.Value) (bool, error) { // the callback returns no error
		if part.Type() == cty.String && part.IsKnown() && !part.IsNull() && len(part.AsString()) >= minSecret {
			out = append(out, part.AsString())
		}
		return true, nil
	})
	return out
}
