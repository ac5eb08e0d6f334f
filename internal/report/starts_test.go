package report

import (
	"strings"
	"testing"
)

func TestStartsAreTold(t *testing.T) {
	in := sample(1)
	if text := string(Build(in).Markdown()); strings.Contains(text, "start_spread_s") {
		t.Error("starts of one client")
	}
	in.Runs[0].StartSpreadS, in.Runs[1].StartSpreadS, in.Runs[2].StartSpreadS = ptr(0.004), ptr(0.0125), ptr(0.002)
	in.Runs[3].StartSpreadS, in.Runs[3].Valid = ptr(0.9), false
	const want = "| clients of schedulers | began 0.00400 s apart in the median of 3 runs, 0.0125 s at most (start\\_spread\\_s) |"
	if text := string(Build(in).Markdown()); !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text[strings.Index(text, "## Methods"):])
	}
	if in.Runs[0].StartSpreadS == nil || *in.Runs[0].StartSpreadS != 0.004 {
		t.Error("the rows were changed")
	}
}
