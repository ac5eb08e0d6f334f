package lang

import (
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// The functions about sensitive values have Terraform's names and results.

// markable is a parameter that takes everything as it is.
var markable = []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowMarked: true, AllowDynamicType: true}}

func sameType(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil }

var sensitiveFunc = function.New(&function.Spec{
	Params: markable, Type: sameType,
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v, _ := args[0].Unmark()
		return v.Mark(sensitive), nil
	},
})

var nonsensitiveFunc = function.New(&function.Spec{
	Params: markable, Type: sameType,
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v, _ := args[0].UnmarkDeep()
		return v, nil
	},
})

var isSensitiveFunc = function.New(&function.Spec{
	Params: markable, Type: function.StaticReturnType(cty.Bool),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.BoolVal(args[0].ContainsMarked()), nil
	},
})
