package load

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rungs makes a ladder of counts; -1 = not counted.
func rungs(n ...int) Rungs {
	p := make([]*int64, 8)
	for i, v := range n {
		if v >= 0 {
			p[i] = Count(v)
		}
	}
	return Rungs{p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]}
}

func TestLadderNamesEveryGap(t *testing.T) {
	for i, want := range edges {
		n := make([]int, 8)
		for k := range n {
			n[k] = 100
			if k > i {
				n[k] = 90
			}
		}
		gaps, wrong := Ladder(rungs(n...), nil, LadderSpec{})
		if len(wrong) > 0 || len(gaps) != 1 || gaps[0].Name != want || gaps[0].Lost != 10 || gaps[0].From != rungNames[i] || gaps[0].Candidates != nil {
			t.Errorf("%s: %+v %v", want, gaps, wrong)
		}
	}
}

func TestLadder(t *testing.T) {
	for name, c := range map[string]struct {
		whole    Rungs
		backends map[string]Rungs
		spec     LadderSpec
		gaps     []Gap
		wrong    []string
	}{
		"all arrive": {whole: rungs(9, 9, 9, 9, 9, 9, 9, 9), backends: map[string]Rungs{"a": rungs(-1, -1, 5, 5, 5, 5, 5, 5), "b": rungs(-1, -1, 4, 4, 4, 4, 4, 4)}},
		"one place was not counted": {whole: rungs(9, -1, 7, -1, 6, 6, 6, 6), gaps: []Gap{
			{Name: "not_scheduled", Candidates: []string{"lost_before_director", "not_scheduled"}, From: "client_sent", To: "ipvs_in", Lost: 2},
			{Name: "backend_drop", Candidates: []string{"lost_in_tunnel", "backend_drop"}, From: "ipvs_in", To: "named_requests", Lost: 1}}},
		"a backend drops": {whole: rungs(9, 9, 9, 9, 5, 5, 5, 5), backends: map[string]Rungs{"a": rungs(-1, -1, 5, 5, 5, 5, 5, 5), "b": rungs(-1, -1, 4, 4, 0, 0, 0, 0)}, gaps: []Gap{
			{Name: "backend_drop", From: "tunnel_received", To: "named_requests", Lost: 4},
			{Name: "backend_drop", Backend: "b", From: "tunnel_received", To: "named_requests", Lost: 4}}},
		"more than was sent":           {whole: rungs(9, 9, 10, 10), wrong: []string{"ipvs_in 10 is more than director_received 9"}},
		"more, but the network copies": {whole: rungs(9, 9, 10, 10), spec: LadderSpec{Duplicates: true}},
		"a backend's contradiction":    {whole: rungs(-1, -1, 9), backends: map[string]Rungs{"a": rungs(-1, -1, 9, 9, 10)}, wrong: []string{"a: named_requests 10 is more than tunnel_received 9"}},
		"parts that do not add up":     {whole: rungs(-1, -1, 9), backends: map[string]Rungs{"a": rungs(-1, -1, 5), "b": rungs(-1, -1, 5)}, wrong: []string{"the backends' ipvs_in add up to 10, the whole is 9"}},
		"segments are not messages":    {whole: rungs(90, 90, 90, 90, 30, 30, 30, 29), spec: LadderSpec{TCP: true}, gaps: []Gap{{Name: "rejected_by_client", From: "client_received", To: "ok", Lost: 1}}},
		"nothing counted":              {},
	} {
		t.Run(name, func(t *testing.T) {
			gaps, wrong := Ladder(c.whole, c.backends, c.spec)
			var texts []string
			for _, w := range wrong {
				texts = append(texts, w.String())
			}
			if diff := cmp.Diff(c.gaps, gaps); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.wrong, texts); diff != "" {
				t.Error(diff)
			}
		})
	}
}
