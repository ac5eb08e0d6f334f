package operation

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/schema"
)

// borrowed is a lab as it is found amid an experiment's runs: its service has
// another scheduler, or is missing between two runs.
func borrowed(t *testing.T, missing bool, boot string) reality {
	t.Helper()
	l := newLive(t)
	r := reality{existing: l.up(), gone: map[addr.Resource]string{}}
	service := resourceAt(addr.N(addr.Service, "dns"), schema.TypeIPVS)
	for _, e := range r.existing {
		if attrs := e.Value.AsValueMap(); e.Type != schema.TypeDomain && e.Type != schema.TypeNetwork {
			attrs["boot_id"] = cty.StringVal(boot)
			e.Value = cty.ObjectVal(attrs)
		}
		switch {
		case e.Addr == service && missing:
			r.gone[e.Addr] = "missing"
			continue
		case e.Addr == service:
			s, err := schema.IPVSFrom(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			s.Services[0].Scheduler = "sed"
			e.Value = s.Value()
			r.changed = append(r.changed, e.Addr)
		}
		r.have = append(r.have, e)
	}
	return r
}

func TestALoanIsNoDrift(t *testing.T) {
	for _, c := range []struct {
		name     string
		missing  bool
		boot     string
		director string
		overlook bool
	}{
		{"another scheduler", false, "boot 1", "director.lb", true},
		{"no service between two runs", true, "boot 1", "director.lb", true},
		{"another director's", false, "boot 1", "director.other", false},
		{"the director has booted since", true, "boot 2", "director.lb", false},
	} {
		r := borrowed(t, c.missing, c.boot)
		if got := r.overlook(c.director); got != c.overlook || r.differs() == c.overlook {
			t.Errorf("%s: overlooked %v, differs %v", c.name, got, r.differs())
		}
		if same := slices.EqualFunc(r.have, r.existing, func(a, b plan.Existing) bool { return a.Addr == b.Addr && a.Value.RawEquals(b.Value) }); same != c.overlook {
			t.Errorf("%s: what exists is as recorded: %v", c.name, same)
		}
	}
}

func TestOverlookLoans(t *testing.T) {
	a, _, _ := paper(t, "flush")
	reopen(t, a)
	said := &heard{}
	a.Events = said
	if _, err := a.store.Begin(state.Intent{Op: opExperiment, Subject: "experiment.x", Data: []byte(`{"borrower":"experiment.x","director":"director.lb"}`)}); err != nil {
		t.Fatal(err)
	}
	for _, closed := range []bool{false, true} {
		if closed {
			if err := a.store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		a.reality = borrowed(t, false, "boot 1")
		if err := a.overlookLoans(); err != nil || a.reality.differs() {
			t.Errorf("%v, differs %v", err, a.reality.differs())
		}
	}
	want := []string{
		"experiment.x has borrowed the services of director.lb and gives them back when it is done.",
		"experiment.x had borrowed the services of director.lb when it was ended; the next apply gives them back.",
	}
	if !slices.Equal(said.lines, want) {
		t.Errorf("said %q", said.lines)
	}
}
