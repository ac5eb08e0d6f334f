package guest

import (
	"cmp"
	"fmt"
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
		found = keptEntries(r, prior)
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
// port has one until it has been silent for the timeout. What a service gets that
// is rebuilt has no entries.
func keptEntries(r provider.Resource, prior cty.Value) []diag.Diagnostic {
	var found []diag.Diagnostic
	for n, o := range pairs(r.Attrs, prior) {
		if o.OnePacket || rebuilds(n, o) { // it never had entries, or loses them
			continue
		}
		if gone := removed(n, o); len(gone) > 0 && !expires(r.Attrs) {
			found = append(found, diag.Warnf("Connections of a removed real server are dropped", flushBy(r),
				"entries of %s stay, and a packet that matches one is dropped until it ends, at most %s after the last packet that went there",
				strings.Join(gone, ", "), entryLasts(o)))
		}
		if choosesDifferently(n, o) {
			found = append(found, diag.Warnf("Existing connections keep their backend", flushBy(r),
				"only new source ports follow the change; the others stay until they have been silent for %s", entryLasts(n)))
		}
	}
	return found
}

// flushBy is the way to get rid of entries.
func flushBy(r provider.Resource) string {
	return "lvslab apply --replace '" + r.Addr.Noun.String() + "' makes the service anew, without its entries. Experiments do so before each run."
}

// kernelTimeouts are those of ip_vs when nobody sets any (ip_vs_proto_udp.c,
// ip_vs_proto_tcp.c), in seconds.
const (
	kernelUDP = 300
	kernelTCP = 900
)

// entryLasts says how long an entry of a service outlives its last packet.
func entryLasts(s schema.IPVSService) string {
	seconds := cmp.Or(s.Timeouts.UDP, kernelUDP)
	if s.Protocol == "tcp" {
		seconds = cmp.Or(s.Timeouts.TCP, kernelTCP)
	}
	return fmt.Sprintf("%d s", max(seconds, s.PersistenceS))
}

// expires says whether the kernel drops entries whose real server is gone.
func expires(want cty.Value) bool {
	w, err := schema.IPVSFrom(want)
	return err == nil && w.Sysctl["net.ipv4.vs.expire_nodest_conn"] == "1"
}

// removed lists the real servers that a service has no more.
func removed(n, o schema.IPVSService) []string {
	var gone []string
	for _, d := range o.Destinations {
		if !slices.ContainsFunc(n.Destinations, func(s schema.IPVSDestination) bool { return s.Address == d.Address && s.Port == d.Port }) {
			gone = append(gone, d.Address)
		}
	}
	return gone
}

// choosesDifferently compares how two descriptions of a service spread what is
// new, real servers left out that are there no more.
func choosesDifferently(n, o schema.IPVSService) bool {
	gone := removed(n, o)
	had := slices.DeleteFunc(slices.Clone(o.Destinations), func(d schema.IPVSDestination) bool { return slices.Contains(gone, d.Address) })
	return n.Scheduler != o.Scheduler || n.OnePacket != o.OnePacket || !slices.Equal(n.Flags, o.Flags) || !slices.Equal(n.Destinations, had)
}
