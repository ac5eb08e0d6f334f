package lang_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/lang"
)

// TestInsideOfLoops: what the runs yield is looked at before them inside a for
// expression, too, with the type of its elements.
func TestInsideOfLoops(t *testing.T) {
	for _, tt := range []struct{ condition, wrong string }{
		{`alltrue([for p in service.dns.paths : p.whole])`, ""},
		{`alltrue([for p in service.dns.paths : p.complete])`, "complete"},
		{`length([for p in service.dns.paths : p if p.nosuch]) == 0`, "nosuch"},
		{`length({ for i, p in service.dns.paths : p.keyed => i }) > 0`, "keyed"},
		{`alltrue(flatten([for p in service.dns.paths : [for d in p.defects : d.code == ""]]))`, "code"},
		{`alltrue(flatten([for b in [1, 2] : [for p in service.dns.paths : p.odd == b]]))`, "odd"},
		{`alltrue([for t, s in experiment.x.shares : alltrue([for b, n in s : n > 0.3 && b != t])])`, ""},
		{`alltrue([for t, s in experiment.x.shares : s.backend > 0])`, ""}, // of a map any key may be there
		{`alltrue([for t, n in experiment.x.decisions : n.mean > 0])`, "mean"},
		{`alltrue([for p in service.dns.paths : try(p.complete, true)])`, ""},
		{`try(alltrue([for p in service.dns.paths : p.complete]), true)`, ""},
	} {
		src := text("test.hcl", lab+fmt.Sprintf("check \"c\" {\n  assert {\n    condition     = %s\n    error_message = \"no\"\n  }\n}\n", tt.condition))
		_, ds := load(src, lang.Inputs{})
		if tt.wrong == "" {
			if ds.HasErrors() {
				t.Errorf("%s: %s", tt.condition, plain(ds, src))
			}
			continue
		}
		if len(ds) != 1 || ds[0].Subject == nil {
			t.Errorf("%s: want one error, got %s", tt.condition, plain(ds, src))
			continue
		}
		if at := src.Text("test.hcl")[ds[0].Subject.Start.Byte:]; !strings.HasPrefix(string(at), "."+tt.wrong) {
			t.Errorf("%s: points to %.20s: %s", tt.condition, at, plain(ds, src))
		}
		if tt.wrong == "complete" && !strings.Contains(ds[0].Remedy, "straight_back, tunnel, vip or whole") {
			t.Errorf("%s: the remedy does not name the attributes: %s", tt.condition, ds[0].Remedy)
		}
	}
}
