package verdict

import (
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// represented names the treatments that were not run: what is said of the one that
// stands for them is a measurement, of them it is the model's word.
func represented(s *study) []Verdict {
	var parts []string
	var ev []Evidence
	left, total := 0, 0
	for _, t := range s.Treatments {
		if strings.HasPrefix(t.ID, controlPrefix) {
			continue
		}
		n := len(t.StandsFor)
		total, left = total+1+n, left+n
		if n == 0 {
			continue
		}
		others := s.shortIDs(t.StandsFor)
		parts = append(parts, fmt.Sprintf("%s for %s", s.label(t), names(others, "other")))
		ev = append(ev, Evidence{artifact.PlanFile, "treatment " + s.label(t), "stands_for", strings.Join(others, "; ")})
	}
	if left == 0 {
		return nil
	}
	text := fmt.Sprintf("%s were not run, because by the kernel's rules each of their queries goes where it goes in one that was", of(left, total, "treatment"))
	if left <= maxNames {
		text += ": " + strings.Join(parts, "; ")
	} else {
		text += fmt.Sprintf("; %s for them", verb(len(parts), "1 treatment stands", some(len(parts), "treatment")+" stand"))
	}
	return []Verdict{{ID: "collapsed", Level: Caution, Title: "Treatments that others stand for", Text: text + ".", Evidence: ev,
		Remedy: "Leave collapse out of the experiment to see for yourself that they do the same."}}
}

// shortIDs are ids as labels are: the scheduler bare, other factors by name.
func (s *study) shortIDs(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		t := Treatment{ID: id, Factors: map[string]string{}}
		for _, part := range strings.Split(id, ",") {
			if name, value, ok := strings.Cut(part, "="); ok {
				t.Factors[name] = value
			}
		}
		out[i] = s.label(t)
	}
	return out
}
