package topologies_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/advise"
	"github.com/lvslab/lvslab/topologies"
)

// word is what a rule is named by.
var word = regexp.MustCompile(`[a-z0-9-]+`)

// Who begins from one of these is shown the linter's advice on it: each piece is
// explained at its top, and nothing is explained that is not said. The study of the
// paper is the exception, since it is there to draw it.
func TestAdviceIsExplained(t *testing.T) {
	rules := advise.Rules()
	for _, name := range topologies.Names() {
		drawn := map[string]bool{}
		tp, _ := resolve(t, builtin(t, name))
		for _, a := range advise.Check(tp) {
			drawn[a.Rule] = true
		}
		if name == "triac-2026" {
			if len(drawn) < 5 {
				t.Errorf("%s draws %d pieces of advice only", name, len(drawn))
			}
			continue
		}
		text, _ := topologies.Get(name)
		comment := explanation(string(text))
		for _, r := range rules {
			said := slices.Contains(word.FindAllString(comment, -1), r.ID)
			switch {
			case drawn[r.ID] && !said:
				t.Errorf("%s draws %s and does not say why that stays", name, r.ID)
			case said && !drawn[r.ID]:
				t.Errorf("%s explains %s, which it does not draw", name, r.ID)
			}
		}
	}
}

// explanation is the paragraph of comment in which a topology says which advice it
// does not follow, and why.
func explanation(text string) string {
	_, rest, found := strings.Cut(text, "# Advice that stays: ")
	if !found {
		return ""
	}
	paragraph, _, _ := strings.Cut(rest, "\n\n")
	return paragraph
}
