package diff

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

// Drift renders how something that exists differs from what was recorded of it.
func Drift(found plan.Existing, recorded cty.Value) []Line {
	was := found
	was.Value = recorded
	now := found.Resource()
	lines := []Line{{Sign: Changes, Text: fmt.Sprintf("%s was changed outside lvslab {", found.Addr)}}
	lines = append(lines, attributes(plan.Change{Action: provider.Update, Have: &was, Want: &now})...)
	return append(lines, Line{Text: "}"})
}

// Attributes renders the attributes of one resource, null ones left out. Of a
// text with several lines the lines follow.
func Attributes(v cty.Value) []Line {
	ls := leaves(v)
	var out []Line
	for i, line := range column(None, ls) {
		out = append(out, line)
		if ls[i].long != "" {
			for _, l := range lines(ls[i].long) {
				out = append(out, Line{Indent: 2, Text: l})
			}
		}
	}
	return out
}
