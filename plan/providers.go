package plan

import (
	"fmt"

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
