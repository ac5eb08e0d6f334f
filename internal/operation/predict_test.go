package operation

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/predict"
)

// predictWithin is what a prediction of the demonstration may take. It takes
// 0.1 s on an idle machine.
const predictWithin = 5 * time.Second

// TestPredictInTime: the demonstration's prediction has shares for its ten
// schedulers and comes at once. The best of three counts: what else the machine
// does is not the subject.
func TestPredictInTime(t *testing.T) {
	var took time.Duration
	for range 3 {
		seen := &reportsSeen{}
		began := time.Now()
		exit, err := Predict(t.Context(), &Settings{Events: seen, Started: began}, "../../topologies/lvs-tun-dns.hcl", PredictOptions{})
		took = time.Since(began)
		if err != nil || exit != ExitDone || len(seen.got) != 1 {
			t.Fatal(exit, err, len(seen.got))
		}
		var got struct{ Experiments []predict.Prediction }
		if err := json.Unmarshal(seen.got[0].Data, &got); err != nil {
			t.Fatal(err)
		}
		schedulers := map[string]bool{}
		for _, c := range got.Experiments[0].Cells {
			schedulers[c.Factors["scheduler"]] = len(c.Shares) == 3
		}
		if len(schedulers) != 10 {
			t.Fatalf("shares of %v, want ten schedulers", schedulers)
		}
		if took <= predictWithin {
			return
		}
	}
	t.Errorf("a prediction took %v, more than %v", took, predictWithin)
}
