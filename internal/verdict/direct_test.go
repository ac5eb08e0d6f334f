package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/artifact"
)

// withDirect adds a run to each backend without LVS in each block.
func (s *scene) withDirect(ok func(backend, block int) int, batch func(backend, block int) float64) Input {
	in := s.build()
	in.Facts.Controls = &Controls{Direct: true}
	for block := 1; block <= s.Blocks; block++ {
		for b := range 3 {
			s.order++
			name := fmt.Sprintf("backend.ns[%d]", b)
			good, took := ok(b, block), batch(b, block)
			r := artifact.Run{RunID: fmt.Sprintf("%02d-%02d-direct-ns-%d", block, s.order, b), Experiment: s.Experiment, TreatmentID: artifact.DirectPrefix + name,
				Block: block, Order: s.order, Protocol: "udp", QueriesPlanned: s.queries, QueriesSent: s.queries, AnswersOK: good,
				Unanswered: s.queries - good, BatchS: &took, DNSPerfCompleted: ptr(good), Valid: true}
			if good < s.queries {
				r.BatchS, r.OutcomeFlags = nil, []string{"backend_drop"}
			}
			in.Runs = append(in.Runs, r)
			for i := range 3 {
				row := artifact.BackendRow{RunID: r.RunID, Backend: fmt.Sprintf("backend.ns[%d]", i), WithoutLVS: true}
				if i == b {
					row.NamedRequests, row.AnswersOK, row.ShareAnswersOK = int64(good), good, ptr(1.0)
				}
				in.Backends = append(in.Backends, row)
			}
		}
	}
	return in
}

func verdictOf(list []Verdict, id string) *Verdict {
	i := slices.IndexFunc(list, func(v Verdict) bool { return v.ID == id })
	if i < 0 {
		return nil
	}
	return &list[i]
}

func TestDirect(t *testing.T) {
	all := func(int, int) int { return 1000 }
	same := func(_, block int) float64 { return 0.5 + float64(block)/10 }
	cases := map[string]struct {
		change func(*scene, *Input)
		ok     func(backend, block int) int
		batch  func(backend, block int) float64
		want   string
		not    []string
		says   string
	}{
		"clean": {nil, all, same, "direct", []string{"backends-alike", "backends-differ", "losses", "counts-differ", "incomplete"}, "Without LVS 18,000 of 18,000 queries"},
		"a backend that loses": {nil, func(b, _ int) int { return 1000 - 5*(b%2) }, same,
			"direct-loses", []string{"direct", "losses"}, "ns[1] 5,970 of 6,000"},
		"lost through LVS": {func(_ *scene, in *Input) {
			in.Runs[0].AnswersOK, in.Runs[0].Unanswered, in.Runs[0].BatchS = 990, 10, nil
		}, all, same, "lost-through-lvs", []string{"direct", "direct-loses"}, "Through LVS it was 11,990 of 12,000"},
		"alike": {func(s *scene, in *Input) { in.Facts.Accelerator = "kvm" }, all, same, "backends-alike", []string{"backends-differ"}, "3 backends"},
		"one is slow": {func(s *scene, in *Input) { in.Facts.Accelerator = "kvm" }, all,
			func(b, block int) float64 { return 0.5 + float64(b)*0.2 + float64(block)/100 }, "backends-differ", []string{"backends-alike"}, "keeps to one of them"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene([]string{"rr", "wrr"}, 6).sockets20()
			in := s.withDirect(c.ok, c.batch)
			if c.change != nil {
				c.change(s, &in)
			}
			list := Judge(in)
			v := verdictOf(list, c.want)
			if v == nil || !strings.Contains(v.Text, c.says) {
				t.Errorf("no verdict %q that says %q in\n%s", c.want, c.says, render(list))
			}
			for _, id := range c.not {
				if verdictOf(list, id) != nil {
					t.Errorf("verdict %q in\n%s", id, render(list))
				}
			}
			if v := verdictOf(list, "controls"); v == nil || !strings.Contains(v.Text, "18 of 30 runs") {
				t.Errorf("controls: %+v", v)
			}
		})
	}
}
