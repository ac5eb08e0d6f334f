package report

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
)

func TestScreen(t *testing.T) {
	for _, c := range []struct {
		name    string
		sockets int
		width   int
	}{{"screen-100.golden", 1, 100}, {"screen-60.golden", 1, 60}, {"screen-20-sockets.golden", 20, 100}} {
		text := NewScreen(Build(sample(c.sockets)), "results/lvs-tun-dns/20261202T100000Z-ab12").Wrap(c.width)
		golden.Check(t, c.name, text)
		for _, line := range strings.Split(text, "\n") {
			if utf8.RuneCountInString(line) > c.width && !strings.Contains(line, "results/") {
				t.Errorf("%s: longer than %d: %q", c.name, c.width, line)
			}
		}
	}
}

// What is to be done about two experiments alike is said once.
func TestNextIsSaidOnce(t *testing.T) {
	s := Build(sample(1))
	one := NewScreen(s, "results/x/latest").Next
	s.Experiments = append(s.Experiments, s.Experiments[0])
	if two := NewScreen(s, "results/x/latest").Next; len(one) == 0 || !slices.Equal(one, two) {
		t.Errorf("of one experiment %q, of two alike %q", one, two)
	}
}

func TestFiles(t *testing.T) {
	s, files, err := Files(sample(1))
	must(t, err)
	for _, name := range []string{"summary.json", "summary.md", "report.html", "junit.xml"} {
		golden.Check(t, name, string(files[name]))
	}
	if len(files) != 4 {
		t.Errorf("%d files", len(files))
	}
	if n := len(s.Experiments[0].Treatments); n != 10 {
		t.Errorf("%d treatments", n)
	}
	_, again, err := Files(sample(1))
	must(t, err)
	if d := cmp.Diff(files, again); d != "" {
		t.Errorf("the same rows gave another report:\n%s", d)
	}
}

func TestNumbersOfTheTable(t *testing.T) {
	in := sample(20)
	in.Runs[0].Valid = false // its answers must not count
	in.Runs[0].OutcomeFlags = []string{"capture_dropped"}
	s := Build(in)
	e := s.Experiments[0]
	if e.Totals.Runs != 50 || e.Totals.ValidRuns != 49 || e.Totals.AnswersOK != 49000 {
		t.Errorf("totals %+v", e.Totals)
	}
	for _, tr := range e.Treatments {
		want, excluded := 5, []Flag(nil)
		if tr.ID == in.Runs[0].TreatmentID {
			want, excluded = 4, []Flag{{"capture_dropped", 1}}
		}
		if d := cmp.Diff(excluded, tr.Excluded); d != "" || len(tr.Flags) != 0 {
			t.Errorf("%s: excluded %s, flags %v", tr.ID, d, tr.Flags)
		}
		if tr.ValidRuns != want || tr.Runs != 5 || tr.AnswersOK != 1000*want || len(tr.Points) != 5 {
			t.Errorf("%s: %+v", tr.ID, tr)
		}
	}
	rr := e.Treatments[0]
	want := []Share{{"backend.ns[0]", 0.35, 0.35, 0.35}, {"backend.ns[1]", 0.35, 0.35, 0.35}, {"backend.ns[2]", 0.3, 0.3, 0.3}}
	if d := cmp.Diff(want, rr.Shares); d != "" {
		t.Error(d)
	}
	if rr.BatchS.Median != 0.814192 || rr.BatchS.Min != 0.638661 || rr.BatchS.Max != 1.016422 || rr.Decisions.Min != 20 {
		t.Errorf("%+v %+v", rr.BatchS, rr.Decisions)
	}
}

func TestControlsAndUnplannedComeLast(t *testing.T) {
	in := sample(1)
	in.Runs[3].TreatmentID, in.Runs[3].Factors = "control=aa", nil
	in.Runs[4].TreatmentID, in.Runs[4].Factors = "scheduler=mh", map[string]string{"scheduler": "mh"}
	list := Build(in).Experiments[0].Treatments
	if got := list[len(list)-2].Label + " " + list[len(list)-1].Label; got != "mh control=aa" || !list[len(list)-1].Control {
		t.Errorf("last lines are %s", got)
	}
}

// Nothing may be loaded from elsewhere, nothing may run, and what users named
// must not become markup.
func TestHTMLIsSelfContained(t *testing.T) {
	in := sample(1)
	in.Description = `<script>alert("x")</script>`
	in.Runs[0].TreatmentID = `scheduler="><img src=x>`
	in.Runs[0].Factors = map[string]string{"scheduler": `"><img src=x>`}
	b, err := Build(in).HTML()
	must(t, err)
	page := string(b)
	for _, bad := range []string{"<script", "<img", "http://", "https://", "url(", "@import", "<link", "javascript:"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "#") && strings.Contains(m[1], ":") || strings.HasPrefix(m[1], "/") {
			t.Errorf("link to %q", m[1])
		}
	}
	// Well formed inside: every SVG is XML.
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("svg: %v\n%s", err, svg)
			}
		}
	}
	if n := strings.Count(page, "<svg"); n != 4 {
		t.Errorf("%d charts, want 4", n)
	}
}

func TestMarkdownTables(t *testing.T) {
	text := string(Build(sample(1)).Markdown())
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); n < 3 {
			t.Errorf("line of a table with %d bars: %s", n, line)
		}
	}
	if !strings.Contains(text, `dh \| got everything & more`) {
		t.Error("a bar in a message was not escaped")
	}
}

func TestNothingMeasured(t *testing.T) {
	in := sample(1)
	in.Runs, in.Backends, in.Checks = nil, nil, nil
	s, files, err := Files(in)
	must(t, err)
	if len(files) != 4 || s.Experiments[0].Verdicts[0].ID != "no-runs" {
		t.Errorf("%d files, %+v", len(files), s.Experiments[0].Verdicts)
	}
	if text := NewScreen(s, "d").Text(); !strings.Contains(text, "No runs") {
		t.Error(text)
	}
	in.Facts = nil
	if _, _, err := Files(in); err != nil {
		t.Error(err)
	}
}

func TestManyBackends(t *testing.T) {
	in := sample(1)
	for i := range in.Backends {
		b := in.Backends[i]
		if i%3 != 2 {
			continue
		}
		for n := 3; n < 9; n++ {
			b.Backend, b.Position, b.AnswersOK = "backend.ns["+string(rune('0'+n))+"]", n, 0
			in.Backends = append(in.Backends, b)
		}
	}
	tab := tableOf(Build(in).Experiments[0])
	if tab.Head[2] != "backends used" || tab.Rows[0][2] != "1" || tab.Rows[0][3] != "100 %" {
		t.Errorf("%q %q", tab.Head, tab.Rows[0])
	}
}

// A report made again from the sealed result is the one that was sealed.
func TestFromArtifact(t *testing.T) {
	in := sample(20)
	s, files, err := Files(in)
	must(t, err)
	w, err := artifact.Create(t.TempDir(), "lvs-tun-dns", "20261202T100000Z-ab12", nil)
	must(t, err)
	must(t, w.SetFactors([]string{"scheduler"}))
	rows := map[string][]artifact.BackendRow{}
	for _, b := range in.Backends {
		rows[b.RunID] = append(rows[b.RunID], b)
	}
	for _, r := range in.Runs {
		must(t, w.AddRun(r, rows[r.RunID]))
	}
	dir, err := w.Finalise(context.Background(), in.Manifest, files)
	must(t, err)
	a, err := artifact.Open(dir)
	must(t, err)
	again, err := FromArtifact(a)
	must(t, err)
	if d := cmp.Diff(texts(s), texts(Build(again))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(s.Experiments[0].Facts, again.Facts[0]); d != "" {
		t.Error(d)
	}
	must(t, os.WriteFile(filepath.Join(dir, artifact.SummaryJSONFile), []byte(`{"schema_version": 99}`), 0o644))
	var f *diag.Failure
	if _, err := FromArtifact(a); !errors.As(err, &f) || f.Diagnostic.Summary != "Summary of a newer lvslab" {
		t.Errorf("newer: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, artifact.SummaryJSONFile), []byte(`{`), 0o644))
	if _, err := FromArtifact(a); !errors.As(err, &f) || f.Diagnostic.Summary != "Summary cannot be read" {
		t.Errorf("broken: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, artifact.SummaryJSONFile)))
	bare, err := FromArtifact(a)
	must(t, err)
	if len(bare.Facts) != 1 || bare.Facts[0].Experiment != "schedulers" || bare.Facts[0].Factors[0] != "scheduler" {
		t.Errorf("without a summary: %+v", bare.Facts)
	}
}

func texts(s Summary) []string {
	var out []string
	for _, e := range s.Experiments {
		for _, v := range e.Verdicts {
			out = append(out, string(v.Level)+" "+v.Title+" "+v.Text)
		}
	}
	return out
}

func TestSummaryJSONReadsBack(t *testing.T) {
	s := Build(sample(1))
	b, err := s.JSON()
	must(t, err)
	var got Summary
	must(t, json.Unmarshal(b, &got))
	if d := cmp.Diff(s, got); d != "" {
		t.Error(d)
	}
}

func TestAxis(t *testing.T) {
	for _, c := range []struct {
		most      float64
		n         int
		top, step float64
	}{{1.686, 6, 2, 0.5}, {1, 5, 1, 0.2}, {0.0123, 6, 0.015, 0.005}, {97, 4, 100, 50}, {5, 5, 5, 1}} {
		top, step := axis(c.most, c.n)
		if diff := top - c.top; diff > 1e-9 || diff < -1e-9 || step != c.step {
			t.Errorf("axis(%v, %d) = %v, %v; want %v, %v", c.most, c.n, top, step, c.top, c.step)
		}
	}
	for step, want := range map[float64]string{0.5: "1.5", 0.02: "1.50", 50: "2"} {
		if got := tick(1.5, step); got != want {
			t.Errorf("tick(1.5, %v) = %s", step, got)
		}
	}
}

func TestWordsOfNumbers(t *testing.T) {
	for v, want := range map[float64]string{0.00123456: "0.00123", 0.0123456: "0.0123", 1.23456: "1.235", 123.456: "123.5"} {
		if got := seconds(v); got != want {
			t.Errorf("seconds(%v) = %s", v, got)
		}
	}
	if got := wholeText(&Range{1, 1000}) + wholeText(nil) + indexText(&Range{0.5, 1}); got != "1–1,000–0.500–1.000" {
		t.Error(got)
	}
	if got := runsText(Treatment{Runs: 5, ValidRuns: 4}); got != "4 of 5" {
		t.Error(got)
	}
}
