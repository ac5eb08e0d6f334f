package diff_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/labtest"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
)

// edits are what users do to the demonstration's topology, and the actions that
// must come of it: nothing else is touched.
var edits = map[string]struct {
	edit []string
	want map[string]provider.Action
}{
	"scheduler":  {[]string{`scheduler  = "rr"`, `scheduler  = "wrr"`}, map[string]provider.Action{"service.dns/ipvs": provider.Update}},
	"weight":     {[]string{`weight   = 1`, `weight   = 3`}, map[string]provider.Action{"service.dns/ipvs": provider.Update}},
	"one_packet": {[]string{`one_packet = false`, `one_packet = true`}, map[string]provider.Action{"service.dns/ipvs": provider.Update}},
	"timeout":    {[]string{`udp = "300s"`, `udp = "60s"`}, map[string]provider.Action{"service.dns/ipvs": provider.Update}},
	"one_backend_only": {[]string{"    backends = backend.ns\n", "    backends = backend.ns[1]\n"}, map[string]provider.Action{
		"service.dns/ipvs":                     provider.Update,
		`tunnel.lb-ns["backend.ns[0]"]/tunnel`: provider.Update, "backend.ns[0]/dns": provider.Update,
		`tunnel.lb-ns["backend.ns[2]"]/tunnel`: provider.Update, "backend.ns[2]/dns": provider.Update,
	}},
	"zone": {[]string{"range(100)", "range(90)"}, map[string]provider.Action{
		"backend.ns[0]/dns": provider.Update, "backend.ns[1]/dns": provider.Update, "backend.ns[2]/dns": provider.Update,
	}},
	"impair": {[]string{"  count = 1\n\n  nic { network = network.lan }", "  count = 1\n\n  nic {\n    network = network.lan\n    impair {\n      delay = \"2ms\"\n    }\n  }"},
		map[string]provider.Action{"client.c[0]/link.lan": provider.Update}},
	"sysctl": {[]string{"director \"lb\" {", "director \"lb\" {\n  sysctl = { \"net.ipv4.vs.conn_reuse_mode\" = 0 }"}, map[string]provider.Action{"service.dns/ipvs": provider.Update}},
	"memory": {[]string{"  count = 1\n", "  count = 1\n  memory = \"512MiB\"\n"}, map[string]provider.Action{
		"client.c[0]/domain": provider.Replace, "client.c[0]/link.lan": provider.Replace, "client.c[0]/sysctl": provider.Replace,
	}},
	"one_backend_more": {[]string{"  count  = 3\n", "  count  = 4\n"}, map[string]provider.Action{
		"service.dns/ipvs": provider.Update, "backend.ns[3]/domain": provider.Create, "backend.ns[3]/link.lan": provider.Create,
		"backend.ns[3]/sysctl": provider.Create, "backend.ns[3]/dns": provider.Create, `tunnel.lb-ns["backend.ns[3]"]/tunnel`: provider.Create,
	}},
}

// Each edit of the demonstration's topology changes what it speaks of and nothing
// else, and says why: a scheduler or a weight is an update of one service.
func TestEditsOfTheDemo(t *testing.T) {
	ps, err := plan.NewProviders(labtest.Provider(fake.InMemory()))
	if err != nil {
		t.Fatal(err)
	}
	const lineage = "00112233445566778899aabbccddeeff"
	lower := func(text string, prior map[string]netip.Addr) ([]provider.Resource, map[string]netip.Addr) {
		top, err := labtest.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		wanted, addresses, err := top.Lower(lineage, prior)
		if err != nil {
			t.Fatal(err)
		}
		return wanted, addresses
	}
	before, addresses := lower(labtest.Demo(), nil)
	have := made(before)
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		e := edits[name]
		wanted, _ := lower(labtest.Demo(e.edit...), addresses)
		p, err := diff.Compute(diff.Input{Providers: ps, Wanted: wanted, Have: have})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]provider.Action{}
		for _, c := range p.Changes {
			if c.Action != provider.NoOp {
				got[c.Addr.String()] = c.Action
			}
			if c.Action != provider.NoOp && len(c.Reasons) == 0 {
				t.Errorf("%s: %s of %s without a reason", name, c.Action, c.Addr)
			}
		}
		if !maps.Equal(got, e.want) {
			t.Errorf("%s: %v\nwant %v", name, got, e.want)
		}
		all.WriteString("== " + name + "\n")
		if err := diff.Render(&all, p); err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, "edits_of_the_demo"+".golden", all.String())
}
