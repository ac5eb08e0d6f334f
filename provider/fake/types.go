package fake

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// Schemas that most tests need: a box is replaced when its shape changes and
// updated when its size does; a lid has a size; a peg fills holes, which no other
// peg in the same box can fill.
func Schemas() map[string]provider.Schema {
	id := provider.Attribute{Type: cty.String, Computed: true, Doc: "given at creation"}
	size := provider.Attribute{Type: cty.Number, Doc: "can be changed"}
	return map[string]provider.Schema{
		"box": {Noun: "box", Attributes: map[string]provider.Attribute{
			"shape": {Type: cty.String, Replace: true, Doc: "cannot be changed"}, "size": size, "id": id,
		}},
		"lid": {Noun: "lid", Attributes: map[string]provider.Attribute{"size": size, "id": id}},
		"peg": {Noun: "peg", Claims: holes, Attributes: map[string]provider.Attribute{
			"holes": {Type: cty.List(cty.String), Doc: "can be changed"}, "id": id,
		}},
	}
}

// Box returns a wanted value of the type box.
func Box(shape string, size int) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"shape": cty.StringVal(shape), "size": cty.NumberIntVal(int64(size)), "id": cty.NullVal(cty.String),
	})
}

// Lid returns a wanted value of the type lid.
func Lid(size int) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(int64(size)), "id": cty.NullVal(cty.String)})
}

// Peg returns a wanted value of the type peg, for at least one hole.
func Peg(holes ...string) cty.Value {
	var list []cty.Value
	for _, h := range holes {
		list = append(list, cty.StringVal(h))
	}
	return cty.ObjectVal(map[string]cty.Value{"holes": cty.ListVal(list), "id": cty.NullVal(cty.String)})
}

// Pieces says that an object consists of several, each with a name of its own: a
// service of virtual services. Only pieces that are asked for are seen and
// deleted; they are made and deleted one after the other.
type Pieces struct {
	// Attribute is the list whose elements are the pieces.
	Attribute string
	// Name returns what a piece claims.
	Name func(element cty.Value) string
}

var peg = Pieces{Attribute: "holes", Name: func(v cty.Value) string { return "hole " + v.AsString() }}

func holes(v cty.Value) []string { return peg.names(v) }

// of returns the pieces of an object in their order.
func (p Pieces) of(v cty.Value) []cty.Value {
	if v == cty.NilVal || v.IsNull() || v.GetAttr(p.Attribute).IsNull() {
		return nil
	}
	return v.GetAttr(p.Attribute).AsValueSlice()
}

func (p Pieces) names(v cty.Value) []string {
	var out []string
	for _, e := range p.of(v) {
		out = append(out, p.Name(e))
	}
	return out
}

// with returns the object with other pieces.
func (p Pieces) with(v cty.Value, pieces []cty.Value) cty.Value {
	attrs := v.AsValueMap()
	if typ := attrs[p.Attribute].Type(); len(pieces) > 0 {
		attrs[p.Attribute] = cty.ListVal(pieces)
	} else {
		attrs[p.Attribute] = cty.ListValEmpty(typ.ElementType())
	}
	return cty.ObjectVal(attrs)
}
