package diff_test

import (
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/provider/schema"
)

// TestDriftTexts pins how something is shown that is not as it was left.
func TestDriftTexts(t *testing.T) {
	was := schema.Link{Node: "client.c", Name: "lan", MTU: 1500, Addresses: []string{"198.18.0.128/24", "198.18.0.129/24"}}
	now := was
	now.MTU, now.Addresses = 1400, []string{"198.18.0.128/24"}
	zone := schema.DNS{Node: "backend.ns", Listen: []string{"198.18.0.30"}, Zones: map[string]string{"lab.test": "a\nb\n"}}
	var b strings.Builder
	for _, l := range diff.Drift(plan.Existing{Addr: at("client.c/link.lan"), Type: "link", Value: now.Value()}, was.Value()) {
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	for _, l := range diff.Attributes(zone.Value()) {
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	golden.Check(t, "drift"+".golden", b.String())
}
