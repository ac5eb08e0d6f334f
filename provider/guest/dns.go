package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// dnsSetting is the guest's name server; there is one in each guest at most.
type dnsSetting struct{}

func (dnsSetting) read(ctx context.Context, c client.Caller, prior cty.Value) (cty.Value, error) {
	d, err := schema.DNSFrom(prior)
	if err != nil {
		return cty.NilVal, err
	}
	st, err := client.Do(ctx, c, proto.NamedRead, proto.None{})
	if err != nil {
		return cty.NilVal, err
	}
	if !st.Running {
		return cty.NilVal, fmt.Errorf("%s does not run: %w", proto.ServerProgram(d.Server), provider.ErrGone)
	}
	if st.Rewritten { // what it would do after a reload nobody knows
		return cty.NilVal, fmt.Errorf("%s has been rewritten: %w", confOf(d.Server), provider.ErrGone)
	}
	return dnsValue(d, st, d.BootID), nil
}

func (dnsSetting) apply(ctx context.Context, c client.Caller, want, _ cty.Value, bootID string) (cty.Value, error) {
	d, err := schema.DNSFrom(want)
	if err != nil {
		return cty.NilVal, err
	}
	spec := proto.NamedSpec{Server: d.Server, ServerID: d.ServerID}
	for _, name := range slices.Sorted(maps.Keys(d.Zones)) {
		spec.Zones = append(spec.Zones, proto.ZoneFile{Name: name, Text: d.Zones[name]})
	}
	for _, a := range d.Listen {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			return cty.NilVal, fmt.Errorf("address to listen on: %w", err)
		}
		spec.Listen = append(spec.Listen, ip)
	}
	st, err := client.Do(ctx, c, proto.NamedApply, spec)
	if err != nil {
		return cty.NilVal, err
	}
	return dnsValue(d, st, bootID), nil
}

// confOf is the configuration's file.
func confOf(server string) string {
	if server == proto.ServerBIND {
		return "named.conf"
	}
	return server + ".conf"
}

// dnsValue puts what the name server runs with into the words of what was asked for. The
// guest tells a zone's sum, not its text: a foreign text shows as the
// beginning of its sum.
func dnsValue(asked schema.DNS, st proto.NamedState, bootID string) cty.Value {
	d := schema.DNS{Node: asked.Node, Server: st.Server, ServerID: st.ServerID, Version: st.Version, BootID: bootID, Zones: map[string]string{}}
	for name, hash := range st.Zones {
		d.Zones[name] = "another text, sha256 " + hash[:min(8, len(hash))]
		if t, ok := asked.Zones[name]; ok && sum(t) == hash {
			d.Zones[name] = t
		}
	}
	for _, a := range asked.Listen {
		if ip, err := netip.ParseAddr(a); err == nil && (slices.Contains(st.Listen, ip) || ip.IsLoopback()) {
			d.Listen = append(d.Listen, a)
		}
	}
	return d.Value()
}

func sum(t string) string {
	s := sha256.Sum256([]byte(t))
	return hex.EncodeToString(s[:])
}

func (dnsSetting) remove(ctx context.Context, c client.Caller, _ cty.Value) error {
	_, err := client.Do(ctx, c, proto.NamedStop, proto.None{})
	return err
}
