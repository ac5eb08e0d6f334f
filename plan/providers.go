package plan

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// Providers finds the provider and the schema of a resource type.
type Providers struct {
	byType map[string]entry
}

type entry struct {
	provider provider.Provider
	schema   provider.Schema
}

// NewProviders joins providers. Two that know the same type are an error.
func NewProviders(ps ...provider.Provider) (*Providers, error) {
	out := &Providers{byType: map[string]entry{}}
	for _, p := range ps {
		for typ, s := range p.Schemas() {
			if _, taken := out.byType[typ]; taken {
				return nil, fmt.Errorf("two providers know the resource type %q", typ)
			}
			out.byType[typ] = entry{p, s}
		}
	}
	return out, nil
}

// For returns the provider and the schema of a type.
func (p *Providers) For(typ string) (provider.Provider, provider.Schema, error) {
	e, ok := p.byType[typ]
	if !ok {
		return nil, provider.Schema{}, fmt.Errorf("no provider knows the resource type %q", typ)
	}
	return e.provider, e.schema, nil
}

// claims returns what an object has for itself, sorted; nothing for a type that
// no provider knows.
func (p *Providers) claims(typ string, v cty.Value) []string {
	e := p.byType[typ]
	if e.schema.Claims == nil || v == cty.NilVal || v.IsNull() {
		return nil
	}
	names := e.schema.Claims(v)
	slices.Sort(names)
	return slices.Compact(names)
}

// Ambiguous reports whether an update that was interrupted or failed would have
// given the object other names: then a part of it may be found under the new ones
// and a part under the old ones, and only both together are the whole.
func (p *Providers) Ambiguous(e Existing) bool {
	return e.Half != cty.NilVal && !slices.Equal(p.claims(e.Type, e.Value), p.claims(e.Type, e.Half))
}
