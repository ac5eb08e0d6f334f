package guest

import (
	"context"
	"fmt"
	"math"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// linkSetting is a network card with its addresses and its impairment.
type linkSetting struct{}

// linkRef finds the device: by MAC, so that a rename is seen; the loopback
// device, which has none, by name.
func linkRef(l schema.Link) proto.LinkRef {
	if l.MAC == "" {
		return proto.LinkRef{Name: l.Name}
	}
	return proto.LinkRef{MAC: l.MAC}
}

func (linkSetting) read(ctx context.Context, c client.Caller, prior cty.Value) (cty.Value, error) {
	l, err := schema.LinkFrom(prior)
	if err != nil {
		return cty.NilVal, err
	}
	var b client.Batch
	state := client.Add(&b, proto.LinkRead, linkRef(l))
	netem := client.Add(&b, proto.NetemRead, linkRef(l))
	if err := b.Run(ctx, c); err != nil {
		return cty.NilVal, err
	}
	if !state.Value().Up {
		return cty.NilVal, fmt.Errorf("the device has been set down: %w", provider.ErrGone)
	}
	return linkValue(l, state.Value(), netem.Value(), l.BootID), nil
}

func (linkSetting) apply(ctx context.Context, c client.Caller, want, _ cty.Value, bootID string) (cty.Value, error) {
	l, err := schema.LinkFrom(want)
	if err != nil {
		return cty.NilVal, err
	}
	addresses, err := parsePrefixes(l.Addresses)
	if err != nil {
		return cty.NilVal, err
	}
	var b client.Batch
	state := client.Add(&b, proto.LinkApply, proto.LinkSpec{MAC: l.MAC, Name: l.Name, MTU: l.MTU, Addresses: addresses})
	netem := client.Add(&b, proto.NetemApply, netemSpec(l))
	if err := b.Run(ctx, c); err != nil {
		return cty.NilVal, err
	}
	return linkValue(l, state.Value(), netem.Value(), bootID), nil
}

func (linkSetting) remove(ctx context.Context, c client.Caller, prior cty.Value) error {
	l, err := schema.LinkFrom(prior)
	if err != nil {
		return err
	}
	if l.Impair != nil {
		_, err := client.Do(ctx, c, proto.NetemApply, proto.NetemSpec{Dev: l.Name})
		if err != nil && !hasCode(err, proto.CodeNotFound) {
			return err
		}
	}
	_, err = client.Do(ctx, c, proto.LinkDelete, linkRef(l))
	return err
}

// linkValue puts what was read into the words of what was asked for: an MTU of
// 0 is "as it is", and no impairment is null or zeros.
func linkValue(asked schema.Link, st proto.LinkState, n proto.NetemSpec, bootID string) cty.Value {
	l := asked
	l.Name, l.BootID = st.Name, bootID
	l.Addresses = declared(st.Addresses, asked.Addresses)
	if asked.MTU != 0 {
		l.MTU = st.MTU
	}
	impair := schema.Impair{
		DelayUS: n.DelayUS, JitterUS: n.JitterUS,
		LossPPM: ppm(n.LossPct), DuplicatePPM: ppm(n.DuplicatPct), ReorderPPM: ppm(n.ReorderPct),
		RateBits: n.RateBits, Limit: n.Limit,
	}
	if asked.Impair != nil || impair != (schema.Impair{}) {
		l.Impair = &impair
	}
	return l.Value()
}

// percentPPM is one percent in parts per million.
const percentPPM = 1e4

func ppm(pct float64) int64 { return int64(math.Round(pct * percentPPM)) }

func netemSpec(l schema.Link) proto.NetemSpec {
	n := proto.NetemSpec{Dev: l.Name}
	if i := l.Impair; i != nil {
		n.DelayUS, n.JitterUS, n.RateBits, n.Limit = i.DelayUS, i.JitterUS, i.RateBits, i.Limit
		n.LossPct, n.DuplicatPct = float64(i.LossPPM)/percentPPM, float64(i.DuplicatePPM)/percentPPM
		n.ReorderPct = float64(i.ReorderPPM) / percentPPM
	}
	return n
}
