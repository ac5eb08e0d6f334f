package lang

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/lvslab/lvslab/internal/diag"
)

// functions are the functions of the language under Terraform's names. None
// of them reads the host or a clock: the same file gives the same lab.
var functions = map[string]function.Function{
	"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "log": stdlib.LogFunc, "max": stdlib.MaxFunc,
	"min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc, "signum": stdlib.SignumFunc,

	"chomp": stdlib.ChompFunc, "format": stdlib.FormatFunc, "formatlist": stdlib.FormatListFunc, "indent": stdlib.IndentFunc,
	"join": stdlib.JoinFunc, "lower": stdlib.LowerFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
	"replace": replaceFunc, "split": stdlib.SplitFunc, "strlen": stdlib.StrlenFunc, "strrev": stdlib.ReverseFunc,
	"substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc,
	"trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,
	"startswith": textTest("prefix", strings.HasPrefix), "endswith": textTest("suffix", strings.HasSuffix),
	"strcontains": textTest("substr", strings.Contains),

	"chunklist": stdlib.ChunklistFunc, "coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc,
	"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc,
	"element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "index": stdlib.IndexFunc, "keys": bare(stdlib.KeysFunc),
	"length": lengthFunc, "lookup": stdlib.LookupFunc, "merge": stdlib.MergeFunc, "range": stdlib.RangeFunc,
	"reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc, "setproduct": stdlib.SetProductFunc,
	"setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc,
	"values": bare(stdlib.ValuesFunc), "zipmap": stdlib.ZipmapFunc,
	"alltrue": boolFold(true), "anytrue": boolFold(false), "sum": sumFunc, "one": oneFunc,

	"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": bare(stdlib.JSONEncodeFunc),
	"can": tryfunc.CanFunc, "try": tryfunc.TryFunc,
	"tobool": conversion(cty.Bool), "tolist": conversion(cty.List(cty.DynamicPseudoType)), "tomap": conversion(cty.Map(cty.DynamicPseudoType)),
	"tonumber": conversion(cty.Number), "toset": conversion(cty.Set(cty.DynamicPseudoType)), "tostring": conversion(cty.String),

	"cidrhost": cidrHostFunc, "cidrnetmask": cidrNetmaskFunc, "cidrsubnet": cidrSubnetFunc, "cidrsubnets": cidrSubnetsFunc,
}

// absent are functions of Terraform that lvslab leaves out for a reason.
var absent = map[string]string{
	"timestamp": "a topology knows no clock: the same file gives the same lab", "plantimestamp": "a topology knows no clock: the same file gives the same lab",
	"uuid": "a topology knows no chance: the same file gives the same lab", "bcrypt": "a topology knows no chance: the same file gives the same lab",
	"file": "a topology reads nothing outside its own files", "templatefile": "a topology reads nothing outside its own files",
	"fileexists": "a topology reads nothing outside its own files", "fileset": "a topology reads nothing outside its own files",
	"filebase64": "a topology reads nothing outside its own files", "abspath": "a topology reads nothing outside its own files",
	"pathexpand": "a topology reads nothing outside its own files",
}

func functionNames() []string {
	var out []string
	for n := range functions {
		out = append(out, n)
	}
	return sorted(out)
}

func unknownFunction(call *hclsyntax.FunctionCallExpr) diag.Diagnostic {
	if why, ok := absent[call.Name]; ok {
		return diag.Errorf("No such function", "Use a variable and -var or a variables file for what comes from outside.",
			"lvslab has no function %q: %s.", call.Name, why).At(call.NameRange)
	}
	remedy := "Functions are called as in Terraform: length(…), range(…), cidrhost(…)."
	if s := nearest(call.Name, functionNames()); s != "" {
		remedy = fmt.Sprintf("Did you mean %q?", s)
	}
	return diag.Errorf("No such function", remedy, "There is no function %q.", call.Name).At(call.NameRange)
}

// lengthFunc counts; one machine without count counts as 1, so that a module
// of text works for one backend and for many.
var lengthFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true, AllowUnknown: true, AllowMarked: true}},
	Type: func(args []cty.Value) (cty.Type, error) {
		ty := args[0].Type()
		if ty == cty.String || ty == cty.DynamicPseudoType || ty.IsCollectionType() || ty.IsTupleType() || ty.IsObjectType() {
			return cty.Number, nil
		}
		return cty.NilType, function.NewArgErrorf(0, "a list, a map, a text or a block is required")
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v := args[0]
		ty := v.Type()
		switch {
		case ty == cty.DynamicPseudoType:
			return cty.UnknownVal(cty.Number), nil
		case ty == cty.String:
			return stdlib.Strlen(v)
		case isHandleType(ty):
			return cty.NumberIntVal(1), nil
		case ty.IsObjectType():
			return cty.NumberIntVal(int64(len(ty.AttributeTypes()))), nil
		case v.IsNull():
			return cty.NilVal, function.NewArgErrorf(0, "null has no length")
		}
		return v.Length(), nil
	},
})

// replaceFunc is Terraform's: a pattern between slashes is a regular expression.
var replaceFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "str", Type: cty.String}, {Name: "substr", Type: cty.String}, {Name: "replace", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		sub := args[1].AsString()
		if len(sub) > 1 && sub[0] == '/' && sub[len(sub)-1] == '/' {
			return stdlib.RegexReplace(args[0], cty.StringVal(sub[1:len(sub)-1]), args[2])
		}
		return stdlib.Replace(args[0], args[1], args[2])
	},
})

func textTest(second string, test func(s, t string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}, {Name: second, Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(test(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// boolFold is alltrue (start true) and anytrue (start false).
func boolFold(start bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			unknown := false
			for it := args[0].ElementIterator(); it.Next(); {
				_, v := it.Element()
				switch {
				case !v.IsKnown():
					unknown = true
				case v.IsNull():
					if start {
						return cty.False, nil
					}
				case v.True() != start:
					return cty.BoolVal(!start), nil
				}
			}
			if unknown {
				return cty.UnknownVal(cty.Bool), nil
			}
			return cty.BoolVal(start), nil
		},
	})
}

var sumFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Number)}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		total := cty.Zero
		for it := args[0].ElementIterator(); it.Next(); {
			_, v := it.Element()
			if v.IsNull() {
				return cty.NilVal, function.NewArgErrorf(0, "the list holds a null")
			}
			next, err := stdlib.Add(total, v)
			if err != nil {
				return cty.NilVal, err
			}
			total = next
		}
		return total, nil
	},
})

var oneFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		ty := args[0].Type()
		switch {
		case ty.IsListType() || ty.IsSetType():
			return ty.ElementType(), nil
		case ty.IsTupleType() && ty.Length() == 0:
			return cty.DynamicPseudoType, nil
		case ty.IsTupleType() && ty.Length() == 1:
			return ty.TupleElementType(0), nil
		}
		return cty.NilType, function.NewArgErrorf(0, "a list of no or one element is required")
	},
	Impl: func(args []cty.Value, ret cty.Type) (cty.Value, error) {
		it := args[0].ElementIterator()
		if !it.Next() {
			return cty.NullVal(ret), nil
		}
		_, v := it.Element()
		if it.Next() {
			return cty.NilVal, function.NewArgErrorf(0, "the list has more than one element")
		}
		return v, nil
	},
})

// conversion is tostring, tolist and their kin.
func conversion(want cty.Type) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "v", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true}},
		Type: func(args []cty.Value) (cty.Type, error) {
			got := args[0].Type()
			if got.Equals(want) {
				return want, nil
			}
			conv := convert.GetConversionUnsafe(got, want)
			if conv == nil {
				return cty.NilType, function.NewArgErrorf(0, "%s", convert.MismatchMessage(got, want))
			}
			if args[0].IsKnown() { // the element type shows only in the result
				v, err := convert.Convert(args[0], want)
				if err != nil {
					return cty.NilType, function.NewArgError(0, err)
				}
				return v.Type(), nil
			}
			return want, nil
		},
		Impl: func(args []cty.Value, ret cty.Type) (cty.Value, error) {
			v, err := convert.Convert(args[0], ret)
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return v, nil
		},
	})
}

// bare wraps a function so that it does not see the private attribute of handles.
func bare(f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true, AllowNull: true}},
		Type: func(args []cty.Value) (cty.Type, error) {
			return f.ReturnTypeForValues([]cty.Value{stripHandles(args[0])})
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return f.Call([]cty.Value{stripHandles(args[0])})
		},
	})
}
