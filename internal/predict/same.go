package predict

import (
	"strings"

	"github.com/lvslab/lvslab/internal/experiment"
)

// group numbers the treatments that are one treatment.
func (p *Prediction) group() {
	numbers := map[string]int{}
	members := map[int][]string{}
	for i := range p.Cells {
		c := &p.Cells[i]
		n, known := numbers[c.signature]
		if !known {
			n = len(numbers) + 1
			numbers[c.signature] = n
		}
		c.Group = n
		members[n] = append(members[n], c.Treatment)
	}
	for n := 1; n <= len(numbers); n++ {
		if len(members[n]) > 1 {
			p.Same = append(p.Same, members[n])
		}
	}
}

// StandsFor returns which treatments another one stands for, first → others, when
// only one of each group is run. It takes those alone of which the model is certain
// to the last query, and no control. One kernel never stands for another: that they
// are alike is what such an experiment is to show.
func (p *Prediction) StandsFor() map[string][]string {
	out := map[string][]string{}
	type kind struct {
		group int
		image string
	}
	first := map[kind]string{}
	for _, c := range p.Cells {
		if c.Kind != Exact || c.cut || strings.HasPrefix(c.Treatment, experiment.ControlPrefix) {
			continue
		}
		if who, known := first[kind{c.Group, c.image}]; known {
			out[who] = append(out[who], c.Treatment)
		} else {
			first[kind{c.Group, c.image}] = c.Treatment
		}
	}
	return out
}
