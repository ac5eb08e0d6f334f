package guest

import (
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// warnings says what an update in place will not do, though one may expect it.
func warnings(r provider.Resource, prior cty.Value) diag.Diagnostics {
	var found []diag.Diagnostic
	switch r.Type {
	case schema.TypeSysctl:
		found = keptParameters(r.Attrs, prior)
	case schema.TypeIPVS:
		found = keptEntries(r.Attrs, prior)
	}
	for i := range found {
		found[i] = found[i].For(r.Addr.String())
		if r.Range != nil {
			found[i] = found[i].At(*r.Range)
		}
	}
	return found
}

func keptParameters(want, prior cty.Value) []diag.Diagnostic {
	w, err1 := schema.SysctlFrom(want)
	p, err2 := schema.SysctlFrom(prior)
	if err1 != nil || err2 != nil {
		return nil
	}
	var left []string
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		if _, still := w.Values[name]; !still {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return []diag.Diagnostic{diag.Warnf("Kernel parameters keep their values", "Replace the machine to get the kernel's defaults back.",
		"no longer asked for, but set until the machine's next boot: %s", strings.Join(left, ", "))}
}

// keptEntries warns when a living service will choose differently: what has an
// entry in the connection table keeps its backend, and for UDP every source
// port has one until it has been silent for the timeout.
func keptEntries(want, prior cty.Value) []diag.Diagnostic {
	w, err1 := schema.IPVSFrom(want)
	p, err2 := schema.IPVSFrom(prior)
	if err1 != nil || err2 != nil {
		return nil
	}
	if anyReordered(want, prior) {
		return nil // flushed
	}
	for _, n := range w.Services {
		for _, o := range p.Services {
			if n.Protocol == o.Protocol && n.VIP == o.VIP && n.Port == o.Port && n.FWMark == o.FWMark && choosesDifferently(n, o) {
				return []diag.Diagnostic{diag.Warnf("Existing connections keep their backend",
					"Experiments clear the table before each run. Otherwise name the service with --replace: it is made anew, without its entries.",
					"only new source ports follow the change; the others stay until they have been silent for the timeout")}
			}
		}
	}
	return nil
}

func choosesDifferently(n, o schema.IPVSService) bool {
	return n.Scheduler != o.Scheduler || n.OnePacket != o.OnePacket || !slices.Equal(n.Flags, o.Flags) || !slices.Equal(n.Destinations, o.Destinations)
}
