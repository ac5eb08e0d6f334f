package operation

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/predict"
)

// simulated bounds the packets of a prediction, so that it takes a second
// however long the loads are.
const simulated = 10_000_000

// PredictOptions are predict's flags.
type PredictOptions struct {
	SVG string // file to draw into, "" = none
}

// Predict says what the experiments of a topology can find by the kernel's
// rules. It starts nothing; addresses are those that the lab has or would get.
func Predict(_ context.Context, s *Settings, path string, o PredictOptions) (Exit, error) {
	a, err := s.prepare(path, ApplyOptions{})
	if err != nil {
		return ExitError, err
	}
	all, err := a.study.predictions()
	if err != nil {
		return ExitError, err
	}
	if len(all) == 0 {
		s.Events.Emit(NoticeEvent{Text: "The topology has no experiment: there is nothing to predict."})
		return ExitDone, nil
	}
	if o.SVG != "" {
		if err := os.WriteFile(o.SVG, []byte(predict.SVG(all)), 0o644); err != nil {
			return ExitError, diag.Fail(err, "Cannot write the picture", "Name a file in a directory that exists and is yours to write, with --svg FILE.", "%s", filepath.Dir(o.SVG))
		}
	}
	raw, err := json.Marshal(struct {
		Experiments []predict.Prediction `json:"experiments"`
	}{all})
	if err != nil {
		return ExitError, err
	}
	var texts []string
	for _, p := range all {
		texts = append(texts, p.Text())
	}
	s.Events.Emit(ReportEvent{Kind: "prediction", Text: strings.Join(texts, "\n\n"), Data: raw})
	return ExitDone, nil
}

// predictions are those of all experiments, in declared order.
func (st *study) predictions() ([]predict.Prediction, error) {
	var out []predict.Prediction
	var ds diag.Diagnostics
	for _, e := range st.topology.Experiments {
		treatments, more := experiment.Treatments(st.topology, e)
		if ds = append(ds, more...); more.HasErrors() {
			continue
		}
		p, err := predict.Of(st.topology, e, treatments, simulated/len(st.topology.Experiments))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, ds.Err()
}
