package lang

import (
	"reflect"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
)

// handleType carries a noun through expressions. Two capsules of one noun are
// equal whatever their pointers, so that conditionals, comparisons and sets of
// machines work.
var handleType = cty.CapsuleWithOps("block", reflect.TypeFor[addr.Noun](), &cty.CapsuleOps{
	GoString:  func(v any) string { return v.(*addr.Noun).String() },
	RawEquals: func(a, b any) bool { return *a.(*addr.Noun) == *b.(*addr.Noun) },
	Equals:    func(a, b any) cty.Value { return cty.BoolVal(*a.(*addr.Noun) == *b.(*addr.Noun)) },
	HashKey:   func(v any) string { return v.(*addr.Noun).String() },
})

func isHandleType(ty cty.Type) bool {
	return ty.IsObjectType() && ty.HasAttribute(handleAttr) && ty.AttributeType(handleAttr).Equals(handleType)
}

// handleOf returns the noun behind an object made of a block.
func handleOf(v cty.Value) (addr.Noun, bool) {
	if !isHandleType(v.Type()) || !v.IsKnown() || v.IsNull() {
		return addr.Noun{}, false
	}
	h := v.GetAttr(handleAttr)
	if !h.IsKnown() || h.IsNull() {
		return addr.Noun{}, false
	}
	return *h.EncapsulatedValue().(*addr.Noun), true
}

// objectTypeOf is the type of every instance of a kind, so that instances form
// lists and maps and conditionals between blocks of one kind unify.
func objectTypeOf(kind addr.Kind) cty.Type {
	types := map[string]cty.Type{handleAttr: handleType}
	for _, a := range attributesOf[kind] {
		types[a.name] = a.typ
	}
	return cty.Object(types)
}

// stripHandles takes the private attribute out of a value at any depth.
func stripHandles(v cty.Value) cty.Value {
	if !hasHandle(v.Type()) {
		return v
	}
	if v.Type().Equals(handleType) {
		return handleText(v)
	}
	ty := stripType(v.Type())
	v, marks := v.Unmark()
	switch {
	case v.IsNull():
		return cty.NullVal(ty).WithMarks(marks)
	case !v.IsKnown():
		return cty.UnknownVal(ty).WithMarks(marks)
	}
	switch {
	case ty.IsObjectType():
		attrs := map[string]cty.Value{}
		for name, av := range v.AsValueMap() {
			if name != handleAttr {
				attrs[name] = stripHandles(av)
			}
		}
		return cty.ObjectVal(attrs).WithMarks(marks)
	case ty.IsMapType():
		if v.LengthInt() == 0 {
			return cty.MapValEmpty(ty.ElementType()).WithMarks(marks)
		}
		elems := map[string]cty.Value{}
		for k, ev := range v.AsValueMap() {
			elems[k] = stripHandles(ev)
		}
		return cty.MapVal(elems).WithMarks(marks)
	}
	var elems []cty.Value
	for it := v.ElementIterator(); it.Next(); {
		_, ev := it.Element()
		elems = append(elems, stripHandles(ev))
	}
	return sequence(ty, elems).WithMarks(marks)
}

// stripOuter takes the private attribute out of one block's object; blocks
// inside a list or map stay blocks.
func stripOuter(v cty.Value) cty.Value {
	if !isHandleType(v.Type()) {
		return v
	}
	attrs := map[string]cty.Type{}
	for name, ty := range v.Type().AttributeTypes() {
		if name != handleAttr {
			attrs[name] = ty
		}
	}
	switch {
	case v.IsNull():
		return cty.NullVal(cty.Object(attrs))
	case !v.IsKnown():
		return cty.UnknownVal(cty.Object(attrs))
	}
	vals := map[string]cty.Value{}
	for name := range attrs {
		vals[name] = v.GetAttr(name)
	}
	return cty.ObjectVal(vals)
}

// handleText shows a bare capsule, which a for expression over a block's
// object can bring to light, as the noun's address.
func handleText(v cty.Value) cty.Value {
	v, marks := v.Unmark()
	switch {
	case v.IsNull():
		return cty.NullVal(cty.String).WithMarks(marks)
	case !v.IsKnown():
		return cty.UnknownVal(cty.String).WithMarks(marks)
	}
	return cty.StringVal(v.EncapsulatedValue().(*addr.Noun).String()).WithMarks(marks)
}

func sequence(ty cty.Type, elems []cty.Value) cty.Value {
	switch {
	case ty.IsTupleType():
		return cty.TupleVal(elems)
	case ty.IsSetType() && len(elems) == 0:
		return cty.SetValEmpty(ty.ElementType())
	case ty.IsSetType():
		return cty.SetVal(elems)
	case len(elems) == 0:
		return cty.ListValEmpty(ty.ElementType())
	}
	return cty.ListVal(elems)
}

func hasHandle(ty cty.Type) bool {
	switch {
	case ty.Equals(handleType):
		return true
	case ty.IsCollectionType():
		return hasHandle(ty.ElementType())
	case ty.IsTupleType():
		for _, e := range ty.TupleElementTypes() {
			if hasHandle(e) {
				return true
			}
		}
	case ty.IsObjectType():
		for _, a := range ty.AttributeTypes() {
			if hasHandle(a) {
				return true
			}
		}
	}
	return false
}

func stripType(ty cty.Type) cty.Type {
	switch {
	case ty.IsListType():
		return cty.List(stripType(ty.ElementType()))
	case ty.IsSetType():
		return cty.Set(stripType(ty.ElementType()))
	case ty.IsMapType():
		return cty.Map(stripType(ty.ElementType()))
	case ty.IsTupleType():
		var elems []cty.Type
		for _, e := range ty.TupleElementTypes() {
			elems = append(elems, stripType(e))
		}
		return cty.Tuple(elems)
	case ty.IsObjectType():
		attrs := map[string]cty.Type{}
		for name, at := range ty.AttributeTypes() {
			if name != handleAttr {
				attrs[name] = stripType(at)
			}
		}
		return cty.Object(attrs)
	case ty.Equals(handleType):
		return cty.String
	}
	return ty
}
