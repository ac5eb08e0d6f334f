// Package guest makes settings inside virtual machines real: links, kernel
// parameters, routes, tunnels, name servers and virtual services. It sends
// typed calls to each guest's agent, which reads back what it has written.
//
// Settings live in the guest's memory and belong to its boot: each carries the
// boot's id, and with another boot in its place it is gone, not drifted. Calls
// for one guest that wait at the same moment travel as one batch, so a phase of
// the configuration costs one or two round trips for each machine.
package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// Connect returns the line to a machine, given by its address in the topology,
// and the id of its boot. The error wraps provider.ErrGone when the machine is
// proven not to exist. It is called often and should keep its connections.
type Connect func(ctx context.Context, node string) (client.Caller, string, error)

// Provider implements provider.Provider for the types of schema.Guest.
type Provider struct {
	connect Connect
	lines   lines
}

var _ provider.Provider = (*Provider)(nil)

// New returns a provider that reaches the guests by connect.
func New(connect Connect) *Provider {
	return &Provider{connect: connect}
}

// setting is what the provider needs to know about one resource type.
type setting interface {
	// read returns the object. prior says what to look for and in which words.
	read(ctx context.Context, c client.Caller, prior cty.Value) (cty.Value, error)
	// apply makes the object as wanted; prior is null when it is not there yet.
	apply(ctx context.Context, c client.Caller, want, prior cty.Value, bootID string) (cty.Value, error)
	// remove takes the object away.
	remove(ctx context.Context, c client.Caller, prior cty.Value) error
}

var settings = map[string]setting{
	schema.TypeLink: linkSetting{}, schema.TypeSysctl: sysctlSetting{}, schema.TypeRoute: routeSetting{},
	schema.TypeTunnel: tunnelSetting{}, schema.TypeDNS: dnsSetting{}, schema.TypeIPVS: ipvsSetting{},
	schema.TypeMark: markSetting{}, schema.TypeMasquerade: masqueradeSetting{},
}

// Schemas returns the types of schema.Guest.
func (p *Provider) Schemas() map[string]provider.Schema { return maps.Clone(schema.Guest()) }

// Read returns the setting as it is in the guest.
func (p *Provider) Read(ctx context.Context, r provider.Resource, prior cty.Value) (cty.Value, error) {
	s, err := find(r)
	if err != nil {
		return cty.NilVal, err
	}
	c, bootID, err := p.line(ctx, prior)
	if err != nil {
		return cty.NilVal, err
	}
	set := schema.Text(prior, "boot_id")
	switch set {
	case bootID:
	case "": // a call that did not end may have set it in any boot
		prior = with(prior, "boot_id", cty.StringVal(bootID))
	default:
		return cty.NilVal, fmt.Errorf("gone with its boot: %w", provider.ErrGone)
	}
	v, err := s.read(ctx, c, prior)
	if hasCode(err, proto.CodeNotFound) {
		err = fmt.Errorf("%w: %w", err, provider.ErrGone)
	}
	if set != "" && errors.Is(err, provider.ErrGone) { // its boot lives, so somebody took it away
		return cty.NilVal, fmt.Errorf("changed outside lvslab: %w", err)
	}
	if errors.Is(err, provider.ErrGone) {
		return cty.NilVal, err
	}
	return v, explain(r, err)
}

// Plan compares by schema and adds what a change does not do.
func (p *Provider) Plan(r provider.Resource, prior cty.Value) (provider.Planned, error) {
	s, ok := schema.Guest()[r.Type]
	if !ok {
		return provider.Planned{}, fmt.Errorf("the guest provider does not know the type %q", r.Type)
	}
	planned := provider.PlanBySchema(s, r, prior)
	if planned.Action == provider.Update {
		planned.Warnings = warnings(r, prior)
		planned.Reasons = append(planned.Reasons, rebuilt(r, prior)...)
	}
	return planned, nil
}

// Create makes the setting, or completes one that a crash has left half made.
func (p *Provider) Create(ctx context.Context, r provider.Resource) (cty.Value, error) {
	return p.apply(ctx, r, cty.NullVal(cty.DynamicPseudoType))
}

// Update changes the setting in place.
func (p *Provider) Update(ctx context.Context, r provider.Resource, prior cty.Value) (cty.Value, error) {
	return p.apply(ctx, r, prior)
}

func (p *Provider) apply(ctx context.Context, r provider.Resource, prior cty.Value) (cty.Value, error) {
	s, err := find(r)
	if err != nil {
		return cty.NilVal, err
	}
	c, bootID, err := p.line(ctx, r.Attrs)
	if err != nil {
		return cty.NilVal, err
	}
	v, err := s.apply(ctx, c, r.Attrs, prior, bootID)
	if err != nil {
		return cty.NilVal, explain(r, err)
	}
	return v, nil
}

// Delete takes the setting away. In a guest that is gone or has booted since
// there is nothing to do.
func (p *Provider) Delete(ctx context.Context, r provider.Resource, prior cty.Value) error {
	s, err := find(r)
	if err != nil {
		return err
	}
	if prior == cty.NilVal || prior.IsNull() {
		prior = r.Attrs
	}
	c, bootID, err := p.line(ctx, prior)
	if errors.Is(err, provider.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	if set := schema.Text(prior, "boot_id"); set != "" && set != bootID {
		return nil
	}
	return explain(r, s.remove(ctx, c, prior))
}

func find(r provider.Resource) (setting, error) {
	s, ok := settings[r.Type]
	if !ok {
		return nil, fmt.Errorf("the guest provider does not know the type %q", r.Type)
	}
	return s, nil
}

// line returns the batching line to the machine that an object names.
func (p *Provider) line(ctx context.Context, v cty.Value) (client.Caller, string, error) {
	node := schema.Text(v, "node")
	if node == "" {
		return nil, "", errors.New("the setting names no machine")
	}
	c, bootID, err := p.connect(ctx, node)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", node, err)
	}
	return p.lines.to(node, c), bootID, nil
}

// with returns the object with another value of one attribute.
func with(v cty.Value, name string, to cty.Value) cty.Value {
	attrs := v.AsValueMap()
	attrs[name] = to
	return cty.ObjectVal(attrs)
}

func hasCode(err error, code string) bool {
	var e *proto.Error
	return errors.As(err, &e) && e.Code == code
}
