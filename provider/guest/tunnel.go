package guest

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// tunnelSetting is a tunnel device with both ends named.
type tunnelSetting struct{}

func tunnelSpec(t schema.Tunnel) (proto.TunnelSpec, error) {
	local, err := parseAddr(t.Local)
	if err != nil {
		return proto.TunnelSpec{}, fmt.Errorf("local end: %w", err)
	}
	remote, err := parseAddr(t.Remote)
	if err != nil {
		return proto.TunnelSpec{}, fmt.Errorf("remote end: %w", err)
	}
	addresses, err := parsePrefixes(t.Addresses)
	if err != nil {
		return proto.TunnelSpec{}, err
	}
	return proto.TunnelSpec{Name: t.Name, Type: t.Type, Local: local, Remote: remote, Port: uint16(t.Port), Checksum: t.Checksum, Addresses: addresses}, nil
}

func (tunnelSetting) read(ctx context.Context, c client.Caller, prior cty.Value) (cty.Value, error) {
	t, err := schema.TunnelFrom(prior)
	if err != nil {
		return cty.NilVal, err
	}
	st, err := client.Do(ctx, c, proto.TunnelRead, proto.LinkRef{Name: t.Name})
	switch {
	case err != nil:
		return cty.NilVal, err
	case !st.Up:
		return cty.NilVal, fmt.Errorf("the device has been set down: %w", provider.ErrGone)
	case st.FallbackUp:
		// It takes what the named device refuses, so a wrong end would not show.
		return cty.NilVal, fmt.Errorf("the fallback device beside it has been set up: %w", provider.ErrGone)
	}
	return tunnelValue(t, st, t.BootID), nil
}

func (tunnelSetting) apply(ctx context.Context, c client.Caller, want, _ cty.Value, bootID string) (cty.Value, error) {
	t, err := schema.TunnelFrom(want)
	if err != nil {
		return cty.NilVal, err
	}
	spec, err := tunnelSpec(t)
	if err != nil {
		return cty.NilVal, err
	}
	st, err := client.Do(ctx, c, proto.TunnelApply, spec)
	if err != nil {
		return cty.NilVal, err
	}
	return tunnelValue(t, st, bootID), nil
}

func tunnelValue(asked schema.Tunnel, st proto.TunnelState, bootID string) cty.Value {
	t := asked
	t.Type, t.Local, t.Remote, t.Port = st.Type, addrText(st.Local), addrText(st.Remote), int(st.Port)
	if t.Type == "gre" { // nothing that receives GUE or IPIP knows of checksums
		t.Checksum = st.Checksum
	}
	t.Addresses = declared(st.Addresses, asked.Addresses)
	t.MTU, t.BootID = st.MTU, bootID
	return t.Value()
}

func (tunnelSetting) remove(ctx context.Context, c client.Caller, prior cty.Value) error {
	_, err := client.Do(ctx, c, proto.TunnelDelete, proto.LinkRef{Name: schema.Text(prior, "name")})
	return err
}
