package artifact

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPastLVS: what IPVS did not count is empty in the tables, and empty is
// taken for nothing else.
func TestPastLVS(t *testing.T) {
	run, rows := sampleRun(1, "rr")
	run.TreatmentID, run.IPVSConnsDelta, run.ConnRowsAfter = DirectPrefix+"backend.ns[0]", 0, 0
	run.Decisions, run.JainWeighted, run.JainBound = nil, nil, nil
	row := BackendRow{RunID: rows[0].RunID, Backend: rows[0].Backend, Address: rows[0].Address, NamedRequests: 1000, AnswersOK: 1000, WithoutLVS: true}
	table, err := encodeTable(runColumnsWith(nil), []Run{run})
	must(t, err)
	if want := ",1,,,,,,0.8"; !strings.Contains(string(table), want) {
		t.Errorf("no %q in\n%s", want, table)
	}
	back, _, err := ReadRuns(bytes.NewReader(table))
	must(t, err)
	run.Factors = nil
	if d := cmp.Diff([]Run{run}, back); d != "" {
		t.Error(d)
	}
	rowTable, err := encodeTable(backendColumns, []BackendRow{row})
	must(t, err)
	if want := "01-01-rr,backend.ns[0],198.18.0.30,,,,,,,1000,1000,,,,,\n"; !strings.HasSuffix(string(rowTable), want) {
		t.Errorf("no %q in\n%s", want, rowTable)
	}
	backRows, err := ReadBackends(bytes.NewReader(rowTable))
	must(t, err)
	if d := cmp.Diff([]BackendRow{row}, backRows); d != "" {
		t.Error(d)
	}
	other := strings.ReplaceAll(string(table), DirectPrefix+"backend.ns[0]", "scheduler=rr")
	if _, _, err := ReadRuns(strings.NewReader(other)); err == nil || !strings.Contains(err.Error(), "only a run without LVS") {
		t.Errorf("an empty count of a run through LVS: %v", err)
	}
	half := strings.Replace(string(rowTable), ".30,,,,", ".30,,1,,", 1)
	if _, err := ReadBackends(strings.NewReader(half)); err == nil || !strings.Contains(err.Error(), "went past IPVS") {
		t.Errorf("a weight without a position: %v", err)
	}
}
