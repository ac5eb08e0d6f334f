package operation

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/advise"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
)

// trialList is what the experiments of a topology ask for, in declared order.
type trialList struct {
	trials []experiment.Trial
	// hash identifies all of them together: another hash is another study.
	hash string
	// factors are the names that any experiment varies, in the order of their
	// first appearance: the factor columns of runs.csv.
	factors []string
}

// trials expands all experiments.
func (st *study) trials(images []string, accelerator string) (trialList, error) {
	var list trialList
	var ds diag.Diagnostics
	var hashes []string
	key := experiment.StudyKey{ImageDigests: images, Accelerator: accelerator, SchemaVersion: fmt.Sprint(artifact.SchemaVersion)}
	seen := map[string]bool{}
	for _, e := range st.topology.Experiments {
		treatments, more := experiment.Treatments(st.topology, e)
		if ds = append(ds, more...); more.HasErrors() {
			continue
		}
		list.trials = append(list.trials, experiment.Trials(e, treatments, len(list.trials))...)
		hashes = append(hashes, experiment.StudyHash(st.topology, e, key))
		for _, f := range e.Factors {
			if !seen[f.Name] {
				seen[f.Name] = true
				list.factors = append(list.factors, f.Name)
			}
		}
	}
	list.hash = combine(hashes)
	return list, ds.Err()
}

// combine makes one hash of several, and is the hash itself for a single one.
func combine(hashes []string) string {
	if len(hashes) == 1 {
		return hashes[0]
	}
	return sha256Hex(strings.Join(hashes, "\n"))
}

// of returns the trials of one experiment.
func (l trialList) of(e lang.Experiment) []experiment.Trial {
	var out []experiment.Trial
	for _, t := range l.trials {
		if t.Experiment == e.Noun.Name() {
			out = append(out, t)
		}
	}
	return out
}

// pending returns the trials that the newest sealed result of the study lacks,
// and that result's directory; all trials when there is none.
func (l trialList) pending(dir string) []experiment.Trial {
	if dir == "" {
		return l.trials
	}
	a, err := artifact.Open(dir)
	if err != nil || !a.Sealed() {
		return l.trials
	}
	have := map[string]bool{}
	for _, r := range a.Runs() {
		have[r.RunID] = true
	}
	var missing []experiment.Trial
	for _, t := range l.trials {
		if !have[t.RunID] {
			missing = append(missing, t)
		}
	}
	return missing
}

// treatmentCounts says how the trials are made up: "10 treatments × 5 blocks".
func (l trialList) describe(t *lang.Topology) []string {
	var lines []string
	for _, e := range t.Experiments {
		mine := l.of(e)
		if len(mine) == 0 {
			continue
		}
		line := fmt.Sprintf("%s: %d runs, %d treatments × %d blocks on %s, %s from seed %d",
			e.Noun, len(mine), len(mine)/e.Iterations, e.Iterations, e.Service, experiment.Balanced(e.Iterations, len(mine)/e.Iterations), e.Seed)
		if anew := experiment.Renewals(t, e); len(anew) > 0 {
			line += "; before each run " + nounsText(anew) + " made anew"
		}
		lines = append(lines, line)
		if text := advise.Detectable(len(mine)/e.Iterations, e.Iterations); text != "" {
			lines = append(lines, "  "+text)
		}
	}
	return lines
}

// json is the trials as a plan shows and pins them.
func (l trialList) json() (json.RawMessage, error) {
	return json.Marshal(struct {
		Study  string             `json:"study"`
		Trials []experiment.Trial `json:"trials"`
	}{l.hash, l.trials})
}
