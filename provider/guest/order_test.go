package guest

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/provider/schema"
)

func TestReordered(t *testing.T) {
	for _, c := range []struct {
		want, have string
		is         bool
	}{
		{"a b", "a b", false}, {"c a b", "a b", false}, {"b", "a b", false}, {"a c", "a b c", false},
		{"a b c", "a b", true}, {"b a", "a b", true}, {"a c b", "a b", true}, {"a b", "", false}, {"", "a", false},
	} {
		if got := reordered(strings.Fields(c.want), strings.Fields(c.have)); got != c.is {
			t.Errorf("%q to %q: %v", c.have, c.want, got)
		}
	}
}

// TestReorderDeletesFirst: the deletion takes the entries along.
func TestReorderDeletesFirst(t *testing.T) {
	b, more := newBench(t), ipvs
	made, err := b.Create(t.Context(), resource(schema.TypeIPVS, ipvs.Value()))
	if err != nil {
		t.Fatal(err)
	}
	more.Services = []schema.IPVSService{ipvs.Services[0]}
	last := ipvs.Services[0].Destinations[0]
	last.Address = "198.18.0.99"
	more.Services[0].Destinations = append(slices.Clone(ipvs.Services[0].Destinations), last)
	r := resource(schema.TypeIPVS, more.Value())
	p, err := b.Plan(r, made)
	if err != nil || !strings.Contains(p.Reasons[len(p.Reasons)-1].Text, "the list is rebuilt") {
		t.Errorf("plan %+v, %v", p, err)
	}
	if _, err := b.Update(t.Context(), r, made); err != nil {
		t.Fatal(err)
	}
	if calls := strings.Join(slices.Concat(b.agent.batches...), " "); !strings.Contains(calls, "ipvs.delete ipvs.apply") {
		t.Errorf("calls %s", calls)
	}
}
