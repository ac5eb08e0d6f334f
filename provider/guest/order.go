package guest

import (
	"fmt"
	"iter"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// reordered says whether a list of real servers must be made anew. The kernel
// adds at the head (ip_vs_ctl.c, __ip_vs_update_dest), so what stays must be the
// tail of what is wanted, in its order.
func reordered(want, have []string) bool {
	stay := slices.DeleteFunc(slices.Clone(have), func(d string) bool { return !slices.Contains(want, d) })
	return len(stay) > len(want) || !slices.Equal(want[len(want)-len(stay):], stay)
}

func destinationKeys(s proto.IPVSService) []string {
	var keys []string
	for _, d := range s.Destinations {
		keys = append(keys, fmt.Sprintf("%s %d", d.Address, d.Port))
	}
	return keys
}

// rebuilt is the reason that says in the plan that a list is made anew.
func rebuilt(r provider.Resource, prior cty.Value) []provider.Reason {
	if r.Type != schema.TypeIPVS || !anyReordered(r.Attrs, prior) {
		return nil
	}
	return []provider.Reason{{Text: "the kernel adds real servers at the head, so the list is rebuilt and its connection entries are flushed"}}
}

func anyReordered(want, prior cty.Value) bool {
	for n, o := range pairs(want, prior) {
		if rebuilds(n, o) {
			return true
		}
	}
	return false
}

// rebuilds says whether a service is deleted and made anew when it is updated.
func rebuilds(n, o schema.IPVSService) bool {
	want, err1 := serviceSpec(n)
	have, err2 := serviceSpec(o)
	return err1 == nil && err2 == nil && reordered(destinationKeys(want), destinationKeys(have))
}

// pairs yields each virtual service that stays, as wanted and as it is.
func pairs(want, prior cty.Value) iter.Seq2[schema.IPVSService, schema.IPVSService] {
	return func(yield func(n, o schema.IPVSService) bool) {
		w, err1 := schema.IPVSFrom(want)
		p, err2 := schema.IPVSFrom(prior)
		if err1 != nil || err2 != nil {
			return
		}
		for _, n := range w.Services {
			for _, o := range p.Services {
				if n.Protocol == o.Protocol && n.VIP == o.VIP && n.Port == o.Port && n.FWMark == o.FWMark && n.IPv6 == o.IPv6 && !yield(n, o) {
					return
				}
			}
		}
	}
}
