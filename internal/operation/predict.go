package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/population"
	"github.com/lvslab/lvslab/internal/predict"
)

// simulated bounds the packets of a prediction, so that it takes a second
// however long the loads are.
const simulated = 10_000_000

// PredictOptions are predict's flags.
type PredictOptions struct {
	SVG string // file to draw into, "" = none
}

// simulatedCrowd bounds the packets of all populations together: they ask a
// table of a million entries, which takes longer.
const simulatedCrowd = 2_000_000

// Predict says what the experiments of a topology can find and what its
// populations would meet, by the kernel's rules. It starts nothing; addresses are those that the lab has or would get.
func Predict(_ context.Context, s *Settings, path string, o PredictOptions) (Exit, error) {
	a, err := s.prepare(path, ApplyOptions{})
	if err != nil {
		return ExitError, err
	}
	if a.study.kernels, err = a.cachedRules(); err != nil {
		return ExitError, err
	}
	all, err := a.study.predictions(simulated)
	if err != nil {
		return ExitError, err
	}
	crowds, err := a.study.populations(simulatedCrowd)
	if err != nil {
		return ExitError, err
	}
	if len(all) == 0 && len(crowds) == 0 {
		s.Events.Emit(NoticeEvent{Text: "The topology has no experiment and no population: there is nothing to predict."})
		return ExitDone, nil
	}
	if o.SVG != "" {
		pictures := slices.Clone(all)
		for _, p := range crowds {
			pictures = append(pictures, drawn(p))
		}
		if err := os.WriteFile(o.SVG, []byte(predict.SVG(pictures)), 0o644); err != nil {
			return ExitError, diag.Fail(err, "Cannot write the picture", "Name a file in a directory that exists and is yours to write, with --svg FILE.", "%s", filepath.Dir(o.SVG))
		}
	}
	raw, err := json.Marshal(struct {
		Experiments []predict.Prediction    `json:"experiments"`
		Populations []population.Prediction `json:"populations"`
	}{orNone(all), orNone(crowds)})
	if err != nil {
		return ExitError, err
	}
	var texts []string
	for _, p := range all {
		texts = append(texts, p.Text())
	}
	for _, p := range crowds {
		texts = append(texts, p.Text())
	}
	s.Events.Emit(ReportEvent{Kind: "prediction", Text: strings.Join(texts, "\n\n"), Data: raw})
	return ExitDone, nil
}

// populations are the predictions of all populations, in declared order.
func (st *study) populations(packets int) ([]population.Prediction, error) {
	var out []population.Prediction
	for _, p := range st.topology.Populations {
		one, err := population.Of(st.topology, p, packets/len(st.topology.Populations))
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// drawn is a population as the picture shows it.
func drawn(p population.Prediction) predict.Prediction {
	out := predict.Prediction{Experiment: p.Population, Service: p.Service, Backends: p.Backends}
	for _, c := range p.Cells {
		one := predict.Cell{Treatment: c.Treatment, Kind: predict.Chance, Decisions: int((1 - c.Pinned.Simulated - c.Unserved) * p.Rate * p.Until)}
		for _, s := range c.Shares {
			if s.Exact != nil {
				one.Kind = predict.Exact
			}
			one.Shares = append(one.Shares, predict.Share{Backend: s.Backend, Weight: s.Weight, Share: s.Share()})
		}
		out.Cells = append(out.Cells, one)
	}
	return out
}

// orNone makes a list that JSON shows as [] when it is empty.
func orNone[T any](list []T) []T { return append([]T{}, list...) }

// plannedPackets bounds what a plan may simulate: 0.1 s. A treatment whose load
// is longer than its part has no planned decisions.
const plannedPackets = 2_000_000

// planned are the decisions that the model is certain of, by run and backend. A
// run's setting need not be its treatment's: the list may begin elsewhere.
func (a *applying) planned() (map[string]map[string]int, error) {
	out := map[string]map[string]int{}
	for _, e := range a.study.topology.Experiments {
		trials := a.list.of(e)
		e.Controls = nil // a trial has the list of its block
		at := map[string]int{}
		var different []experiment.Treatment
		for _, t := range trials {
			if t.Treatment.Direct() { // without LVS nobody decides
				continue
			}
			if _, known := at[planKey(t)]; !known {
				at[planKey(t)] = len(different)
				different = append(different, t.Treatment)
			}
		}
		p, err := predict.Of(a.study.topology, e, different, plannedPackets/len(a.study.topology.Experiments), a.study.kernels)
		if err != nil {
			return nil, err
		}
		for _, t := range trials {
			if i, known := at[planKey(t)]; known {
				if d := p.Cells[i].Planned(); d != nil {
					out[t.RunID] = d
				}
			}
		}
	}
	return out, nil
}

// sourcePorts are the ports that are known before the runs, by experiment and
// client address.
func (a *applying) sourcePorts() (map[string]map[string][]uint16, error) {
	out := map[string]map[string][]uint16{}
	for _, e := range a.study.topology.Experiments {
		var treatments []experiment.Treatment
		for _, t := range a.list.of(e) {
			treatments = append(treatments, t.Treatment)
		}
		ports, err := experiment.PortsUsed(a.study.topology, e, treatments)
		if err != nil {
			return nil, err
		}
		if len(ports) > 0 {
			out[e.Noun.Name()] = ports // as trials name it
		}
	}
	return out, nil
}

// planKey is equal for runs of the same treatment with the same list.
func planKey(t experiment.Trial) string {
	return fmt.Sprint(t.Treatment.ID, t.Treatment.Setting.Order)
}

// collapse finds out which treatments stand for others, where the experiment wants
// only one of each kind to be run, whatever kernel runs: see [predict.Collapse].
func (st *study) collapse() error {
	for i := range st.topology.Experiments {
		e := &st.topology.Experiments[i]
		e.StandsFor = nil
		if !e.Collapse {
			continue
		}
		treatments, ds := experiment.Treatments(st.topology, *e)
		if ds.HasErrors() {
			return ds.Err()
		}
		list, err := predict.Collapse(st.topology, *e, treatments, plannedPackets)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			e.StandsFor = list
		}
	}
	return nil
}

// predictions are those of all experiments, in declared order, by at most so
// many packets.
func (st *study) predictions(packets int) ([]predict.Prediction, error) {
	var out []predict.Prediction
	var ds diag.Diagnostics
	for _, e := range st.topology.Experiments {
		e.StandsFor = nil // all are foretold, run or not
		treatments, more := experiment.Treatments(st.topology, e)
		if ds = append(ds, more...); more.HasErrors() {
			continue
		}
		p, err := predict.Of(st.topology, e, treatments, packets/len(st.topology.Experiments), st.kernels)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, ds.Err()
}
