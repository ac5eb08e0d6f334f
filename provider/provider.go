// Package provider is the small contract between the engine (plan/…) and the
// providers that make things real: libvirt objects, settings inside guests,
// and, in tests, a fake with faults.
//
// Values are cty objects that conform to the type's schema. A provider never
// sees the state file and never decides what to keep: the engine records an
// intent before each call and the result after it.
package provider

import (
	"context"
	"errors"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// ErrGone is wrapped by Read when the object does not exist, or when the guest
// that held it has rebooted since (a guest's settings live in RAM). Any other
// error of Read means "unknown" and never "gone".
var ErrGone = errors.New("object is gone")

// ErrForeign is wrapped when an object of the expected name exists but does
// not carry this lab's mark. Such an object is never touched.
var ErrForeign = errors.New("object belongs to somebody else")

// Resource is one thing that somebody wants to exist: what lower produces and
// what plan compares with the state.
type Resource struct {
	Addr addr.Resource
	// Type names the schema, for example "domain" or "ipvs"; it decides the provider.
	Type string
	// Attrs is the desired value, wholly known, of the schema's type without
	// its computed attributes (those are null).
	Attrs cty.Value
	// DependsOn lists what must exist before this one, in sorted order.
	DependsOn []addr.Resource
	// NotAwaited are those of DependsOn that need not be there yet when this one
	// is made or changed; it only goes before they go. A virtual service names its
	// real servers, and is no worse for being there first.
	NotAwaited []addr.Resource
	// Within is the resource that holds this one, zero when none does: settings
	// of a guest are within its domain. When that one is deleted, replaced or
	// gone, this one is gone with it, and no Delete is called for it. It counts
	// as a dependency.
	Within addr.Resource
	// ReplacedBy lists resources whose replacement makes this one useless, so
	// that it is replaced too: a domain is plugged into its networks' bridges.
	// They count as dependencies.
	ReplacedBy []addr.Resource
	// Range is the place in the topology that asked for it, nil when none did.
	Range *diag.Range
}

// Attribute describes one attribute of a resource type.
type Attribute struct {
	Type cty.Type
	// Computed attributes are set by the provider and never compared with the
	// desired value (boot id, pid, socket paths).
	Computed bool
	// Replace says that the attribute cannot be changed on a living object.
	Replace bool
	// Host says that the value follows from lvslab, its image and this machine, and
	// not from the topology.
	Host bool
	// Doc is one line for people, without a full stop.
	Doc string
}

// Schema is what a resource type consists of. Noun is how a plan names the
// object to people: "virtual machine", "tunnel device".
type Schema struct {
	Noun       string
	Attributes map[string]Attribute
	// Claims returns the names that an object has for itself: within the same
	// holder, or on the host, no other object can have one of them at the same
	// time. They order what gives a name up before what takes it, and tell whether
	// two descriptions mean the same object. Nil for types that claim nothing;
	// attributes may be null.
	Claims func(v cty.Value) []string
}

// Type returns the cty object type of the schema.
func (s Schema) Type() cty.Type {
	attrs := make(map[string]cty.Type, len(s.Attributes))
	for name, a := range s.Attributes {
		attrs[name] = a.Type
	}
	return cty.Object(attrs)
}

// Action is what a plan intends for one resource.
type Action string

// The actions. NoOp resources are kept in plans so that they can be counted.
const (
	NoOp    Action = "no-op"
	Create  Action = "create"
	Update  Action = "update"
	Replace Action = "replace"
	Delete  Action = "delete"
)

// Reason says why an action is planned and which attribute causes it.
type Reason struct {
	// Attribute is the path of the attribute, "" when the whole object is meant.
	Attribute string `json:"attribute,omitempty"`
	// Text is for people: "changed in the topology", "gone with its boot".
	Text string `json:"text"`
}

// Changed is the text of a reason that knows only that an attribute differs.
// The plan says in its place who changed it, the topology or somebody else.
const Changed = "changed"

// Planned is a provider's answer to "what must happen to get from prior to desired".
type Planned struct {
	Action  Action
	Reasons []Reason
	// Warnings are shown with the plan, for example that living entries keep pinning.
	Warnings diag.Diagnostics
}

// Provider makes resources of its types real. All methods may be called
// concurrently for different addresses, never for the same one. Each call
// carries a deadline in its context and returns soon after it has passed.
type Provider interface {
	// Schemas returns the resource types that this provider knows.
	Schemas() map[string]Schema

	// Read returns the object as it is now. prior is what the state holds. It
	// returns an error that wraps ErrGone when the object is proven not to exist.
	Read(ctx context.Context, r Resource, prior cty.Value) (cty.Value, error)

	// Plan compares; prior is null when the object does not exist. It does no I/O.
	Plan(r Resource, prior cty.Value) (Planned, error)

	// Create makes the object, reads it back and returns it with its computed
	// attributes. It must be safe to call again after a crash in its middle.
	Create(ctx context.Context, r Resource) (cty.Value, error)

	// Update changes a living object in place and reads it back.
	Update(ctx context.Context, r Resource, prior cty.Value) (cty.Value, error)

	// Delete removes the object and proves that it is gone. Deleting what does
	// not exist is no error.
	Delete(ctx context.Context, r Resource, prior cty.Value) error
}

// PlanBySchema is the comparison that most types need: create when absent,
// replace when an attribute marked Replace differs, update when another does.
func PlanBySchema(s Schema, r Resource, prior cty.Value) Planned {
	if prior == cty.NilVal || prior.IsNull() {
		return Planned{Action: Create, Reasons: []Reason{{Text: "does not exist yet"}}}
	}
	p := Planned{Action: NoOp}
	for _, name := range sortedNames(s.Attributes) {
		a := s.Attributes[name]
		if a.Computed {
			continue
		}
		want, have := attr(r.Attrs, name, a.Type), attr(prior, name, a.Type)
		if want.RawEquals(have) {
			continue
		}
		p.Reasons = append(p.Reasons, Reason{Attribute: name, Text: Changed})
		if a.Replace {
			p.Action = Replace
		} else if p.Action == NoOp {
			p.Action = Update
		}
	}
	return p
}
