package reproduce

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/golden"
)

// sealed is a result of the paper's topology: runs by experiment, scheduler, ports
// and decisions of three backends.
type sealed struct {
	runs []artifact.Run
	rows []artifact.BackendRow
}

func (s *sealed) add(experiment, scheduler string, blocks, ports, queries int, decisions ...int) {
	total := 0
	for _, d := range decisions {
		total += d
	}
	for block := 1; block <= blocks; block++ {
		id := fmt.Sprintf("%s-%03d-%s", experiment, len(s.runs), scheduler)
		batch, mbps := 1+float64(len(s.runs)%7)/1000, 1.75
		s.runs = append(s.runs, artifact.Run{RunID: id, Experiment: experiment, TreatmentID: "scheduler=" + scheduler, Block: block, Order: len(s.runs) + 1, Protocol: "udp", LoadMode: "dnsperf",
			Factors: map[string]string{"scheduler": scheduler}, StartedAt: time.Unix(1700000000, 0).UTC(), QueriesPlanned: queries, QueriesSent: queries, AnswersOK: queries,
			BatchS: &batch, MbpsClientL2Both: &mbps, SourcePorts: ports, Decisions: &total, Valid: true})
		for i, d := range decisions {
			s.rows = append(s.rows, artifact.BackendRow{RunID: id, Backend: fmt.Sprintf("backend.ns[%d]", i), Address: "198.18.0.30", Position: i,
				IPVSConnsDelta: int64(d), AnswersOK: queries * d / total})
		}
	}
}

func (s *sealed) open(t *testing.T) *artifact.Artifact {
	t.Helper()
	w, err := artifact.Create(t.TempDir(), "triac-2026", "20000101T000000Z-0000", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.SetFactors([]string{"scheduler"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.runs {
		var rows []artifact.BackendRow
		for _, b := range s.rows {
			if b.RunID == r.RunID {
				rows = append(rows, b)
			}
		}
		if _, err := w.StartRun(r.RunID); err != nil {
			t.Fatal(err)
		}
		if err := w.AddRun(r, rows); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := w.Finalise(t.Context(), artifact.Manifest{Accelerator: "tcg", Versions: artifact.Versions{GuestKernel: "6.1.0"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := artifact.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// asMeasured is what the kernel does with the paper's protocol.
func asMeasured() *sealed {
	s := &sealed{}
	for _, name := range []string{"nq", "sed", "sh", "lblcr", "lblc", "wlc", "lc", "wrr", "rr"} {
		s.add(published, name, 5, 1, 1000, 1, 0, 0)
	}
	s.add(published, "dh", 5, 1, 1000, 0, 0, 1)
	s.add(ports, "rr", 3, 20, 300, 7, 7, 6)
	s.add(ports, "sed", 3, 20, 300, 20, 0, 0)
	s.add(ports, "nq", 3, 20, 300, 20, 0, 0)
	for _, name := range []string{"rr", "sed", "nq"} {
		s.add(tcp, name, 3, 30, 300, 10, 10, 10)
	}
	return s
}

func (r Reproduction) ids() string {
	var ids []string
	for _, f := range r.Findings {
		ids = append(ids, f.ID)
	}
	return strings.Join(ids, " ")
}

func TestTable(t *testing.T) {
	r, err := Of(asMeasured().open(t))
	if err != nil {
		t.Fatal(err)
	}
	r.Dir = "results/triac-2026/latest"
	golden.Check(t, "table.txt", r.Text()+"\n")
	if want := "one-decision one-backend confounded ports-are-not-enough tcp-is-active times few-blocks"; r.ids() != want {
		t.Errorf("findings %s", r.ids())
	}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"published":{"batch_s":1.006,"mbps":1.752}`) {
		t.Errorf("as data: %v %s", err, b)
	}
}

// TestOtherCounts: a sentence that the counts do not carry is not said.
func TestOtherCounts(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sealed)
		not    string
	}{
		"a run with two ports":        {func(s *sealed) { s.runs[3].SourcePorts = 2 }, "one-decision"},
		"decisions unknown":           {func(s *sealed) { s.runs[3].Decisions = nil }, "one-decision"},
		"rr spreads":                  {func(s *sealed) { s.add(published, "rr", 1, 2, 1000, 1, 1, 0) }, "one-backend"},
		"another beside dh":           {func(s *sealed) { s.add(published, "mh", 5, 1, 1000, 0, 0, 1) }, "confounded"},
		"sed spreads with many ports": {func(s *sealed) { s.add(ports, "sed", 1, 20, 300, 7, 7, 6) }, "ports-are-not-enough"},
		"rr does not":                 {func(s *sealed) { s.runs, s.rows = only(s, published, tcp); s.add(ports, "rr", 1, 20, 300, 20, 0, 0) }, "ports-are-not-enough"},
		"no study with ports":         {func(s *sealed) { s.runs, s.rows = only(s, published, tcp) }, "ports-are-not-enough"},
		"no study over tcp":           {func(s *sealed) { s.runs, s.rows = only(s, published, ports) }, "tcp-is-active"},
		"many blocks": {func(s *sealed) {
			*s = sealed{}
			s.add(published, "rr", 20, 1, 10, 1, 0, 0)
			s.add(published, "lc", 20, 1, 10, 1, 0, 0)
		}, "few-blocks"},
	} {
		s := asMeasured()
		c.change(s)
		r, err := Of(s.open(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.Contains(" "+r.ids()+" ", " "+c.not+" ") {
			t.Errorf("%s: still %s", name, c.not)
		}
	}
	s := &sealed{}
	s.add("other", "rr", 1, 1, 10, 1, 0, 0)
	if _, err := Of(s.open(t)); err == nil || !strings.Contains(err.Error(), `experiment "published"`) {
		t.Errorf("another study: %v", err)
	}
}

func TestNoMeanOfTheAnswered(t *testing.T) {
	s := asMeasured()
	s.runs[0].BatchS, s.runs[0].MbpsClientL2Both = nil, nil // nq: something went unanswered
	r, err := Of(s.open(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if (row.BatchS == nil) != (row.Scheduler == "nq") || (row.Mbps == nil) != (row.Scheduler == "nq") {
			t.Errorf("%s: %v %v", row.Scheduler, row.BatchS, row.Mbps)
		}
	}
}

// only keeps the runs of some experiments.
func only(s *sealed, names ...string) (runs []artifact.Run, rows []artifact.BackendRow) {
	for _, r := range s.runs {
		for _, n := range names {
			if r.Experiment == n {
				runs = append(runs, r)
			}
		}
	}
	return runs, s.rows
}
