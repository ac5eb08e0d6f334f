package verdict

import (
	"fmt"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// drift: a trend over the blocks does not bias comparisons inside them, but says
// that the conditions were not the same all the time.
func drift(s *study) []Verdict {
	m := s.measure()
	matrix, blocks := s.matrix(m)
	if len(matrix) < 5 { // 2/5! is the first p below 0.05
		return nil
	}
	d, err := stats.Drift(matrix, resamples, resampleSeed)
	if err != nil {
		return nil // the matrix is rectangular
	}
	ev := []Evidence{{artifact.RunsFile, fmt.Sprintf("blocks %d to %d", blocks[0], blocks[len(blocks)-1]), m.column + ", block", fmt.Sprintf("mean Kendall tau %.2f", d.Tau)}}
	if d.P > level {
		return []Verdict{{ID: "no-drift", Level: OK, Title: "No drift over the blocks",
			Text:     fmt.Sprintf("%s neither rises nor falls over %s beyond chance (mean Kendall tau %.2f, p = %s by permuting blocks).", m.column, some(len(blocks), "block"), d.Tau, probability(d.P)),
			Evidence: ev}}
	}
	word := "rises"
	if d.Tau < 0 {
		word = "falls"
	}
	return []Verdict{{ID: "drift", Level: Caution, Aside: true, Title: "The conditions drifted",
		Text: fmt.Sprintf("%s %s over %s (mean Kendall tau %.2f, p = %s by permuting blocks): something changed while the study ran.",
			m.column, word, some(len(blocks), "block"), d.Tau, probability(d.P)),
		Evidence: ev, Remedy: "Compare only inside blocks, as the tests here do; for figures that stand alone find out what else the machine did."}}
}
