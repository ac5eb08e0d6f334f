package experiment

import (
	"net/netip"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/lang"
)

func TestStudyHash(t *testing.T) {
	key := StudyKey{ImageDigests: []string{"aa"}, Accelerator: "tcg", SchemaVersion: "1"}
	base := func() (*lang.Topology, lang.Experiment) {
		top := paperTopology()
		return top, top.Experiments[0]
	}
	top, e := base()
	want := StudyHash(top, e, key)
	if len(want) != 64 {
		t.Fatalf("hash %q", want)
	}
	for name, change := range map[string]func(*lang.Topology, *lang.Experiment, *StudyKey){
		"nothing":  func(*lang.Topology, *lang.Experiment, *StudyKey) {},
		"lab name": func(t *lang.Topology, _ *lang.Experiment, _ *StudyKey) { t.Lab.Name = "other" },
		"teardown": func(t *lang.Topology, _ *lang.Experiment, _ *StudyKey) { t.Lab.Teardown = lang.TeardownNever },
		"positions": func(t *lang.Topology, e *lang.Experiment, _ *StudyKey) {
			t.Services[0].Range.Start.Line = 9
			e.Range.Start.Line = 7
		},
		"variables": func(t *lang.Topology, _ *lang.Experiment, _ *StudyKey) {
			t.Variables = map[string]cty.Value{"a": cty.True}
		},
		"more blocks":    func(_ *lang.Topology, e *lang.Experiment, _ *StudyKey) { e.Iterations = 50 },
		"a second study": func(t *lang.Topology, e *lang.Experiment, _ *StudyKey) { t.Experiments = append(t.Experiments, *e) },
	} {
		top, e := base()
		k := key
		change(top, &e, &k)
		if got := StudyHash(top, e, k); got != want {
			t.Errorf("%s must not make another study", name)
		}
	}
	seen := map[string]string{want: "the base"}
	for name, change := range map[string]func(*lang.Topology, *lang.Experiment, *StudyKey){
		"seed": func(_ *lang.Topology, e *lang.Experiment, _ *StudyKey) { e.Seed++ },
		"vip": func(t *lang.Topology, _ *lang.Experiment, _ *StudyKey) {
			t.Services[0].VIPs[0] = netip.MustParseAddr("198.18.0.100")
		},
		"factor value": func(_ *lang.Topology, e *lang.Experiment, _ *StudyKey) { e.Factors[0].Values[3] = cty.StringVal("ovf") },
		"factor type":  func(_ *lang.Topology, e *lang.Experiment, _ *StudyKey) { e.Factors[0] = factorOf("scheduler", 1) },
		"isolation":    func(_ *lang.Topology, e *lang.Experiment, _ *StudyKey) { e.Isolation = lang.IsolationRestore },
		"queries":      func(_ *lang.Topology, e *lang.Experiment, _ *StudyKey) { e.Load.Queries++ },
		"record":       func(t *lang.Topology, _ *lang.Experiment, _ *StudyKey) { t.Zones[0].Records[1].Values[0] = "192.0.2.9" },
		"real servers": func(t *lang.Topology, _ *lang.Experiment, _ *StudyKey) {
			r := t.Services[0].RealServers
			r[0], r[1] = r[1], r[0]
		},
		"udp timeout": func(t *lang.Topology, _ *lang.Experiment, _ *StudyKey) { t.Services[0].Timeouts.UDP = time.Second },
		"sysctl": func(t *lang.Topology, _ *lang.Experiment, _ *StudyKey) {
			t.Machines[0].Sysctl = map[string]string{"a": "1", "b": "2"}
		},
		"image":       func(_ *lang.Topology, _ *lang.Experiment, k *StudyKey) { k.ImageDigests = []string{"bb"} },
		"accelerator": func(_ *lang.Topology, _ *lang.Experiment, k *StudyKey) { k.Accelerator = "kvm" },
		"schema":      func(_ *lang.Topology, _ *lang.Experiment, k *StudyKey) { k.SchemaVersion = "2" },
		"controls":    func(_ *lang.Topology, e *lang.Experiment, _ *StudyKey) { e.Controls = &lang.Controls{AA: true} },
	} {
		for range 3 { // map order must not show
			top, e := base()
			k := key
			change(top, &e, &k)
			got := StudyHash(top, e, k)
			if other, taken := seen[got]; taken && other != name {
				t.Errorf("%s gives the same study as %s", name, other)
			}
			seen[got] = name
		}
	}
	if len(seen) != 15 {
		t.Errorf("%d different hashes for 14 changes and the base", len(seen))
	}
}
