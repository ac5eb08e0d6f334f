package operation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// planned makes the plan of a lab that is up while its machines boot these images.
func planned(t *testing.T, a *applying, boot map[addr.Noun]addr.Noun) {
	t.Helper()
	list, err := a.wantedWith(boot)
	if err != nil {
		t.Fatal(err)
	}
	var have []plan.Existing
	for _, r := range list {
		have = append(have, plan.Existing{Addr: r.Addr, Type: r.Type, Value: r.Attrs, DependsOn: r.DependsOn, Within: r.Within})
	}
	replan(t, a, have)
}

// replan makes the plan of a lab in which that exists.
func replan(t *testing.T, a *applying, have []plan.Existing) {
	t.Helper()
	ps, err := offline()
	if err != nil {
		t.Fatal(err)
	}
	a.reality = reality{have: have}
	if a.changes, err = compare(ps, a.wanted, a.reality, a.opts.Choices, a.study.topology); err != nil {
		t.Fatal(err)
	}
	if err := a.findLent(ps); err != nil {
		t.Fatal(err)
	}
}

// A director that boots what a study over kernels wants of it is no difference, and
// what else differs is shown beside it.
func TestPlanKnowsWhatAStudyBoots(t *testing.T) {
	a, _ := overKernels(t)
	lb := a.study.topology.Services[0].Director
	asked := 0
	a.opts.Confirm = func(context.Context, string) (bool, error) { asked++; return false, nil }
	planned(t, a, map[addr.Noun]addr.Noun{lb: imageNew})
	text := a.planText()
	for _, want := range []string{
		"No changes: what exists is what the topology asks for.",
		"director.lb boots image.new for a run of experiment.schedulers, which goes on or was cut off; apply boots it as declared, with all that is in it.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the plan lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "replaced") || a.confirm(t.Context()) != nil || asked > 0 {
		t.Errorf("asked %d times; the plan:\n%s", asked, text)
	}
	if actionOn(a.changes, lb) != provider.Replace || a.changes.Totals().Replace == 0 || a.idle() {
		t.Errorf("it is not made as declared: %+v", a.changes.Totals())
	}
	raw, err := a.planJSON()
	if err != nil || !strings.Contains(string(raw), `"image": "image.new"`) {
		t.Errorf("%v: %s", err, raw)
	}

	// Killed before its card and its service were there.
	half := func(r plan.Existing) bool {
		return r.Within.Noun == lb && r.Addr.Noun != lb || r.Type == schema.TypeLink && r.Addr.Noun == lb
	}
	replan(t, a, slices.DeleteFunc(a.reality.have, half))
	if text := a.planText(); !strings.Contains(text, "No changes") || strings.Contains(text, "created") || !strings.Contains(text, "director.lb boots image.new") {
		t.Errorf("the plan after a kill amid it:\n%s", text)
	}

	planned(t, a, nil)
	if len(a.lent) > 0 || !a.changes.Empty() || strings.Contains(a.planText(), "for a run of") {
		t.Errorf("as declared: %+v, %+v", a.lent, a.changes.Totals())
	}
}

// What is somebody's own change is shown and asked for as ever.
func TestPlanShowsOtherChangesOfADirector(t *testing.T) {
	a, _ := overKernels(t)
	lb := a.study.topology.Services[0].Director
	a.opts.Confirm = func(context.Context, string) (bool, error) { return false, nil }
	planned(t, a, map[addr.Noun]addr.Noun{lb: imageNew})
	for i := range a.study.topology.Machines {
		if m := &a.study.topology.Machines[i]; m.Noun == lb {
			m.Memory += 256 << 20
		}
	}
	var err error
	if a.wanted, err = a.desired(); err != nil {
		t.Fatal(err)
	}
	replan(t, a, a.reality.have)
	if text := a.planText(); len(a.lent) > 0 || !strings.Contains(text, "director.lb/domain will be replaced") {
		t.Errorf("%+v:\n%s", a.lent, text)
	}
	if err := a.confirm(t.Context()); !errors.Is(err, errDeclined) {
		t.Errorf("nobody was asked: %v", err)
	}
}
