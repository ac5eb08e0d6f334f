package lang

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
)

// Conclusion is what checks and outputs come to.
type Conclusion struct {
	Outputs map[string]Output
	Checks  []CheckResult // declared order, one for each assert
}

// Output is the value of an output block, handles taken out.
type Output struct {
	Value       cty.Value // unknown parts before the runs; without marks
	Sensitive   bool
	Description string
}

// CheckResult is one assert of a check block.
type CheckResult struct {
	Name    string // the check's label, after the path of its module
	Passed  bool
	Unknown bool   // the condition depends on runs that have not been made
	Message string // the error_message, when it did not pass
	Range   diag.Range
	Values  []diag.Value // that took part in the condition
}

// Conclude evaluates phase 4. With nil results all that experiments and proofs yield
// is unknown but typed, which finds misspelt attributes before anything is run; an
// experiment or a service that is missing from non-nil results stays unknown as well.
func (c *Config) Conclude(sk *Skeleton, t *Topology, results *Results) (Conclusion, diag.Diagnostics) {
	e := c.resolver(sk, t.addresses())
	e.latest, e.results = phaseResults, results
	out := e.conclude()
	return out, e.told()
}

func (e *evaluator) conclude() Conclusion {
	out := Conclusion{Outputs: map[string]Output{}}
	e.allLocals()
	for _, c := range e.configs() {
		for _, b := range c.checks {
			for _, n := range b.sub("assert") {
				if n.args["condition"] != nil && n.args["error_message"] != nil {
					out.Checks = append(out.Checks, e.assert(b, n))
				}
			}
		}
	}
	e.insides()
	for _, b := range e.c.outputs {
		if o, ok := e.output(b); ok {
			out.Outputs[b.label] = o
		}
	}
	return out
}

func (e *evaluator) assert(check, b *block) CheckResult {
	at := site{phase: phaseResults, in: check.in}
	name := check.in.place(check.label)
	r := e.eval(b.args["condition"].Expr, at)
	passed, known := e.truth(r, fmt.Sprintf("condition of check %q", name))
	res := CheckResult{Name: name, Passed: known && passed, Unknown: r.ok && !known, Range: r.expr.Range(), Values: involved(r.expr, r.ctx)}
	text := e.message(e.eval(b.args["error_message"].Expr, at)) // always: its mistakes count before the runs, too
	if !res.Passed && !res.Unknown {
		res.Message = text
	}
	return res
}

func (e *evaluator) output(b *block) (Output, bool) {
	r := e.reader(b, nil)
	o := Output{Sensitive: r.flag("sensitive", false), Description: r.text("description", "")}
	a := b.args["value"]
	if a == nil {
		return o, false
	}
	res := e.eval(a.Expr, site{phase: phaseResults})
	if !res.ok {
		return o, false
	}
	v, marks := stripHandles(res.val).UnmarkDeep()
	if !o.Sensitive && (len(marks) > 0 || e.leaks(a.Expr, v)) {
		e.sensitiveOutput(b, a.Expr.Range(), res)
		return o, false
	}
	o.Value = v
	return o, true
}
