package lang

import (
	"net/netip"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
)

// EvalName is what messages call the source of [Config.Eval].
const EvalName = "<expression>"

// Eval evaluates one expression as an output would, for a console. Sensitive
// parts keep their mark: show the value with [Literal], or see [Sensitive].
func (c *Config) Eval(sk *Skeleton, t *Topology, results *Results, text string) (cty.Value, diag.Diagnostics) {
	if d, bad := tooDeep([]byte(text), EvalName); bad {
		return cty.DynamicVal, diag.Diagnostics{d}
	}
	expr, ds := hclsyntax.ParseExpression([]byte(text), EvalName, hcl.InitialPos)
	if ds.HasErrors() {
		out := syntaxProblems(ds)
		for i := range out {
			out[i].Remedy = "Write one whole expression in one line."
		}
		return cty.DynamicVal, out
	}
	own := *c
	own.info = make(map[hclsyntax.Expression]*exprInfo, len(c.info)+1)
	for k, v := range c.info {
		own.info[k] = v
	}
	p := &parser{tree: &tree{src: c.src, info: own.info}, c: &own}
	p.expr(expr, use{what: "the expression", phase: phaseResults})
	if p.problems.list.HasErrors() {
		return cty.DynamicVal, p.problems.sorted()
	}
	e := own.resolver(sk, t.addresses())
	e.latest, e.results = phaseResults, results
	r := e.eval(expr, site{phase: phaseResults})
	return stripHandles(r.val), e.told()
}

// Sensitive reports whether any part of a value is sensitive.
func Sensitive(v cty.Value) bool { return v.ContainsMarked() }

// addresses gives back what Resolve was given.
func (t *Topology) addresses() map[string]netip.Addr {
	out := map[string]netip.Addr{}
	for _, m := range t.Machines {
		for i, nic := range m.NICs {
			for j, key := range SlotKeys(m.Noun, i, len(nic.Addresses)) {
				if j < len(nic.Addresses) {
					out[key] = nic.Addresses[j]
				}
			}
		}
	}
	return out
}
