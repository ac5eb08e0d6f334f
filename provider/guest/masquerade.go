package guest

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider/schema"
)

// masqueradeSetting is a router's translation, see [schema.Masquerade].
type masqueradeSetting struct{}

func (masqueradeSetting) read(ctx context.Context, c client.Caller, prior cty.Value) (cty.Value, error) {
	return callMasquerade(ctx, c, proto.MasqueradeRead, prior, schema.Text(prior, "boot_id"))
}

func (masqueradeSetting) apply(ctx context.Context, c client.Caller, want, _ cty.Value, bootID string) (cty.Value, error) {
	return callMasquerade(ctx, c, proto.MasqueradeApply, want, bootID)
}

func callMasquerade(ctx context.Context, c client.Caller, call proto.Call[proto.MasqueradeRef, proto.MasqueradeState], v cty.Value, bootID string) (cty.Value, error) {
	m, err := schema.MasqueradeFrom(v)
	if err != nil {
		return cty.NilVal, err
	}
	have, err := client.Do(ctx, c, call, proto.MasqueradeRef{Dev: m.Dev})
	if err != nil {
		return cty.NilVal, err
	}
	m.Other, m.BootID = have.Other, bootID
	return m.Value(), nil
}

func (masqueradeSetting) remove(ctx context.Context, c client.Caller, prior cty.Value) error {
	m, err := schema.MasqueradeFrom(prior)
	if err != nil {
		return err
	}
	_, err = client.Do(ctx, c, proto.MasqueradeDelete, proto.MasqueradeRef{Dev: m.Dev})
	return err
}
