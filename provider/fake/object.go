package fake

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/provider"
)

// newObject returns an object with these attributes; the computed ones are not
// kept, they follow from the rest.
func newObject(r provider.Resource, s provider.Schema, v cty.Value) object {
	attrs := v.AsValueMap()
	for name, a := range s.Attributes {
		if a.Computed {
			attrs[name] = cty.NullVal(a.Type)
		}
	}
	o := object{Addr: r.Addr, Within: r.Within, UUID: text(v, "uuid"), attrs: cty.ObjectVal(attrs)}
	if s.Claims != nil {
		o.Claims = s.Claims(r.Attrs)
	}
	return o
}

// text returns the attributes as JSON.
func (o object) text() (json.RawMessage, error) {
	if o.attrs == cty.NilVal {
		return o.Attrs, nil
	}
	return ctyjson.Marshal(o.attrs, o.attrs.Type())
}

// value returns the attributes with the computed ones.
func (o object) value(s provider.Schema) (cty.Value, error) {
	v := o.attrs
	if v == cty.NilVal {
		var err error
		if v, err = ctyjson.Unmarshal(o.Attrs, s.Type()); err != nil {
			return cty.NilVal, fmt.Errorf("%s: %w", o.Addr, err)
		}
	}
	attrs := v.AsValueMap()
	for name, a := range s.Attributes {
		switch {
		case !a.Computed:
		case name == "boot_id":
			attrs[name] = cty.StringVal(bootID(o.Within, o.Boot))
		case a.Type == cty.Number && o.Within.IsZero():
			attrs[name] = cty.NumberIntVal(int64(o.Boot))
		case a.Type == cty.Number:
			attrs[name] = cty.NumberIntVal(1480)
		case a.Type == cty.String:
			attrs[name] = cty.StringVal(name + " of " + o.Addr.String())
		}
	}
	return cty.ObjectVal(attrs), nil
}

func bootID(machine addr.Resource, boot int) string {
	return fmt.Sprintf("boot %d of %s", boot, machine)
}

// half returns an object in whose making something went wrong: the first half of
// the attributes, by their names, are as wanted, the others as before. Its
// identity is what it begins with.
func half(s provider.Schema, before, want cty.Value) cty.Value {
	names := slices.Sorted(maps.Keys(s.Attributes))
	attrs := want.AsValueMap()
	for _, name := range names[(len(names)+1)/2:] {
		if name == "uuid" {
			continue
		}
		attrs[name] = cty.NullVal(s.Attributes[name].Type)
		if before != cty.NilVal && !before.IsNull() {
			attrs[name] = before.GetAttr(name)
		}
	}
	return cty.ObjectVal(attrs)
}

// text returns a string attribute, "" when it is missing or null.
func text(v cty.Value, name string) string {
	if v == cty.NilVal || v.IsNull() || !v.Type().HasAttribute(name) || v.GetAttr(name).IsNull() {
		return ""
	}
	return v.GetAttr(name).AsString()
}
