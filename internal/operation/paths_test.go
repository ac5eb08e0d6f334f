package operation

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/sighting"
)

func TestPathResults(t *testing.T) {
	top := &lang.Topology{Services: []lang.Service{{Noun: addr.N(addr.Service, "dns")}, {Noun: addr.N(addr.Service, "mute")}}}
	vip := netip.MustParseAddr("198.18.0.101")
	seen := sighting.Record{Paths: []sighting.Path{
		{Service: "service.dns", Client: "client.c[0]", VIP: vip, Backend: "backend.ns[0]", Tunnel: "ipip", Encapsulations: 1,
			OuterSource: netip.MustParseAddr("198.18.0.10"), OuterDestination: netip.MustParseAddr("198.18.0.30"), Source: vip, StraightBack: true, Whole: true},
		{Service: "service.dns", Client: "client.c[0]", VIP: vip, Backend: "backend.ns[1]", Fragmented: true,
			Defects: []sighting.Defect{{Name: sighting.Fragmented}}},
		{Service: "service.gone", VIP: vip},
	}}
	want := map[string][]lang.PathResult{"dns": {
		{Client: "client.c[0]", VIP: "198.18.0.101", Backend: "backend.ns[0]", Tunnel: "ipip", Encapsulations: 1,
			OuterSource: "198.18.0.10", OuterDestination: "198.18.0.30", Source: "198.18.0.101", StraightBack: true, Whole: true},
		{Client: "client.c[0]", VIP: "198.18.0.101", Backend: "backend.ns[1]", Fragmented: true, Defects: []string{"fragmented"}},
	}}
	if d := cmp.Diff(want, pathResults(top, seen)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
