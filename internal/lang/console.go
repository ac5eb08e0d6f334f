package lang

import (
	"net/netip"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
)

// Eval evaluates one expression as an output would, for a console. Sensitive
// parts are refused.
func (c *Config) Eval(sk *Skeleton, t *Topology, results map[string]ExperimentResult, text string) (cty.Value, diag.Diagnostics) {
	const name = "<expression>"
	if d, bad := tooDeep([]byte(text), name); bad {
		return cty.DynamicVal, diag.Diagnostics{d}
	}
	expr, ds := hclsyntax.ParseExpression([]byte(text), name, hcl.InitialPos)
	if ds.HasErrors() {
		return cty.DynamicVal, syntaxProblems(ds)
	}
	own := *c
	own.info = make(map[hclsyntax.Expression]*exprInfo, len(c.info)+1)
	for k, v := range c.info {
		own.info[k] = v
	}
	p := &parser{c: &own}
	p.expr(expr, use{what: "the expression", phase: phaseResults})
	if p.problems.list.HasErrors() {
		return cty.DynamicVal, p.problems.sorted()
	}
	e := own.resolver(sk, t.addresses())
	e.latest, e.results = phaseResults, results
	r := e.eval(expr, site{phase: phaseResults})
	v, marks := stripHandles(r.val).UnmarkDeep()
	if len(marks) > 0 {
		return cty.DynamicVal, diag.Diagnostics{diag.Errorf("Sensitive value", "Name a part that is not sensitive.", "The result holds a sensitive value.").At(expr.Range())}
	}
	return v, e.problems.sorted()
}

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
