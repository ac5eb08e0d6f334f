package lang

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/lvslab/lvslab/internal/addr"
)

// The functions here bring one value of a factor into its normal form, or say
// why it is none. A remedy of its own may follow after a zero byte.

func cutRemedy(why, usual string) (detail, remedy string, own bool) {
	detail, remedy, own = strings.Cut(why, "\x00")
	if !own {
		remedy = usual
	}
	return detail, remedy, own
}

func converted(v cty.Value, want cty.Type) (cty.Value, string) {
	out, err := convert.Convert(v, want)
	if err != nil {
		return cty.NilVal, errorText(err)
	}
	if out.IsNull() {
		return cty.NilVal, "it is null"
	}
	return out, ""
}

func asText(v cty.Value, check func(string) string) (cty.Value, string) {
	out, why := converted(v, cty.String)
	if why == "" {
		why = check(out.AsString())
	}
	return out, why
}

func wholeValue(low, high int) func(cty.Value) (cty.Value, string) {
	return func(v cty.Value) (cty.Value, string) {
		out, why := converted(v, cty.Number)
		if why != "" {
			return out, why
		}
		if n, exact := exactInt(out.AsBigFloat()); !exact || n < low || n > high {
			return out, fmt.Sprintf("it must be a whole number from %d to %d", low, high)
		}
		return out, ""
	}
}

func rateValue(v cty.Value) (cty.Value, string) {
	out, why := converted(v, cty.Number)
	if why != "" {
		return out, why
	}
	if f := out.AsBigFloat(); f.Sign() < 0 || f.Cmp(big.NewFloat(maxRate)) > 0 {
		return out, "it must be 0 or more"
	}
	return out, ""
}

// numbers converts to a list of whole numbers within bounds.
func numbers(v cty.Value, low, high int) (cty.Value, string) {
	out, why := converted(v, cty.List(cty.Number))
	if why != "" {
		return out, why
	}
	if out.LengthInt() == 0 {
		return out, "it is empty"
	}
	for _, ev := range out.AsValueSlice() {
		if ev.IsNull() {
			return out, "it holds a null"
		}
		if n, exact := exactInt(ev.AsBigFloat()); !exact || n < low || n > high {
			return out, fmt.Sprintf("%s is not a whole number from %d to %d", render(ev), low, high)
		}
	}
	return out, ""
}

func weightsValue(v cty.Value) (cty.Value, string) { return numbers(v, 0, maxWeight) }

func orderValue(v cty.Value) (cty.Value, string) {
	if v.Type() == cty.String {
		return asText(v, func(s string) string {
			if s != "declared" && s != "reversed" {
				return fmt.Sprintf("there is no order %q", s)
			}
			return ""
		})
	}
	out, why := numbers(v, 0, maxInstances)
	if why != "" {
		return out, why
	}
	seen := map[int]bool{}
	for _, ev := range out.AsValueSlice() {
		n, _ := exactInt(ev.AsBigFloat())
		if seen[n] {
			return out, fmt.Sprintf("the index %d stands there twice", n)
		}
		seen[n] = true
	}
	return out, ""
}

func flagsValue(v cty.Value) (cty.Value, string) {
	out, why := converted(v, cty.List(cty.String))
	if why != "" {
		return out, why
	}
	for _, ev := range out.AsValueSlice() {
		if ev.IsNull() || !slices.Contains(ServiceFlags, ev.AsString()) {
			return out, fmt.Sprintf("%s is none of %s", render(ev), enumerate(quoted(ServiceFlags), "and"))
		}
	}
	return out, ""
}

// FactorKernel is the factor whose values are images for the director.
const FactorKernel = "kernel"

// kernelValue takes an image block for its address: a value of a factor is plain.
func kernelValue(v cty.Value) (cty.Value, string) {
	v, _ = v.Unmark()
	if n, ok := handleOf(v); ok && n.Kind == addr.Image {
		return cty.StringVal(n.String()), ""
	}
	return cty.NilVal, "it is no image block"
}
