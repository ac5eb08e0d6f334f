package artifact

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The columns are a promise to everybody who reads a result; they are those of
// the language's document, letter by letter.
const (
	wantRunsHeader = "run_id,experiment,treatment_id,block,order,prev_treatment,factor_scheduler,factor_one_packet,protocol,load_mode,started_at," +
		"queries_planned,queries_sent,answers_ok,answers_bad_rcode,answers_truncated,answers_wrong_source,answers_late,answers_duplicate,unanswered," +
		"batch_s,resolved_s,qps,latency_p50_s,latency_p95_s,latency_p99_s,client_tx_ip_bytes,client_rx_ip_bytes,mbps_client_l2_both,source_ports," +
		"ipvs_conns_delta,conn_rows_after,decisions,jain_weighted,jain_bound,dnsperf_run_s,dnsperf_completed,precondition_failures,outcome_flags,valid," +
		"replay,replay_limits,replay_rows,replay_rows_differ,kernel_differs,kernel,start_spread_s"
	wantBackendsHeader = "run_id,backend,address,position,weight,ipvs_conns_delta,ipvs_in_packets,ipvs_in_bytes,tunnel_rx_packets,named_requests," +
		"answers_ok,share_ipvs,share_answers_ok,planned_decisions,replayed_decisions,replayed_packets"
)

func encodeTable[T any](columns []column[T], rows []T) ([]byte, error) {
	out, err := encodeRow(header(columns))
	for i := range rows {
		if err != nil {
			return nil, err
		}
		var c []string
		if c, err = cells(columns, &rows[i]); err == nil {
			var line []byte
			line, err = encodeRow(c)
			out = append(out, line...)
		}
	}
	return out, err
}

func TestHeaders(t *testing.T) {
	if got := strings.Join(header(runColumnsWith([]string{"scheduler", "one_packet"})), ","); got != wantRunsHeader {
		t.Errorf("runs.csv:\n%s", cmp.Diff(wantRunsHeader, got))
	}
	if got := strings.Join(header(backendColumns), ","); got != wantBackendsHeader {
		t.Errorf("backends.csv:\n%s", cmp.Diff(wantBackendsHeader, got))
	}
}

func TestRowAsWritten(t *testing.T) {
	run, rows := sampleRun(1, "rr")
	run.PreconditionFailures = []string{"table not empty; 3 rows\nleft", "second"}
	run.OutcomeFlags = []string{"backend_drop", "not_scheduled"}
	run.LatencyP95 = nil
	run.Replay, run.ReplayRows, run.ReplayRowsDiffer, run.Kernel = "packets", ptr(1), ptr(0), "6.1.0"
	run.StartSpreadS = ptr(0.0025)
	got, err := encodeTable(runColumnsWith([]string{"scheduler", "one_packet"}), []Run{run})
	must(t, err)
	want := wantRunsHeader + "\n" +
		`01-01-rr,schedulers,"scheduler=rr,one_packet=false",1,1,,rr,false,udp,dnsperf,2026-12-02T10:00:01.123456Z,` +
		`1000,1000,1000,0,0,0,0,0,0,0.814192,0.814192,1228.211,0.061000,,,61000,93000,1.752000,1,1,1,1,0.333333,,0.800000,1000,` +
		`"table not empty, 3 rows left;second",backend_drop;not_scheduled,true,packets,,1,0,,6.1.0,0.002500` + "\n"
	if string(got) != want {
		t.Errorf("runs.csv:\n%s", cmp.Diff(want, string(got)))
	}
	got, err = encodeTable(backendColumns, rows[:1])
	must(t, err)
	want = wantBackendsHeader + "\n01-01-rr,backend.ns[0],198.18.0.30,0,1,1,1000,61000,1000,1000,1000,1.000000,1.000000,,,\n"
	if string(got) != want {
		t.Errorf("backends.csv:\n%s", cmp.Diff(want, string(got)))
	}
}

func TestRoundTrip(t *testing.T) {
	// Text with everything that CSV must quote, numbers with as many places as
	// a table keeps.
	word := rapid.StringMatching(`[a-z ,"=\[\]ü/-]{1,12}`).Filter(func(s string) bool { return strings.TrimSpace(s) == s })
	seconds := rapid.Custom(func(t *rapid.T) *float64 {
		if rapid.Bool().Draw(t, "nil") {
			return nil
		}
		return ptr(float64(rapid.IntRange(-1e9, 1e9).Draw(t, "µ")) / 1e6)
	})
	rapid.Check(t, func(t *rapid.T) {
		run, rows := sampleRun(rapid.IntRange(1, 99).Draw(t, "order"), "rr")
		run.TreatmentID, run.PrevTreatment = word.Draw(t, "treatment"), word.Draw(t, "prev")
		run.BatchS, run.LatencyP99, run.JainBound = seconds.Draw(t, "batch"), seconds.Draw(t, "p99"), seconds.Draw(t, "bound")
		run.QPS = nil
		run.Decisions = rapid.Ptr(rapid.Int(), true).Draw(t, "decisions")
		run.Factors = map[string]string{"scheduler": word.Draw(t, "scheduler")}
		run.OutcomeFlags = rapid.SliceOfN(word, 1, 3).Draw(t, "flags")
		run.StartedAt = time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "at")).UTC()
		run.Valid = rapid.Bool().Draw(t, "valid")
		rows[0].TunnelRxPackets = rapid.Ptr(rapid.Int64(), true).Draw(t, "tunnel")
		run.Replay, run.KernelDiffers = word.Draw(t, "replay"), word.Draw(t, "differs")
		rows[0].ReplayedDecisions = rapid.Ptr(rapid.Int(), true).Draw(t, "replayed")

		table, err := encodeTable(runColumnsWith([]string{"one_packet", "scheduler"}), []Run{run, run})
		if err != nil {
			t.Fatal(err)
		}
		got, factors, err := ReadRuns(bytes.NewReader(table))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]Run{run, run}, got); d != "" || !cmp.Equal(factors, []string{"one_packet", "scheduler"}) {
			t.Fatalf("factors %q\n%s", factors, d)
		}
		table, err = encodeTable(backendColumns, rows)
		if err != nil {
			t.Fatal(err)
		}
		gotRows, err := ReadBackends(bytes.NewReader(table))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(rows, gotRows); d != "" {
			t.Fatal(d)
		}
	})
}

func TestReadRefuses(t *testing.T) {
	run, _ := sampleRun(1, "rr")
	good, err := encodeTable(runColumnsWith(nil), []Run{{RunID: "a", Experiment: "e", TreatmentID: "t", Block: 1, Order: 1,
		Protocol: "udp", LoadMode: "dnsperf", StartedAt: run.StartedAt, Valid: true}})
	must(t, err)
	cases := []struct{ name, table, want string }{
		{"nothing", "", "no header line"},
		{"missing column", strings.Replace(string(good), ",valid,", ",", 1), "column valid is missing"},
		{"unknown column", strings.Replace(string(good), "answers_ok", "answers_okay", 1), "column answers_okay is not one of schema version 1"},
		{"double column", strings.Replace(string(good), "answers_ok", "block", 1), "column block stands there twice"},
		{"swapped columns", strings.Replace(string(good), "block,order", "order,block", 1), "not in the order"},
		{"bad number", strings.Replace(string(good), "t,1,1", "t,one,1", 1), `line 2: column block: strconv.Atoi: parsing "one"`},
		{"empty number", strings.Replace(string(good), "t,1,1", "t,,1", 1), "column block: empty, but it always has a value"},
		{"bad bool", strings.Replace(string(good), ",true,", ",yes,", 1), `column valid: "yes" is neither true nor false`},
		{"field too many", string(good) + "a,b\n", "wrong number of fields"},
	}
	for _, c := range cases {
		_, _, err := ReadRuns(strings.NewReader(c.table))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	for _, v := range []string{"NaN", "+Inf"} {
		b := strings.Replace(wantBackendsHeader+"\nr,b,a,0,1,1,1,1,,1,1,X,,,,\n", "X", v, 1)
		if _, err := ReadBackends(strings.NewReader(b)); err == nil {
			t.Errorf("a share of %s was read", v)
		}
	}
}

// TestColumnsAddedLater: a result that was made before a column was added is read
// without it, and no other column may be missing.
func TestColumnsAddedLater(t *testing.T) {
	_, rows := sampleRun(1, "rr")
	rows[0].ReplayedPackets = ptr(7)
	table, err := encodeTable(backendColumns[:len(backendColumns)-1], rows)
	must(t, err)
	got, err := ReadBackends(bytes.NewReader(table))
	must(t, err)
	rows[0].ReplayedPackets = nil
	if d := cmp.Diff(rows, got); d != "" {
		t.Error(d)
	}
	table, err = encodeTable(backendColumns[:len(backendColumns)-2], rows)
	must(t, err)
	if _, err := ReadBackends(bytes.NewReader(table)); err == nil || !strings.Contains(err.Error(), "column replayed_decisions is missing") {
		t.Errorf("without replayed_decisions: %v", err)
	}
}

func TestTornTable(t *testing.T) {
	_, rows := sampleRun(1, "rr")
	whole, err := encodeTable(backendColumns, rows)
	must(t, err)
	for cut := 1; cut < 20; cut++ {
		got, err := ReadBackends(bytes.NewReader(whole[:len(whole)-cut]))
		if !errors.Is(err, ErrTorn) || len(got) != 1 {
			t.Fatalf("%d bytes short: %d rows, %v", cut, len(got), err)
		}
	}
}

func FuzzReadRuns(f *testing.F) {
	run, _ := sampleRun(1, "rr")
	good, err := encodeTable(runColumnsWith([]string{"scheduler", "one_packet"}), []Run{run})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(good), string(good[:len(good)-3]), "", "\n", "\"", strings.ReplaceAll(string(good), "\n", "\r\n")} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, factors, err := ReadRuns(bytes.NewReader(data))
		if err != nil {
			return
		}
		once, err := encodeTable(runColumnsWith(factors), rows)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, _, err := ReadRuns(bytes.NewReader(once))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, once)
		}
		twice, err := encodeTable(runColumnsWith(factors), again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("not stable (%v):\n%s\n%s", err, once, twice)
		}
	})
}

func FuzzReadBackends(f *testing.F) {
	_, rows := sampleRun(1, "rr")
	good, err := encodeTable(backendColumns, rows)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte(wantBackendsHeader + "\n,,,,,,,,,,,,,,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := ReadBackends(bytes.NewReader(data))
		if err != nil {
			return
		}
		once, err := encodeTable(backendColumns, rows)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err := ReadBackends(bytes.NewReader(once)); err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, once)
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	good, err := Manifest{SchemaVersion: 1, Lab: "a", Files: map[string]string{"runs.csv": "00"}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"schema_version":2}`))
	f.Add([]byte(`{"schema_version":1,"files":{"../x":""}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data)
		if err != nil {
			return
		}
		b, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseManifest(b); err != nil || !cmp.Equal(m, again, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })) {
			t.Fatalf("%v\n%s", err, b)
		}
	})
}
