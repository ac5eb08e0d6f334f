package guest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// ipvsSetting is one service of the topology: its virtual services on the
// director and the parameters of ip_vs. Other services of the same director are
// other resources and are left alone.
type ipvsSetting struct{}

func (ipvsSetting) read(ctx context.Context, c client.Caller, prior cty.Value) (cty.Value, error) {
	s, err := schema.IPVSFrom(prior)
	if err != nil {
		return cty.NilVal, err
	}
	var b client.Batch
	services := client.Add(&b, proto.IPVSRead, proto.None{})
	sysctl := client.Add(&b, proto.SysctlRead, slices.Sorted(maps.Keys(s.Sysctl)))
	if err := b.Run(ctx, c); err != nil {
		return cty.NilVal, err
	}
	v, found, err := ipvsValue(s, services.Value(), sysctl.Value(), s.BootID)
	if err == nil && found == 0 && len(s.Services) > 0 {
		return cty.NilVal, fmt.Errorf("the virtual service has been deleted: %w", provider.ErrGone)
	}
	return v, err
}

func (ipvsSetting) apply(ctx context.Context, c client.Caller, want, prior cty.Value, bootID string) (cty.Value, error) {
	s, err := schema.IPVSFrom(want)
	if err != nil {
		return cty.NilVal, err
	}
	specs, err := serviceSpecs(s)
	if err != nil {
		return cty.NilVal, err
	}
	var b client.Batch
	client.Add(&b, proto.IPVSPreflight, needs(specs)) // loads ip_vs, without which the parameters do not exist
	sysctl := client.Add(&b, proto.SysctlApply, s.Sysctl)
	if err := addStale(&b, specs, prior); err != nil {
		return cty.NilVal, err
	}
	var states []*client.Future[proto.IPVSService]
	for _, spec := range specs {
		states = append(states, client.Add(&b, proto.IPVSApply, spec))
	}
	if err := b.Run(ctx, c); err != nil {
		return cty.NilVal, err
	}
	var have []proto.IPVSService
	for _, st := range states {
		have = append(have, st.Value())
	}
	v, _, err := ipvsValue(s, have, sysctl.Value(), bootID)
	return v, err
}

// addStale deletes the virtual services that the resource had and has no more,
// and those whose list is made anew: deleting takes the entries along.
func addStale(b *client.Batch, specs []proto.IPVSService, prior cty.Value) error {
	if prior.IsNull() {
		return nil
	}
	old, err := schema.IPVSFrom(prior)
	if err != nil {
		return err
	}
	had, err := serviceSpecs(old)
	if err != nil {
		return err
	}
	for _, h := range had {
		at := slices.IndexFunc(specs, func(s proto.IPVSService) bool { return s.IPVSKey == h.IPVSKey })
		if at < 0 || reordered(destinationKeys(specs[at]), destinationKeys(h)) {
			client.Add(b, proto.IPVSDelete, h.IPVSKey)
		}
	}
	return nil
}

func (ipvsSetting) remove(ctx context.Context, c client.Caller, prior cty.Value) error {
	s, err := schema.IPVSFrom(prior)
	if err != nil {
		return err
	}
	specs, err := serviceSpecs(s)
	if err != nil {
		return err
	}
	var b client.Batch
	for _, spec := range specs {
		client.Add(&b, proto.IPVSDelete, spec.IPVSKey)
	}
	return b.Run(ctx, c)
}

func needs(specs []proto.IPVSService) proto.IPVSNeeds {
	schedulers, tunnels := map[string]bool{}, map[string]bool{}
	for _, s := range specs {
		schedulers[s.Scheduler] = true
		for _, d := range s.Destinations {
			if d.TunnelType == "gue" || d.TunnelType == "gre" {
				tunnels[d.TunnelType] = true
			}
		}
	}
	return proto.IPVSNeeds{Schedulers: slices.Sorted(maps.Keys(schedulers)), Tunnels: slices.Sorted(maps.Keys(tunnels))}
}

// ipvsValue puts what was read into the words of what was asked for and says
// how many of the services were there.
func ipvsValue(asked schema.IPVS, have []proto.IPVSService, sysctl map[string]string, bootID string) (cty.Value, int, error) {
	specs, err := serviceSpecs(asked)
	if err != nil {
		return cty.NilVal, 0, err
	}
	out := schema.IPVS{Node: asked.Node, Sysctl: inWordsOf(asked.Sysctl, sysctl), BootID: bootID}
	for i, spec := range specs {
		at := slices.IndexFunc(have, func(h proto.IPVSService) bool { return h.IPVSKey == spec.IPVSKey })
		if at >= 0 {
			out.Services = append(out.Services, serviceValue(asked.Services[i], have[at]))
		}
	}
	return out.Value(), len(out.Services), nil
}
