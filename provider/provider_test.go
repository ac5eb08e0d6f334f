package provider

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

func TestPlanBySchema(t *testing.T) {
	s := Schema{Attributes: map[string]Attribute{
		"name": {Type: cty.String, Replace: true}, "size": {Type: cty.Number}, "id": {Type: cty.String, Computed: true},
	}}
	obj := func(name string, size int64, id cty.Value) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(name), "size": cty.NumberIntVal(size), "id": id})
	}
	want := Resource{Attrs: obj("a", 1, cty.NullVal(cty.String))}
	id := cty.StringVal("x")
	changed := func(names ...string) []Reason {
		var out []Reason
		for _, n := range names {
			out = append(out, Reason{Attribute: n, Text: Changed})
		}
		return out
	}
	cases := map[string]struct {
		prior   cty.Value
		action  Action
		reasons []Reason
	}{
		"absent":            {cty.NilVal, Create, []Reason{{Text: "does not exist yet"}}},
		"null":              {cty.NullVal(s.Type()), Create, []Reason{{Text: "does not exist yet"}}},
		"same":              {obj("a", 1, id), NoOp, nil},
		"updatable":         {obj("a", 2, id), Update, changed("size")},
		"not updatable":     {obj("b", 1, id), Replace, changed("name")},
		"both":              {obj("b", 2, id), Replace, changed("name", "size")},
		"of an older state": {cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("a")}), Update, changed("size")},
	}
	for name, c := range cases {
		got := PlanBySchema(s, want, c.prior)
		if d := cmp.Diff(Planned{Action: c.action, Reasons: c.reasons}, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
