package lang

import (
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

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
func bare(f function.Function, strip func(cty.Value) cty.Value) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true, AllowNull: true}},
		Type: func(args []cty.Value) (cty.Type, error) {
			return f.ReturnTypeForValues([]cty.Value{strip(args[0])})
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return f.Call([]cty.Value{strip(args[0])})
		},
	})
}

// indexFunc finds a value's place in a list, as Terraform's does. The standard
// library's function of that name is the index operator.
var indexFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}, {Name: "value", Type: cty.DynamicPseudoType, AllowNull: true}},
	Type: func(args []cty.Value) (cty.Type, error) {
		if ty := args[0].Type(); !ty.IsListType() && !ty.IsTupleType() {
			return cty.NilType, function.NewArgErrorf(0, "a list is required")
		}
		return cty.Number, nil
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		for it := args[0].ElementIterator(); it.Next(); {
			i, v := it.Element()
			eq, err := stdlib.Equal(v, args[1])
			switch {
			case err != nil:
				return cty.NilVal, err
			case !eq.IsKnown():
				return cty.UnknownVal(cty.Number), nil
			case eq.True():
				return i, nil
			}
		}
		return cty.NilVal, function.NewArgErrorf(1, "the list does not hold it")
	},
})

// coalesceFunc returns the first argument that is neither null nor an empty
// text, as Terraform's does; the standard library's takes an empty text.
var coalesceFunc = function.New(&function.Spec{
	VarParam: &function.Parameter{Name: "vals", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowDynamicType: true},
	Type: func(args []cty.Value) (cty.Type, error) {
		var types []cty.Type
		for _, a := range args {
			types = append(types, a.Type())
		}
		ty, _ := convert.UnifyUnsafe(types)
		if len(args) == 0 || ty == cty.NilType {
			return cty.NilType, function.NewArgErrorf(0, "arguments of one type are required")
		}
		return ty, nil
	},
	Impl: func(args []cty.Value, ret cty.Type) (cty.Value, error) {
		for _, a := range args {
			v, err := convert.Convert(a, ret)
			if err != nil {
				return cty.NilVal, err
			}
			if !v.IsKnown() {
				return cty.UnknownVal(ret), nil
			}
			if v.IsNull() || ret == cty.String && v.AsString() == "" {
				continue
			}
			return v, nil
		}
		return cty.NilVal, function.NewArgErrorf(0, "all arguments are null or empty")
	},
})
