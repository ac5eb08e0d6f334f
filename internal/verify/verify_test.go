package verify

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/report"
	"github.com/lvslab/lvslab/internal/verdict"
	"github.com/lvslab/lvslab/internal/verify/studytest"
)

func study(t *testing.T) *studytest.Study {
	t.Helper()
	s, err := studytest.Load()
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func seal(t *testing.T, s *studytest.Study) string {
	t.Helper()
	dir, err := s.Seal(t.TempDir())
	must(t, err)
	return dir
}

func examine(t *testing.T, dir string) Report {
	t.Helper()
	r, err := Result(context.Background(), dir)
	must(t, err)
	return r
}

func all(r Report) string {
	var out []string
	for _, c := range r.Checks {
		for _, p := range c.Problems {
			out = append(out, c.Name+": "+p.String())
		}
	}
	return strings.Join(out, "\n")
}

func TestWhatWasMeasuredFollows(t *testing.T) {
	r := examine(t, seal(t, study(t)))
	if !r.OK() || r.Problems() != 0 {
		t.Fatalf("problems:\n%s", all(r))
	}
	least := map[string]int{"files": 30, "plan": 4, "captures": 48, "outcomes": 60, "counters": 100, "validity": 4, "answers": 5}
	for _, c := range r.Checks {
		if c.Compared < least[c.Name] {
			t.Errorf("%s compared %d %s only", c.Name, c.Compared, c.Unit)
		}
		delete(least, c.Name)
	}
	if len(least) > 0 {
		t.Errorf("not checked: %v", least)
	}
}

// TestEveryFlippedByteIsNoticed changes one bit of one byte in every file of a
// result, the first, the middle and the last, one after another.
func TestEveryFlippedByteIsNoticed(t *testing.T) {
	dir := seal(t, study(t))
	files := 0
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		rel, _ := filepath.Rel(dir, path)
		for _, at := range []int{0, len(data) / 2, len(data) - 1} {
			bad := bytes.Clone(data)
			bad[at] ^= 1
			if err := os.WriteFile(path, bad, 0o644); err != nil {
				return err
			}
			r, err := Result(context.Background(), dir)
			if err == nil && r.OK() {
				t.Errorf("byte %d of %s was changed unnoticed", at, rel)
			}
			if err == nil && !strings.Contains(all(r), rel) && !strings.HasPrefix(rel, "manifest.") {
				t.Errorf("byte %d of %s: the file is not named in\n%s", at, rel, all(r))
			}
		}
		return os.WriteFile(path, data, 0o644)
	}))
	if files < 35 {
		t.Errorf("only %d files", files)
	}
	if r := examine(t, dir); !r.OK() {
		t.Errorf("mended, and yet:\n%s", all(r))
	}
}

// TestAnyFlippedBitIsNoticed changes any bit of any byte of any file.
func TestAnyFlippedBitIsNoticed(t *testing.T) {
	dir := seal(t, study(t))
	var files []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom(files).Draw(t, "file")
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			t.Fatalf("%s: %d bytes, %v", path, len(data), err)
		}
		at, bit := rapid.IntRange(0, len(data)-1).Draw(t, "byte"), rapid.IntRange(0, 7).Draw(t, "bit")
		bad := bytes.Clone(data)
		bad[at] ^= 1 << bit
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		problems, err := artifact.Verify(context.Background(), dir)
		if mended := os.WriteFile(path, data, 0o644); mended != nil {
			t.Fatal(mended)
		}
		if err == nil && len(problems) == 0 {
			t.Fatalf("bit %d of byte %d was changed unnoticed", bit, at)
		}
	})
}

// TestForgeries: results whose checksums are all right and whose numbers are not.
func TestForgeries(t *testing.T) {
	replace := func(s *studytest.Study, path, old, new string) {
		t.Helper()
		if !strings.Contains(string(s.Raw[path]), old) {
			t.Fatalf("%s has no %q", path, old)
		}
		s.Raw[path] = []byte(strings.Replace(string(s.Raw[path]), old, new, 1))
	}
	v := func(f float64) *float64 { return &f }
	cases := []struct {
		name string
		do   func(s *studytest.Study)
		want string
	}{
		{"answers made up", func(s *studytest.Study) { s.Runs[0].AnswersOK = 11; s.Runs[0].Unanswered = 1 },
			"outcomes: runs.csv, 01-01-rr: answers_ok is 11, the raw data gives 12"},
		{"a faster batch", func(s *studytest.Study) { s.Runs[1].BatchS = v(0.0102) },
			"outcomes: runs.csv, 01-02-dh: batch_s is 0.010200, the raw data gives 0.011200"},
		{"a latency where there is none", func(s *studytest.Study) { s.Runs[1].LatencyP99 = nil },
			"outcomes: runs.csv, 01-02-dh: latency_p99_s is empty, the raw data gives 0.000200"},
		{"a rate of one's own", func(s *studytest.Study) { s.Runs[1].MbpsClientL2Both = v(2) },
			"captures: runs.csv, 01-02-dh: mbps_client_l2_both is 2.000000, the raw data gives 1.525714"},
		{"dnsperf said otherwise", func(s *studytest.Study) { n := 13; s.Runs[0].DNSPerfCompleted = &n },
			"outcomes: runs.csv, 01-01-rr: dnsperf_completed is 13, the raw data gives 12"},
		{"another decision", func(s *studytest.Study) { n := 4; s.Runs[0].Decisions = &n },
			"counters: runs.csv, 01-01-rr: decisions is 4, the raw data gives 3"},
		{"a higher bound", func(s *studytest.Study) { s.Runs[0].JainBound = v(0.9) },
			"counters: runs.csv, 01-01-rr: jain_bound is 0.900000, the raw data gives 1.000000"},
		{"shares moved", func(s *studytest.Study) { s.Rows[0].ShareIPVS = v(0.5) }, "share_ipvs is 0.500000, the raw data gives"},
		{"packets moved", func(s *studytest.Study) { s.Rows[0].IPVSInPackets++ }, "ipvs_in_packets is"},
		{"a tunnel that received more", func(s *studytest.Study) { n := int64(77); s.Rows[0].TunnelRxPackets = &n }, "no device of the backend received so many"},
		{"a backend that IPVS does not list", func(s *studytest.Study) { s.Rows[0].Address = "198.18.0.99" }, "198.18.0.99 is no destination in ipvs.json"},
		{"queries and capture differ", func(s *studytest.Study) {
			replace(s, "raw/01-01-rr/queries.csv", ",ok,0.000200000,", ",ok,0.000100000,")
		},
			"captures: raw/01-01-rr/queries.csv, query 1: is"},
		{"a query left out", func(s *studytest.Study) {
			lines := strings.SplitAfter(string(s.Raw["raw/01-01-rr/queries.csv"]), "\n")
			s.Raw["raw/01-01-rr/queries.csv"] = []byte(strings.Join(lines[:12], ""))
		}, "captures: raw/01-01-rr/queries.csv: has 11 queries, the capture 12"},
		{"a row of the table hidden", func(s *studytest.Study) {
			lines := strings.SplitAfter(string(s.Raw["raw/01-01-rr/conns.csv"]), "\n")
			s.Raw["raw/01-01-rr/conns.csv"] = []byte(strings.Join(lines[:2], ""))
		}, "counters: runs.csv, 01-01-rr: conn_rows_after is 3, the raw data gives 1"},
		{"raw data gone", func(s *studytest.Study) { delete(s.Raw, "raw/02-03-dh/ipvs.json") }, "outcomes: raw/02-03-dh: the raw data cannot be read"},
		{"a restart of named kept silent", func(s *studytest.Study) {
			replace(s, "raw/01-01-rr/counters-after.json", `"rcodes": null`, `"rcodes": null, "started": "2026-12-01T10:01:00.000Z"`)
		}, "validity: runs.csv, 01-01-rr: outcome_flags lack counters_restarted: backend.ns[0]: another start of named"},
		{"another boot kept silent", func(s *studytest.Study) {
			replace(s, "raw/01-01-rr/counters-after.json", `"snmp": {`, `"boot": "b2", "snmp": {`)
		}, "outcome_flags lack counters_restarted: backend.ns[0]: another boot"},
		{"a clock that was set kept silent", func(s *studytest.Study) {
			for f, offset := range map[string]string{"before": "1000", "after": "9000000"} {
				replace(s, "raw/01-01-rr/counters-"+f+".json", `"client.c[0]": {`, `"client.c[0]": {"clock": {"offset_ns": `+offset+`, "within_ns": 500},`)
			}
		}, "outcome_flags lack clock_jumped: client.c[0]: by 8999000 ns"},
		{"a foreign report kept silent", func(s *studytest.Study) {
			replace(s, "raw/01-01-rr/dnsperf.txt", "Version 2.10.0", "Version 9.0")
		}, "outcome_flags lack report_unreadable: 1 reports"},
		{"raw data unreadable", func(s *studytest.Study) { s.Raw["raw/02-03-dh/ipvs.json"] = []byte("{") }, "outcomes: raw/02-03-dh: the raw data cannot be read"},
		{"capture unreadable", func(s *studytest.Study) {
			s.Raw["raw/02-03-dh/capture.pcap"] = []byte("not a capture, and long enough")
		}, "captures: raw/02-03-dh/: a capture cannot be read"},
		{"a run under another name", func(s *studytest.Study) { s.Runs[1].TreatmentID = "scheduler=wlc" },
			"plan: runs.csv, 01-02-dh: treatment_id is scheduler=wlc, planned was scheduler=dh"},
		{"a factor changed", func(s *studytest.Study) { s.Runs[1].Factors["scheduler"] = "wlc" }, "plan: runs.csv, 01-02-dh: factor_scheduler is wlc, planned was dh"},
		{"another order", func(s *studytest.Study) { s.Runs[0], s.Runs[1] = s.Runs[1], s.Runs[0] }, "plan: runs.csv, 01-01-rr: order 1 comes after 2"},
		{"another plan", func(s *studytest.Study) {
			s.Plan = bytes.Replace(s.Plan, []byte(`"study": "sample"`), []byte(`"study": "other"`), 1)
		},
			"plan: plan.json: is of study other, the manifest of sample"},
		{"a prediction afterwards", func(s *studytest.Study) { n := 1; s.Rows[0].PlannedDecisions = &n },
			"plan: backends.csv, 01-01-rr: planned_decisions of "},
		{"another replay", func(s *studytest.Study) { n := 2; s.Rows[0].ReplayedDecisions = &n },
			"model: backends.csv, 01-01-rr backend.ns[0]: replayed_decisions is 2, the raw data gives 1"},
		{"a kernel that obeys", func(s *studytest.Study) {
			replace(s, "raw/01-01-rr/counters-after.json", `"conns": 1,`, `"conns": 2,`)
		}, `model: runs.csv, 01-01-rr: kernel_differs is "", the raw data gives "`},
		{"a row that points elsewhere", func(s *studytest.Study) {
			replace(s, "raw/01-01-rr/conns.csv", ",198.18.0.30:53,UDP", ",198.18.0.31:53,UDP")
		}, "model: runs.csv, 01-01-rr: replay_rows_differ is 0, the raw data gives 1"},
		{"fewer rows compared", func(s *studytest.Study) { n := 2; s.Runs[0].ReplayRows = &n }, "replay_rows is 2, the raw data gives 3"},
		{"no word of the model", func(s *studytest.Study) { s.Runs[0].Replay = "none" }, `replay is "none", the raw data gives "packets"`},
		{"no plan", func(s *studytest.Study) { s.Plan = []byte("[]") }, "plan: plan.json: cannot be read"},
		{"invalid without a reason", func(s *studytest.Study) { s.Runs[0].Valid = false }, "validity: runs.csv, 01-01-rr: valid is false with outcome_flags []"},
		{"a loss that is none", func(s *studytest.Study) { s.Runs[0].OutcomeFlags = []string{"backend_drop"} }, "validity: runs.csv, 01-01-rr: outcome_flags name a loss"},
		{"a verdict of one's own", func(s *studytest.Study) {
			s.Summary = func(r *report.Summary) {
				v := &r.Experiments[0].Verdicts
				*v = append(*v, verdict.Verdict{ID: "time", Level: verdict.Finding, Title: "dh is fastest"})
			}
		}, `answers: summary.json, experiment schedulers: the verdict "time" does not follow`},
		{"a verdict made milder", func(s *studytest.Study) {
			s.Summary = func(r *report.Summary) {
				for i := range r.Experiments[0].Verdicts {
					if r.Experiments[0].Verdicts[i].ID == "time-refused" {
						r.Experiments[0].Verdicts[i].Level = verdict.Caution
					}
				}
			}
		}, `the verdict "time-refused" is a caution, the tables give a refusal`},
		{"a total of one's own", func(s *studytest.Study) {
			s.Summary = func(r *report.Summary) { r.Experiments[0].Totals.AnswersOK++ }
		}, "answers_ok is 49, the tables give 48"},
		{"a sentence of one's own", func(s *studytest.Study) {
			s.Summary = func(r *report.Summary) { r.Experiments[0].Verdicts[0].Text = "All is well." }
		}, "answers: summary.json: is not what follows from the tables"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // what takes time is waiting for the disk
			s := study(t)
			c.do(s)
			r := examine(t, seal(t, s))
			if r.OK() || !strings.Contains(all(r), c.want) {
				t.Errorf("want %q in\n%s", c.want, all(r))
			}
			if strings.Contains(all(r), "files:") {
				t.Errorf("the checksums of a forgery are right:\n%s", all(r))
			}
		})
	}
}

func TestAnotherVersionsWordsAreNotCompared(t *testing.T) {
	s := study(t)
	s.Manifest.Versions.Lvslab = "v0.0.1"
	s.Summary = func(r *report.Summary) { r.Experiments[0].Verdicts[0].Text = "In other words." }
	r := examine(t, seal(t, s))
	if !r.OK() {
		t.Errorf("problems:\n%s", all(r))
	}
	last := r.Checks[len(r.Checks)-1]
	if len(last.Notes) != 1 || !strings.Contains(last.Notes[0], "v0.0.1") {
		t.Errorf("notes %q", last.Notes)
	}
}

func TestNothingToExamine(t *testing.T) {
	var f *diag.Failure
	if _, err := Result(context.Background(), t.TempDir()); !errors.As(err, &f) || f.Diagnostic.Summary != "Not a result" {
		t.Errorf("an empty directory: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Result(ctx, seal(t, study(t))); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
