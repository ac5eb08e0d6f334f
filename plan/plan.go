// Package plan holds what the rooms below it share: a plan is a list of
// changes, each from what exists to what is wanted. diff makes it, planfile
// keeps it, walk carries it out, state remembers what came of it.
package plan

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
)

// Op is one call to a provider. A replacement is a delete and a create.
type Op string

// The operations.
const (
	Create Op = "create"
	Update Op = "update"
	Delete Op = "delete"
)

// Existing is a resource that the state holds, with its attributes as they
// were recorded or, after a refresh, as they are.
type Existing struct {
	Addr addr.Resource
	Type string
	// Tainted resources were left in doubt by a failed or interrupted call:
	// they are replaced, whatever their attributes say.
	Tainted bool
	// Value is of the schema's type. It may hold only the wanted attributes
	// when the resource is tainted.
	Value cty.Value
	// Half are the attributes that an interrupted or failed update was about to
	// give it, [cty.NilVal] when there was none: it may have some of each.
	Half      cty.Value
	DependsOn []addr.Resource
	// Within is the resource that holds this one, see [provider.Resource].
	Within addr.Resource
}

// Resource returns the existing thing in the form that providers are asked
// with; its attributes are the present ones.
func (e Existing) Resource() provider.Resource {
	return provider.Resource{Addr: e.Addr, Type: e.Type, Attrs: e.Value, DependsOn: e.DependsOn, Within: e.Within}
}

// Change is what a plan intends for one resource.
type Change struct {
	Addr    addr.Resource
	Type    string
	Noun    string // of the schema: "virtual machine"
	Action  provider.Action
	Reasons []provider.Reason
	// Want is nil for a deletion.
	Want *provider.Resource
	// Have is nil for a creation.
	Have *Existing
}

// Before returns the attributes as they are, null when nothing exists.
func (c Change) Before() cty.Value {
	if c.Have == nil {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return c.Have.Value
}

// After returns the wanted attributes, null for a deletion.
func (c Change) After() cty.Value {
	if c.Want == nil {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return c.Want.Attrs
}

// Plan is the list of changes in the order of their addresses, those without
// an action included.
type Plan struct {
	Changes  []Change
	Warnings diag.Diagnostics
}

// Totals counts the changes of a plan by action.
type Totals struct {
	Create  int `json:"create"`
	Update  int `json:"update"`
	Replace int `json:"replace"`
	Delete  int `json:"delete"`
	NoOp    int `json:"no_op"`
}

// Totals counts the changes.
func (p Plan) Totals() Totals {
	var t Totals
	for _, c := range p.Changes {
		switch c.Action {
		case provider.Create:
			t.Create++
		case provider.Update:
			t.Update++
		case provider.Replace:
			t.Replace++
		case provider.Delete:
			t.Delete++
		case provider.NoOp:
			t.NoOp++
		}
	}
	return t
}

// Empty reports whether nothing is to be done.
func (p Plan) Empty() bool { t := p.Totals(); return t.Create+t.Update+t.Replace+t.Delete == 0 }

// Destructive reports whether something that exists is to be replaced or
// deleted: what apply asks about.
func (p Plan) Destructive() bool { t := p.Totals(); return t.Replace+t.Delete > 0 }

// Change returns the change of that address.
func (p Plan) Change(a addr.Resource) (Change, bool) {
	for _, c := range p.Changes {
		if c.Addr == a {
			return c, true
		}
	}
	return Change{}, false
}
