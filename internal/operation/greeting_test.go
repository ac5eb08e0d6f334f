package operation

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/labtest"
	"github.com/lvslab/lvslab/plan/walk"
)

func TestGreetingWaitsForItsWayOnly(t *testing.T) {
	l := newLive(t)
	p, _ := l.plan(diff.Input{Wanted: l.wanted})
	top, err := labtest.Resolve(labtest.Demo())
	if err != nil {
		t.Fatal(err)
	}
	a := &applying{study: &study{topology: top}, changes: p}
	g := a.newGreeting()
	answer := time.Unix(1, 0)
	g.ask = func(context.Context) time.Time { return answer }
	did := func(c plan.Change, k walk.Kind) {
		g.observe(t.Context(), walk.Event{Kind: k, Change: c, Op: plan.Create})
	}
	var way, beside []string
	for _, c := range p.Changes {
		did(c, walk.Started)
		if s := c.Addr.String(); strings.Contains(s, "ns[1]") || strings.Contains(s, "ns[2]") {
			beside = append(beside, s)
			if guest := !c.Want.Within.IsZero(); g.notOnItsWay(c) != guest {
				t.Errorf("%s may come last: %v, of a guest: %v", s, !guest, guest)
			}
			continue
		}
		if g.notOnItsWay(c) {
			t.Errorf("%s is on the way and may come last", c.Addr)
		}
		way = append(way, c.Addr.String())
	}
	if len(way) == 0 || len(beside) == 0 {
		t.Fatalf("on the way %d, beside it %d", len(way), len(beside))
	}
	left := len(way)
	for _, c := range p.Changes {
		if strings.Contains(c.Addr.String(), "ns[1]") || strings.Contains(c.Addr.String(), "ns[2]") {
			continue
		}
		if !g.answered().IsZero() {
			t.Fatalf("asked with %d of %s left", left, way)
		}
		did(c, walk.Done)
		left--
	}
	if got := g.answered(); !got.Equal(answer) {
		t.Errorf("answered %v while only %s were left", got, beside)
	}
}

func TestGreetingKnowsWhoAnswers(t *testing.T) {
	l := newLive(t)
	p, _ := l.plan(diff.Input{Wanted: l.wanted})
	for _, tt := range []struct {
		name  string
		edits []string
		want  bool
	}{
		{"rr", nil, true},
		{"dh", []string{`scheduler  = "rr"`, `scheduler  = "dh"`}, false},
		{"quiesced", []string{"weight   = 1", "weight   = 0"}, false},
	} {
		top, err := labtest.Resolve(labtest.Demo(tt.edits...))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		a := &applying{study: &study{topology: top}, changes: p}
		if got := a.newGreeting() != nil; got != tt.want {
			t.Errorf("%s: greets %v", tt.name, got)
		}
		if a.changes = (plan.Plan{}); a.newGreeting() != nil {
			t.Errorf("%s: greets where nothing is made", tt.name)
		}
	}
	var none *greeting
	if !none.answered().IsZero() {
		t.Error("a greeting that never was has an answer")
	}
}
