package guest

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider/schema"
)

// markSetting is the mark that a director puts on packets, see [schema.Mark].
type markSetting struct{}

func (markSetting) read(ctx context.Context, c client.Caller, prior cty.Value) (cty.Value, error) {
	m, err := schema.MarkFrom(prior)
	if err != nil {
		return cty.NilVal, err
	}
	have, err := client.Do(ctx, c, proto.MarkRead, proto.MarkRef{Mark: m.Mark, IPv6: m.IPv6})
	if err != nil {
		return cty.NilVal, err
	}
	return markValue(m, have, m.BootID), nil
}

func (markSetting) apply(ctx context.Context, c client.Caller, want, _ cty.Value, bootID string) (cty.Value, error) {
	m, err := schema.MarkFrom(want)
	if err != nil {
		return cty.NilVal, err
	}
	spec := proto.MarkSpec{MarkRef: proto.MarkRef{Mark: m.Mark, IPv6: m.IPv6}}
	for _, t := range m.Targets {
		protocol, at, _ := strings.Cut(t, " ")
		target := proto.MarkTarget{Protocol: protocol}
		if target.At, err = netip.ParseAddrPort(at); err != nil {
			return cty.NilVal, fmt.Errorf("target of a mark: %w", err)
		}
		spec.Targets = append(spec.Targets, target)
	}
	have, err := client.Do(ctx, c, proto.MarkApply, spec)
	if err != nil {
		return cty.NilVal, err
	}
	return markValue(m, have, bootID), nil
}

func (markSetting) remove(ctx context.Context, c client.Caller, prior cty.Value) error {
	m, err := schema.MarkFrom(prior)
	if err != nil {
		return err
	}
	_, err = client.Do(ctx, c, proto.MarkDelete, proto.MarkRef{Mark: m.Mark, IPv6: m.IPv6})
	return err
}

// foreignRule stands for a rule among those of a mark that is none of lvslab's.
const foreignRule = "another rule"

func markValue(asked schema.Mark, have proto.MarkSpec, bootID string) cty.Value {
	out := schema.Mark{Node: asked.Node, Mark: have.Mark, IPv6: have.IPv6, BootID: bootID}
	for _, t := range have.Targets {
		text := foreignRule
		if t.Protocol != "" {
			text = t.Protocol + " " + t.At.String()
		}
		out.Targets = append(out.Targets, text)
	}
	return out.Value()
}
