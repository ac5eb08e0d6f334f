package experiment

import (
	"slices"

	"github.com/lvslab/lvslab/internal/lang"
)

// collapsed leaves out the treatments that another one stands for.
func collapsed(e lang.Experiment, list []Treatment) []Treatment {
	if len(e.StandsFor) == 0 {
		return list
	}
	for i := range list {
		list[i].StandsFor = e.StandsFor[list[i].ID]
	}
	return slices.DeleteFunc(list, func(t Treatment) bool {
		for _, others := range e.StandsFor {
			if slices.Contains(others, t.ID) {
				return true
			}
		}
		return false
	})
}

// Represented gives the treatments that were not run the results of those that
// stand for them, so that a check may name either.
func Represented(r lang.ExperimentResult, standsFor map[string][]string) lang.ExperimentResult {
	for first, others := range standsFor {
		for _, id := range others {
			if s, ok := r.Shares[first]; ok {
				r.Shares[id] = s
			}
			if d, ok := r.Decisions[first]; ok {
				r.Decisions[id] = d
			}
		}
	}
	return r
}
