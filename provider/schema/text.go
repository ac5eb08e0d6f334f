package schema

import "github.com/zclconf/go-cty/cty"

// Text returns a string attribute of an object, "" when it is missing or null.
func Text(v cty.Value, name string) string {
	if v == cty.NilVal || v.IsNull() || !v.Type().IsObjectType() || !v.Type().HasAttribute(name) {
		return ""
	}
	a := v.GetAttr(name)
	if a.IsNull() || a.Type() != cty.String {
		return ""
	}
	return a.AsString()
}
