package plan_test

import (
	"testing"

	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
)

func TestProviders(t *testing.T) {
	p, err := open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ps, err := plan.NewProviders(p)
	if err != nil {
		t.Fatal(err)
	}
	got, schema, err := ps.For("box")
	if err != nil || got != provider.Provider(p) || schema.Noun != "box" {
		t.Errorf("%v, %v, %v", got, schema, err)
	}
	if _, _, err := ps.For("cupboard"); err == nil {
		t.Error("an unknown type has a provider")
	}
	if _, err := plan.NewProviders(p, p); err == nil {
		t.Error("two providers of one type were accepted")
	}
}

func TestTotals(t *testing.T) {
	p := plan.Plan{Changes: []plan.Change{{Action: provider.Create}, {Action: provider.NoOp}, {Action: provider.NoOp}, {Action: provider.Update}}}
	if p.Totals() != (plan.Totals{Create: 1, Update: 1, NoOp: 2}) || p.Empty() || p.Destructive() {
		t.Errorf("%+v", p.Totals())
	}
	p.Changes = append(p.Changes, plan.Change{Action: provider.Delete})
	if !p.Destructive() {
		t.Error("a deletion destroys nothing")
	}
	if !(plan.Plan{Changes: p.Changes[1:3]}).Empty() {
		t.Error("a plan without actions is not empty")
	}
	c := plan.Change{Want: &provider.Resource{Attrs: fake.Lid(1)}}
	if !c.Before().IsNull() || c.After().GetAttr("size").IsNull() {
		t.Error("before and after of a creation")
	}
}
