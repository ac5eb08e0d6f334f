package operation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/conformance"
)

// Two kernels are two columns; why a case was left out stands behind it, and a
// difference says on which kernel it was.
func TestConformanceTable(t *testing.T) {
	report := func(kernel string, results ...string) *conformanceReport {
		r := &conformanceReport{Kernel: kernel, IPVS: "1.2.1", Replayed: len(results)}
		for i, result := range results {
			c := conformance.Outcome{Case: "case " + string(rune('a'+i)), Origin: "derived", Result: result}
			if result == conformance.LeftOut {
				c.Why = "kernel has no twos"
			}
			if result == conformance.Differs {
				c.Why, c.Script = "line 1: no", "rows 1"
				r.Differ++
			}
			r.Cases = append(r.Cases, c)
		}
		return r
	}
	old, late := report("6.1.0-57-cloud-amd64", conformance.Agrees, conformance.LeftOut), report("6.12.117+deb12-cloud-amd64", conformance.Agrees, conformance.Differs)
	text := conformanceReports{old, late}.text(ConformanceOptions{})
	for _, want := range []string{
		"LINUX 6.1.0     LINUX 6.12.117+deb12  FROM      CASE\n",
		"agrees          agrees                derived   case a\n",
		"not replayable  differs               derived   case b (kernel has no twos)\n",
		"DIFFERS on Linux 6.12.117+deb12: case b\n  line 1: no\n  what shows it:\n    rows 1\n",
		"Linux 6.1.0-57-cloud-amd64, IPVS 1.2.1: 2 of 2 cases replayed, all agree.\n",
		"2 of 2 cases replayed, 1 differs.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	one := conformanceReports{late}
	if text := one.text(ConformanceOptions{}); !strings.Contains(text, "\nDIFFERS: case b\n") {
		t.Error(text)
	}
	for reports, want := range map[*conformanceReports]string{{old, late}: `{"kernels":[{"kernel":"6.1.0-57`, &one: `{"kernel":"6.12.117`} {
		if raw, err := json.Marshal(reports.data()); err != nil || !strings.HasPrefix(string(raw), want) {
			t.Errorf("%s, %v", raw, err)
		}
	}
}
