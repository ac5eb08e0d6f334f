package operation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/symptom"
	"github.com/lvslab/lvslab/plan/state"
)

// What was planted on a machine that is gone went with it: the journal is cleared.
func TestPlantsOfALabThatIsGone(t *testing.T) {
	a, _, _ := paper(t, "flush")
	reopen(t, a)
	data, err := json.Marshal(symptom.Plant{Symptom: symptom.RPFilter, At: addr.N(addr.Backend, "ns").At(addr.Index(0))})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []state.Intent{{Op: opPlant, Subject: "backend.ns[0]", Data: data}, {Op: opExperiment, Subject: "experiment.x"}} {
		if _, err := a.store.Begin(op); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.takeBackPlants(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := a.store.Pending(); len(left) != 1 || left[0].Op != opExperiment {
		t.Errorf("pending %+v", left)
	}
	if _, err := a.store.Begin(state.Intent{Op: opPlant, Subject: "backend.ns[0]", Data: []byte(`7`)}); err != nil {
		t.Fatal(err)
	}
	if err := a.takeBackPlants(t.Context()); err == nil {
		t.Error("a damaged intent is no error")
	}
}

// TestSymptomTexts holds what people read.
func TestSymptomTexts(t *testing.T) {
	at := addr.N(addr.Backend, "ns").At(addr.Index(1))
	one := symptom.Finding{Symptom: symptom.RPFilter, At: at, Address: at.String(), Summary: "Reverse path filtering drops it", Evidence: "A counter rose.", Remedy: "Set it to 0."}
	two := symptom.Finding{Symptom: symptom.NoVIP, At: at, Address: at.String(), Summary: "No VIP", Evidence: "None.", Remedy: "Give it one."}
	var b strings.Builder
	for _, d := range []diagnosis{
		{VIPs: 1, Queries: 1}, {VIPs: 2, Queries: 6},
		{VIPs: 1, Queries: 3, Findings: []symptom.Finding{one}}, {VIPs: 1, Findings: []symptom.Finding{one, two}},
	} {
		b.WriteString(d.text() + "\n\n")
	}
	plant := symptom.Plant{Do: []symptom.Step{{Machine: at, Script: "ip link set a up\nip link set b down"}}}
	b.WriteString(stepsText(plant.Do) + "\n\n")
	b.WriteString(injectionsText([]injection{
		{Symptom: symptom.RPFilter, At: at.String(), Named: true, Findings: []symptom.Finding{one}},
		{Symptom: symptom.RPFilter, At: at.String()},
		{Symptom: symptom.RPFilter, At: at.String(), Findings: []symptom.Finding{one, two}},
	}) + "\n")
	golden.Check(t, "symptoms.txt", b.String())
}
