package lang

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
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

	"chunklist": stdlib.ChunklistFunc, "coalesce": coalesceFunc, "coalescelist": stdlib.CoalesceListFunc,
	"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc,
	"element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "index": indexFunc, "keys": bare(stdlib.KeysFunc, stripOuter),
	"length": lengthFunc, "lookup": stdlib.LookupFunc, "merge": stdlib.MergeFunc, "range": stdlib.RangeFunc,
	"reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc, "setproduct": stdlib.SetProductFunc,
	"setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc,
	"values": bare(stdlib.ValuesFunc, stripOuter), "zipmap": stdlib.ZipmapFunc,
	"alltrue": boolFold(true), "anytrue": boolFold(false), "sum": sumFunc, "one": oneFunc,

	"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": bare(stdlib.JSONEncodeFunc, stripHandles),
	"can": tryfunc.CanFunc, "try": tryfunc.TryFunc,
	"tobool": conversion(cty.Bool), "tolist": conversion(cty.List(cty.DynamicPseudoType)), "tomap": conversion(cty.Map(cty.DynamicPseudoType)),
	"tonumber": conversion(cty.Number), "toset": conversion(cty.Set(cty.DynamicPseudoType)), "tostring": conversion(cty.String),

	"sensitive": sensitiveFunc, "nonsensitive": nonsensitiveFunc, "issensitive": isSensitiveFunc,

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
