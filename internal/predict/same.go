package predict

import (
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/lang"
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
// only one of each group is run. It takes those alone that are one in each of the
// predictions, which foretell the same treatments by the rules of different kernels,
// and of which the model is certain to the last query, and no control. One kernel
// never stands for another: that they are alike is what such an experiment is to show.
func StandsFor(byRules ...Prediction) map[string][]string {
	out, first := map[string][]string{}, map[string]string{}
	for i, c := range byRules[0].Cells {
		group, certain := c.image, !strings.HasPrefix(c.Treatment, experiment.ControlPrefix)
		for _, p := range byRules {
			own := p.Cells[i]
			group += fmt.Sprint(" ", own.Group)
			certain = certain && own.Kind == Exact && !own.cut
		}
		if !certain {
			continue
		}
		if who, known := first[group]; known {
			out[who] = append(out[who], c.Treatment)
		} else {
			first[group] = c.Treatment
		}
	}
	return out
}

// Collapse returns which treatments of an experiment stand for others by the rules of
// every kernel that IPVS's model knows. Which kernel the runs will have is not asked:
// what a study consists of must not depend on which image the cache holds today, and
// kernels of one package's name differ in rules (see [ipvsmodel.Kernel]) that part
// treatments of TCP and such with thresholds.
func Collapse(t *lang.Topology, e lang.Experiment, treatments []experiment.Treatment, budget int) (map[string][]string, error) {
	var all []Prediction
	for _, k := range ipvsmodel.Kernels() {
		p, err := Of(t, e, treatments, budget, Everywhere(t, k))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return StandsFor(all...), nil
}
