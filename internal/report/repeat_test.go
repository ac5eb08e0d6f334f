package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

// A threat is named when it holds, and not otherwise.
func TestThreats(t *testing.T) {
	has := func(in Input, text string) bool {
		return strings.Contains(strings.Join(Build(in).threats(), "\n"), text)
	}
	for text, mend := range map[string]func(*Input){
		"under emulation (tcg)": func(in *Input) { in.Manifest.Accelerator = "kvm" },
		"One kernel, 6.1.0-53":  func(in *Input) { in.Manifest.Versions.GuestKernel = "" },
		"One client address": func(in *Input) {
			for i := range in.Facts[0].Treatments {
				in.Facts[0].Treatments[i].ClientAddresses = 24
			}
		},
		"One virtual address": func(in *Input) {
			in.Facts[0].Treatments[2].VIPs = 16
		},
		"No control runs": func(in *Input) { in.Facts[0].Controls = &verdict.Controls{AA: true} },
	} {
		in := sample(1)
		if !has(in, text) {
			t.Errorf("%q is not named", text)
		}
		if mend(&in); has(in, text) {
			t.Errorf("%q is named still", text)
		}
	}
	for name, cut := range map[string]func(*Input){
		"two sessions": func(in *Input) { in.Manifest.Sessions = make([]artifact.Session, 2) },
		"a parent":     func(in *Input) { in.Manifest.Parent = &artifact.Parent{Path: "../20261201T100000Z-0000"} },
	} {
		in := sample(1)
		in.Manifest.Sessions = make([]artifact.Session, 1)
		if has(in, "not made in one go") {
			t.Error("one session, and yet")
		}
		if cut(&in); !has(in, "not made in one go") {
			t.Errorf("%s: the threat is not named", name)
		}
		if text := string(Build(in).Markdown()); !strings.Contains(text, "| adds blocks to | 20261201T100000Z-0000 |") && !strings.Contains(text, "| sessions | 2: the study was interrupted") {
			t.Errorf("%s: not among the conditions", name)
		}
	}
	in := sample(1)
	other := in.Facts[0]
	other.Experiment = "other"
	in.Facts = append(in.Facts, other)
	if !has(in, "other: One client address") {
		t.Error("with two experiments the name of the one that is meant is missing")
	}
}

// What was expected stands beside what was counted, and a difference is seen.
func TestExpectedAndCounted(t *testing.T) {
	in := sample(1)
	one := func(label string) string {
		for _, r := range expected(Build(in).Experiments[0]) {
			if r.Label == label {
				return fmt.Sprint(r.Planned, " | ", r.Counted, " ", r.Differs)
			}
		}
		return ""
	}
	if got := one("dh"); got != "0 : 0 : 5 | 0 : 0 : 5 false" {
		t.Errorf("dh: %q", got)
	}
	if got := one("sh"); got != "" {
		t.Errorf("sh has no plan, yet %q", got)
	}
	for i, b := range in.Backends {
		if strings.HasSuffix(b.RunID, "-dh") && b.Position == 1 {
			in.Backends[i].IPVSConnsDelta++
			break
		}
	}
	if got := one("dh"); got != "0 : 0 : 5 | 0 : 1 : 5 true" {
		t.Errorf("dh with one too many: %q", got)
	}
	for i, r := range in.Runs {
		if strings.HasSuffix(r.RunID, "-dh") {
			in.Runs[i].Valid = false
		}
	}
	if got := one("dh"); got != "" {
		t.Errorf("without a valid run: %q", got)
	}
}
