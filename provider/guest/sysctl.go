package guest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider/schema"
)

// sysctlSetting is a set of kernel parameters. One that is no longer asked for
// keeps its value until the guest's next boot: what it was before is not known.
type sysctlSetting struct{}

func (sysctlSetting) read(ctx context.Context, c client.Caller, prior cty.Value) (cty.Value, error) {
	s, err := schema.SysctlFrom(prior)
	if err != nil {
		return cty.NilVal, err
	}
	have, err := client.Do(ctx, c, proto.SysctlRead, slices.Sorted(maps.Keys(s.Values)))
	if err != nil {
		return cty.NilVal, err
	}
	s.Values = inWordsOf(s.Values, have)
	return s.Value(), nil
}

func (sysctlSetting) apply(ctx context.Context, c client.Caller, want, _ cty.Value, bootID string) (cty.Value, error) {
	s, err := schema.SysctlFrom(want)
	if err != nil {
		return cty.NilVal, err
	}
	have, err := client.Do(ctx, c, proto.SysctlApply, s.Values)
	if err != nil {
		return cty.NilVal, err
	}
	s.Values, s.BootID = inWordsOf(s.Values, have), bootID
	return s.Value(), nil
}

func (sysctlSetting) remove(context.Context, client.Caller, cty.Value) error { return nil }

// inWordsOf returns what was read, with the spaces of what was asked for where
// only these differ.
func inWordsOf(asked, read map[string]string) map[string]string {
	out := make(map[string]string, len(read))
	for name, v := range read {
		out[name] = v
		if a, ok := asked[name]; ok && slices.Equal(strings.Fields(a), strings.Fields(v)) {
			out[name] = a
		}
	}
	return out
}
