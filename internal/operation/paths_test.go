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
	seen := sighting.Proofs{{Record: sighting.Record{Paths: []sighting.Path{
		{Service: "service.dns", Client: "client.c[0]", VIP: vip, Backend: "backend.ns[0]", Tunnel: "ipip", Encapsulations: 1,
			OuterSource: netip.MustParseAddr("198.18.0.10"), OuterDestination: netip.MustParseAddr("198.18.0.30"), Source: vip, StraightBack: true, Whole: true},
		{Service: "service.dns", Client: "client.c[0]", VIP: vip, Backend: "backend.ns[1]", Fragmented: true,
			Defects: []sighting.Defect{{Name: sighting.Fragmented}}},
		{Service: "service.gone", VIP: vip},
	}}}}
	want := map[string][]lang.PathResult{"dns": {
		{Client: "client.c[0]", VIP: "198.18.0.101", Backend: "backend.ns[0]", Tunnel: "ipip", Encapsulations: 1,
			OuterSource: "198.18.0.10", OuterDestination: "198.18.0.30", Source: "198.18.0.101", StraightBack: true, Whole: true},
		{Client: "client.c[0]", VIP: "198.18.0.101", Backend: "backend.ns[1]", Fragmented: true, Defects: []string{"fragmented"}},
	}}
	if d := cmp.Diff(want, pathResults(top, seen)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What a check says of a path does not depend on how many proofs there are, and what
// was amiss in one of them is not hidden by another.
func TestPathResultsOfSessions(t *testing.T) {
	top := &lang.Topology{Services: []lang.Service{{Noun: addr.N(addr.Service, "dns")}}}
	good := sighting.Path{Service: "service.dns", Client: "client.c", VIP: netip.MustParseAddr("198.18.0.101"), Backend: "backend.ns", Tunnel: "gre", Encapsulations: 1, StraightBack: true, Whole: true}
	gap := good
	gap.Tunnel, gap.Encapsulations, gap.StraightBack, gap.Whole = "", 0, false, false
	pieces := good
	pieces.Fragmented, pieces.Defects = true, []sighting.Defect{{Name: sighting.Fragmented}}
	other := good
	other.Backend = "backend.other"
	shown := func(proofs ...sighting.Path) []lang.PathResult {
		var all sighting.Proofs
		for _, p := range proofs {
			all = append(all, sighting.Proof{Record: sighting.Record{Paths: []sighting.Path{p}}})
		}
		return pathResults(top, all)["dns"]
	}
	one := shown(good)[0]
	inPart, inPieces := one, one
	inPart.StraightBack, inPart.Whole = false, false
	inPieces.Fragmented, inPieces.Defects = true, []string{"fragmented"}
	for name, c := range map[string]struct{ got, want []lang.PathResult }{
		"twice the same":     {shown(good, good), []lang.PathResult{one}},
		"a gap in the first": {shown(gap, good), []lang.PathResult{inPart}},
		"a gap in the last":  {shown(good, gap), []lang.PathResult{inPart}},
		"pieces first":       {shown(pieces, good), []lang.PathResult{inPieces}},
		"pieces twice":       {shown(good, pieces, pieces), []lang.PathResult{inPieces}},
		"another backend":    {shown(good, other), []lang.PathResult{one, shown(other)[0]}},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
