package guest

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider/schema"
)

// routeSetting is a route of the main table, known by its destination.
type routeSetting struct{}

func routeSpec(r schema.Route) (proto.RouteSpec, error) {
	to, err := netip.ParsePrefix(r.To)
	if err != nil {
		return proto.RouteSpec{}, fmt.Errorf("destination: %w", err)
	}
	via, err := parseAddr(r.Via)
	if err != nil {
		return proto.RouteSpec{}, fmt.Errorf("gateway: %w", err)
	}
	return proto.RouteSpec{To: to, Via: via, Dev: r.Dev}, nil
}

func (routeSetting) read(ctx context.Context, c client.Caller, prior cty.Value) (cty.Value, error) {
	return callRoute(ctx, c, proto.RouteRead, prior, schema.Text(prior, "boot_id"))
}

func (routeSetting) apply(ctx context.Context, c client.Caller, want, _ cty.Value, bootID string) (cty.Value, error) {
	return callRoute(ctx, c, proto.RouteApply, want, bootID)
}

func callRoute(ctx context.Context, c client.Caller, call proto.Call[proto.RouteSpec, proto.RouteSpec], v cty.Value, bootID string) (cty.Value, error) {
	r, err := schema.RouteFrom(v)
	if err != nil {
		return cty.NilVal, err
	}
	spec, err := routeSpec(r)
	if err != nil {
		return cty.NilVal, err
	}
	have, err := client.Do(ctx, c, call, spec)
	if err != nil {
		return cty.NilVal, err
	}
	r.Via, r.Dev, r.BootID = addrText(have.Via), have.Dev, bootID
	return r.Value(), nil
}

func (routeSetting) remove(ctx context.Context, c client.Caller, prior cty.Value) error {
	r, err := schema.RouteFrom(prior)
	if err != nil {
		return err
	}
	spec, err := routeSpec(r)
	if err != nil {
		return err
	}
	_, err = client.Do(ctx, c, proto.RouteDelete, spec)
	return err
}
