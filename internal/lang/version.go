package lang

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
)

// checkVersion compares the running version with required_version.
func (e *evaluator) checkVersion(version string) {
	if e.c.lab == nil || version == "" {
		return
	}
	r := e.reader(e.c.lab, nil)
	want, ok := r.value("required_version", cty.String)
	if !ok {
		return
	}
	if m := misfit(version, want.AsString()); m != nil {
		r.complain("required_version", m.Summary, m.Remedy, "%s", m.Detail)
	}
}

// misfit says what is wrong with a version or with the constraint on it, nil
// when it fits.
func misfit(version, constraint string) *diag.Diagnostic {
	have, isRelease := parseVersion(version)
	for _, part := range strings.Split(constraint, ",") {
		op, wanted, why := parseConstraint(part)
		switch {
		case why != "":
			return fail("Not a version constraint", `Write for example ">= 0.1.0, < 2.0.0".`, "required_version is %q: %s.", constraint, why)
		case isRelease && !satisfies(have, op, wanted):
			return fail(wrongVersion, "Install a version that fits, or change the constraint.", "This is lvslab %s, and the topology requires %q.", version, constraint)
		}
	}
	return nil
}

const wrongVersion = "Wrong version of lvslab"

// tooOld looks for a required_version before anything else is understood: what
// another version has and this one lacks would be reported as a mistake.
func tooOld(bodies []*hclsyntax.Body, version string) *diag.Diagnostic {
	if version == "" {
		return nil
	}
	for _, body := range bodies {
		for _, hb := range body.Blocks {
			a := hb.Body.Attributes["required_version"]
			if hb.Type != "lab" || a == nil {
				continue
			}
			v, ds := a.Expr.Value(nil)
			if ds.HasErrors() || v.Type() != cty.String || !v.IsKnown() || v.IsNull() {
				continue // reported where it is read
			}
			if m := misfit(version, v.AsString()); m != nil && m.Summary == wrongVersion {
				d := m.At(a.Expr.Range())
				return &d
			}
		}
	}
	return nil
}

// parseVersion reads 1.2.3, with or without a v and a pre-release part. A
// development build has no such version and fits every constraint.
func parseVersion(s string) (v []int, ok bool) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "v")
	if i := strings.IndexAny(s, "-+"); i >= 0 {
		s = s[:i]
	}
	for _, part := range strings.Split(s, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || len(v) == 3 {
			return nil, false
		}
		v = append(v, n)
	}
	return v, true
}

func parseConstraint(s string) (op string, v []int, why string) {
	s = strings.TrimSpace(s)
	op = "="
	for _, o := range []string{">=", "<=", "!=", "~>", ">", "<", "="} {
		if rest, found := strings.CutPrefix(s, o); found {
			op, s = o, rest
			break
		}
	}
	v, ok := parseVersion(s)
	if !ok {
		return op, nil, fmt.Sprintf("%q is no version", strings.TrimSpace(s))
	}
	return op, v, ""
}

func satisfies(have []int, op string, want []int) bool {
	c := compareVersions(have, want)
	switch op {
	case ">=":
		return c >= 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case "<":
		return c < 0
	case "!=":
		return c != 0
	case "~>": // the last number given may grow
		upper := append([]int{}, want...)
		if len(upper) > 1 {
			upper = upper[:len(upper)-1]
		}
		upper[len(upper)-1]++
		return c >= 0 && compareVersions(have, upper) < 0
	}
	return c == 0
}

func compareVersions(a, b []int) int {
	for i := range 3 {
		x, y := 0, 0
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return x - y
		}
	}
	return 0
}
