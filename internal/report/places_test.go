package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/verdict"
)

// turned is the study with controls: in each block the list begins one place
// further on, rr is made twice, and each backend is asked without LVS.
func turned(sockets int) Input {
	in := sample(sockets)
	in.Facts[0].Controls = &verdict.Controls{AA: true, Rotate: true, Direct: true}
	block := map[string]int{}
	for _, r := range in.Runs {
		block[r.RunID] = r.Block
	}
	for i := range in.Backends {
		b := &in.Backends[i]
		b.Backend = fmt.Sprintf("backend.ns[%d]", (b.Position+block[b.RunID]-1)%3)
	}
	runs, rows := in.Runs, in.Backends
	for i, r := range runs {
		if r.TreatmentID != "scheduler=rr" {
			continue
		}
		mine := rows[3*i : 3*i+3]
		in.copy(r, mine, "control=aa", "aa", func(*artifact.BackendRow) {})
		for n := range 3 {
			who := fmt.Sprintf("backend.ns[%d]", n)
			in.copy(r, mine, artifact.DirectPrefix+who, fmt.Sprintf("direct-%d", n), func(b *artifact.BackendRow) {
				*b = artifact.BackendRow{RunID: b.RunID, Backend: b.Backend, WithoutLVS: true, ShareAnswersOK: ptr(0.0)}
				if b.Backend == who {
					b.AnswersOK, b.NamedRequests, b.ShareAnswersOK = 1000, 1000, ptr(1.0)
				}
			})
		}
	}
	return in
}

// copy adds a run like r under another treatment.
func (in *Input) copy(r artifact.Run, rows []artifact.BackendRow, treatment, slug string, change func(*artifact.BackendRow)) {
	r.TreatmentID, r.Order = treatment, len(in.Runs)+1
	r.RunID = fmt.Sprintf("%02d-%02d-%s", r.Block, r.Order, slug)
	if r.PastLVS() {
		r.Decisions, r.JainWeighted, r.Factors, r.IPVSConnsDelta, r.ConnRowsAfter = nil, nil, nil, 0, 0
	}
	in.Runs = append(in.Runs, r)
	for _, b := range rows {
		b.RunID = r.RunID
		change(&b)
		in.Backends = append(in.Backends, b)
	}
}

func TestSharesByPlaceOfTheList(t *testing.T) {
	s := Build(turned(1))
	golden.Check(t, "screen-turned.golden", NewScreen(s, "results/lvs-tun-dns/latest").Wrap(100))
	e := s.Experiments[0]
	wantLists := []verdict.List{
		{Backends: []string{"backend.ns[0]", "backend.ns[1]", "backend.ns[2]"}, Blocks: []int{1, 4}},
		{Backends: []string{"backend.ns[1]", "backend.ns[2]", "backend.ns[0]"}, Blocks: []int{2, 5}},
		{Backends: []string{"backend.ns[2]", "backend.ns[0]", "backend.ns[1]"}, Blocks: []int{3}},
	}
	if d := cmp.Diff(wantLists, e.Lists); d != "" {
		t.Error(d)
	}
	for _, tr := range e.Treatments {
		want := []PlaceShare{{0, 1, 1, 1}, {1, 0, 0, 0}, {2, 0, 0, 0}}
		switch {
		case tr.Label == "dh":
			want = []PlaceShare{{0, 0, 0, 0}, {1, 0, 0, 0}, {2, 1, 1, 1}}
		case strings.HasSuffix(tr.Label, "without LVS"):
			want = nil
		}
		if d := cmp.Diff(want, tr.Places); d != "" {
			t.Errorf("%s: %s", tr.Label, d)
		}
	}
	var labels []string
	for _, tr := range e.Treatments[10:] {
		labels = append(labels, tr.Label)
	}
	if d := cmp.Diff([]string{"rr again (A/A)", "ns[0] without LVS", "ns[1] without LVS", "ns[2] without LVS"}, labels); d != "" {
		t.Error(d)
	}
	html, err := s.HTML()
	must(t, err)
	page := string(html)
	for _, want := range []string{`<th class="n">head</th>`, `>head 100 %</text>`, "The list, head first, was ns[0], ns[1], ns[2] in blocks 1 and 4;", "Decisions for head : 2nd : 3rd",
		`<td>dh</td><td class="n">0 : 0 : 5</td><td class="n">0 : 0 : 5</td>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for name, text := range map[string]string{"page": page, "summary": string(s.Markdown())} {
		if strings.Contains(text, "0 %–100 %") {
			t.Errorf("the %s has a share of everything and nothing", name)
		}
	}
}

// A list that is the same in all blocks is read by name, whatever was asked for.
func TestSharesByNameWithoutTurning(t *testing.T) {
	in := sample(1)
	in.Facts[0].Controls = &verdict.Controls{Rotate: true}
	e := Build(in).Experiments[0]
	if e.byPlace() || e.Treatments[0].Places != nil || tableOf(e).Head[2] != "ns[0]" {
		t.Errorf("%v %v", e.Lists, tableOf(e).Head)
	}
}

// With many backends the number that was used and the largest share are those of
// places, too.
func TestExtentByPlace(t *testing.T) {
	e := Build(turned(20)).Experiments[0]
	for _, tr := range e.Treatments {
		want := "1 100 %"
		switch tr.Label {
		case "rr", "wrr", "lc", "wlc", "rr again (A/A)":
			want = "3 35 %"
		}
		if got := strings.Join(e.extent(tr), " "); got != want {
			t.Errorf("%s: %s, want %s", tr.Label, got, want)
		}
	}
}

// What follows a backend round the list is read by its name: by place it would be
// a share of everything between.
func TestSharesThatFollowABackend(t *testing.T) {
	in := turned(20)
	for i := range in.Backends {
		b := &in.Backends[i]
		if b.WithoutLVS {
			continue
		}
		b.AnswersOK = 400
		if b.Backend == "backend.ns[1]" {
			b.AnswersOK = 200
		}
	}
	e := Build(in).Experiments[0]
	if len(e.Lists) != 3 || e.byPlace() || e.whoWasWhere() != "" {
		t.Errorf("lists %v, by place %v", e.Lists, e.byPlace())
	}
	if got := tableOf(e); strings.Join(got.Head[2:5], " ") != "ns[0] ns[1] ns[2]" || strings.Join(got.Rows[0][2:5], " ") != "40 % 20 % 40 %" {
		t.Errorf("%q %q", got.Head, got.Rows[0])
	}
}
