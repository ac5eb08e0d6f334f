package provider

import (
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// attr returns an attribute, null of the wanted type when the object lacks it:
// a state written by an older lvslab may lack attributes that the schema gained.
func attr(obj cty.Value, name string, want cty.Type) cty.Value {
	if obj == cty.NilVal || obj.IsNull() || !obj.Type().HasAttribute(name) {
		return cty.NullVal(want)
	}
	return obj.GetAttr(name)
}

func sortedNames(m map[string]Attribute) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
