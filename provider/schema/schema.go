// Package schema says what each resource type consists of: one file per type
// with its [provider.Schema] and a Go struct that mirrors it. It is a leaf, so
// that what makes resources (lower) and what makes them real (the libvirt and
// guest providers) agree without importing each other.
//
// A value has one canonical form, made by the structs' Value methods, and only
// such values compare equal: lists and maps are empty rather than null, a
// computed attribute at its zero value is null, every number is whole (cty
// compares a fraction that went through JSON as different from itself), MACs
// are lower case with colons, addresses and prefixes are as net/netip prints
// them.
package schema

import (
	"fmt"
	"maps"
	"reflect"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/lvslab/lvslab/provider"
)

// The resource types.
const (
	TypeNetwork    = "network"
	TypeDomain     = "domain"
	TypeLink       = "link"
	TypeSysctl     = "sysctl"
	TypeRoute      = "route"
	TypeTunnel     = "tunnel"
	TypeDNS        = "dns"
	TypeIPVS       = "ipvs"
	TypeMark       = "mark"
	TypeMasquerade = "masquerade"
)

// Host returns the schemas of what lives on the host: network and domain.
func Host() map[string]provider.Schema {
	return map[string]provider.Schema{TypeNetwork: NetworkSchema, TypeDomain: DomainSchema}
}

// Guest returns the schemas of what lives inside a virtual machine. Each has
// the attribute node, the machine's address, and the computed boot_id.
func Guest() map[string]provider.Schema {
	return map[string]provider.Schema{
		TypeLink: LinkSchema, TypeSysctl: SysctlSchema, TypeRoute: RouteSchema,
		TypeTunnel: TunnelSchema, TypeDNS: DNSSchema, TypeIPVS: IPVSSchema,
		TypeMark: MarkSchema, TypeMasquerade: MasqueradeSchema,
	}
}

// All returns the schemas of all resource types.
func All() map[string]provider.Schema {
	all := Host()
	maps.Copy(all, Guest())
	return all
}

// Of returns the schema of a resource type and whether there is one.
func Of(typ string) (provider.Schema, bool) {
	s, ok := All()[typ]
	return s, ok
}

func node() provider.Attribute {
	return provider.Attribute{Type: cty.String, Replace: true, Doc: "address of the machine"}
}

func bootID() provider.Attribute {
	return provider.Attribute{Type: cty.String, Computed: true, Doc: "boot of the guest in which it was set"}
}

// encode makes the canonical value of a struct whose fields carry cty tags,
// one for each attribute. A field that does not fit is a mistake in this
// package, therefore it panics.
func encode(s provider.Schema, from any) cty.Value {
	v := reflect.ValueOf(from)
	attrs := make(map[string]cty.Value, len(s.Attributes))
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("cty")
		a, ok := s.Attributes[name]
		if !ok {
			panic(fmt.Sprintf("schema: %s has no attribute %q", v.Type(), name))
		}
		if a.Computed && v.Field(i).IsZero() {
			attrs[name] = cty.NullVal(a.Type)
			continue
		}
		val, err := gocty.ToCtyValue(v.Field(i).Interface(), a.Type)
		if err != nil {
			panic(fmt.Sprintf("schema: %s.%s: %v", v.Type(), name, err))
		}
		attrs[name] = filled(val)
	}
	if len(attrs) != len(s.Attributes) {
		panic(fmt.Sprintf("schema: %s lacks attributes of its schema", v.Type()))
	}
	return cty.ObjectVal(attrs)
}

// filled turns null lists and maps, however deep, into empty ones.
func filled(v cty.Value) cty.Value {
	out, err := cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		switch t := v.Type(); {
		case !v.IsNull():
			return v, nil
		case t.IsListType():
			return cty.ListValEmpty(t.ElementType()), nil
		case t.IsMapType():
			return cty.MapValEmpty(t.ElementType()), nil
		}
		return v, nil
	})
	if err != nil {
		panic(err) // the callback returns none
	}
	return out
}

// decode fills a T from an object. Attributes that are missing or null leave
// the field at its zero value: an older state may lack what the schema gained.
func decode[T any](typ string, v cty.Value) (T, error) {
	var out T
	if v == cty.NilVal || v.IsNull() || !v.IsWhollyKnown() || !v.Type().IsObjectType() {
		return out, fmt.Errorf("%s: attributes are not a known object", typ)
	}
	dst := reflect.ValueOf(&out).Elem()
	for i := range dst.NumField() {
		name := dst.Type().Field(i).Tag.Get("cty")
		if !v.Type().HasAttribute(name) || v.GetAttr(name).IsNull() {
			continue
		}
		given, err := present(v.GetAttr(name))
		if err != nil {
			return out, fmt.Errorf("%s: attribute %s: %w", typ, name, err)
		}
		if err := gocty.FromCtyValue(given, dst.Field(i).Addr().Interface()); err != nil {
			return out, fmt.Errorf("%s: attribute %s: %w", typ, name, err)
		}
	}
	return out, nil
}

// present puts zero values for the nulls inside of a value: attributes of nested
// objects that a state has not yet, because an older lvslab wrote it.
func present(v cty.Value) (cty.Value, error) {
	if v.Type().IsPrimitiveType() {
		return v, nil
	}
	return cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if !v.IsNull() {
			return v, nil
		}
		switch v.Type() {
		case cty.String:
			return cty.StringVal(""), nil
		case cty.Number:
			return cty.Zero, nil
		case cty.Bool:
			return cty.False, nil
		}
		return v, nil
	})
}
