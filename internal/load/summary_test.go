package load

import (
	"bytes"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/lang"
)

// run makes queries of one client, one a millisecond, with these outcomes.
func run(outcomes ...Outcome) []Query {
	var out []Query
	for i, o := range outcomes {
		q := Query{N: i + 1, Time: start.Add(time.Duration(i) * ms), Client: client, Port: uint16(40000 + i%2), VIP: vip, Protocol: "udp",
			ID: uint16(i), Name: host0, Type: "A", NextHop: "director.lb", Outcome: o, QueryBytes: 60}
		if o != Unanswered {
			q.Latency, q.Source, q.Backend, q.Rcode, q.AnswerBytes = time.Duration(i+1)*ms, vip, "backend.ns[0]", "NOERROR", 76
		}
		if o == Late {
			q.Latency = 6 * time.Second
		}
		out = append(out, q)
	}
	return out
}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-12 {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestSummarise(t *testing.T) {
	s := Summarise(run(OK, OK, BadRcode, Truncated, WrongData), 5*time.Second)
	if s.Sent != 5 || s.AnswersOK != 2 || s.AnswersBadRcode != 1 || s.AnswersTruncated != 1 || s.AnswersWrongData != 1 || s.SourcePorts != 2 || s.Backends["backend.ns[0]"] != 2 {
		t.Errorf("%+v", s)
	}
	near(t, "batch", s.BatchS, 0.009) // 4 ms after the start, 5 ms of latency
	near(t, "resolved", s.ResolvedS, 0.009)
	near(t, "p50", s.LatencyP50, 0.001)
	near(t, "p99", s.LatencyP99, 0.002)
}

func TestSummariseWithoutAnAnswerThereIsNoBatch(t *testing.T) {
	for _, o := range []Outcome{Unanswered, Late, WrongSource} {
		s := Summarise(run(OK, o), 5*time.Second)
		if s.BatchS != nil {
			t.Errorf("%s: batch %v", o, *s.BatchS)
		}
		near(t, string(o), s.ResolvedS, 5.001)
	}
	s := Summarise(nil, time.Second)
	if s.BatchS != nil || s.ResolvedS != nil || s.LatencyP50 != nil || s.Sent != 0 {
		t.Errorf("of nothing: %+v", s)
	}
}

func TestSummariseClientsByTheirOwnClocks(t *testing.T) {
	other := run(OK, OK)
	for i := range other {
		other[i].Client = client.Next()
		other[i].Time = other[i].Time.Add(time.Hour) // a clock that is wrong
	}
	s := Summarise(append(run(OK, OK, OK), other...), 5*time.Second)
	near(t, "batch", s.BatchS, 0.005)
	if s.SourcePorts != 4 || len(s.Flows) != 4 {
		t.Errorf("%d ports, %d flows", s.SourcePorts, len(s.Flows))
	}
}

func TestFlowsInOrderOfFirstPackets(t *testing.T) {
	qs := run(Unanswered, OK, OK)
	got := Summarise(qs, time.Second).Flows
	want := []Flow{
		{Client: netip.AddrPortFrom(client, 40000), VIP: vip, First: start, Queries: 2, Backend: "backend.ns[0]"},
		{Client: netip.AddrPortFrom(client, 40001), VIP: vip, First: start.Add(ms), Queries: 1, Backend: "backend.ns[0]"},
	}
	if diff := cmp.Diff(want, got, byValue); diff != "" {
		t.Error(diff)
	}
}

func TestMergeNumbersAnew(t *testing.T) {
	a, b := run(OK, OK), run(OK)
	b[0].Time = start.Add(ms / 2)
	m := Merge(Matched{Queries: a, Traffic: Traffic{TxPackets: 2}, ICMP: []ICMPCount{{Type: 3, Code: 3, From: vip, Count: 1}}},
		Matched{Queries: b, Traffic: Traffic{TxPackets: 1}, ICMP: []ICMPCount{{Type: 3, Code: 3, From: vip, Count: 4}}, Unmatched: 2})
	if len(m.Queries) != 3 || m.Queries[1].Time != b[0].Time || m.Queries[2].N != 3 || m.Traffic.TxPackets != 3 || m.ICMP[0].Count != 5 || m.Unmatched != 2 {
		t.Errorf("%+v", m)
	}
}

// Everything can be computed again from queries.csv.
func TestQueriesSurviveCSV(t *testing.T) {
	outcomes := []Outcome{OK, BadRcode, Truncated, WrongData, WrongSource, Late, Unanswered}
	rapid.Check(t, func(r *rapid.T) {
		qs := run(rapid.SliceOf(rapid.SampledFrom(outcomes)).Draw(r, "outcomes")...)
		for i := range qs {
			q := &qs[i]
			q.Time = q.Time.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(r, "time")))
			q.Name = rapid.SampledFrom([]string{host0, `a\,b."x".`, "ä.", ""}).Draw(r, "name")
			if q.Source.IsValid() {
				q.Latency = time.Duration(rapid.Int64Range(-1000, 1e11).Draw(r, "latency"))
				q.Backend = rapid.SampledFrom([]string{"backend.ns[0]", `backend.x["a,b"]`, backendMAC(2)}).Draw(r, "backend")
			}
			q.Duplicates = rapid.IntRange(0, 3).Draw(r, "duplicates")
		}
		var buf bytes.Buffer
		if err := WriteQueries(&buf, qs); err != nil {
			r.Fatal(err)
		}
		got, err := ReadQueries(&buf)
		if err != nil {
			r.Fatal(err)
		}
		if len(qs) == 0 {
			qs = nil
		}
		if diff := cmp.Diff(qs, got, byValue); diff != "" {
			r.Fatal(diff)
		}
		if diff := cmp.Diff(Summarise(qs, time.Second), Summarise(got, time.Second), byValue); diff != "" {
			r.Fatal(diff)
		}
	})
}

func TestReadQueriesNamesTheLine(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteQueries(&buf, run(OK, OK)); err != nil {
		t.Fatal(err)
	}
	whole := buf.String()
	for name, c := range map[string]struct{ broken, want string }{
		"outcome": {strings.Replace(whole, ",ok,", ",fine,", 1), `line 2: outcome "fine"`},
		"port":    {strings.Replace(whole, ",40001,", ",70000,", 1), `line 3: port "70000"`},
		"columns": {strings.Replace(whole, "latency_s", "latency", 1), "the columns are"},
		"nothing": {"", "queries.csv"},
		"latency": {strings.Replace(whole, "0.001000000", "NaN", 1), `line 2: latency_s "NaN"`},
	} {
		if _, err := ReadQueries(strings.NewReader(c.broken)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzReadQueries(f *testing.F) {
	var buf bytes.Buffer
	if err := WriteQueries(&buf, run(OK, Late, Unanswered)); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.String())
	f.Fuzz(func(t *testing.T, s string) {
		qs, err := ReadQueries(strings.NewReader(s))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteQueries(&out, qs); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadQueries(&out); err != nil || len(again) != len(qs) {
			t.Errorf("%d rows become %d, %v", len(qs), len(again), err)
		}
	})
}

func TestQuestions(t *testing.T) {
	qs := QueryNames(append(zones, lang.Zone{Name: "Other.Test", Records: []lang.Record{{Name: "a.b", Type: "aaaa", Values: []string{"2001:db8::1"}}, {Name: "a.b", Type: "AAAA", Values: []string{"2001:db8::2"}}}}))
	want := []Question{{host0, "A"}, {"host1.lab.test.", "A"}, {"lab.test.", "TXT"}, {"www.lab.test.", "CNAME"}, {"a.b.other.test.", "AAAA"}}
	if diff := cmp.Diff(want, qs); diff != "" {
		t.Error(diff)
	}
	if got := string(QueryFile(qs[:2], 3)); got != "host0.lab.test. A\nhost1.lab.test. A\nhost0.lab.test. A\n" {
		t.Errorf("%q", got)
	}
	e, err := ExpectedAnswers(zones)
	if err != nil {
		t.Fatal(err)
	}
	wantData := Expected{{host0, "A"}: {"192.0.2.0"}, {"host1.lab.test.", "A"}: {"192.0.2.1", "192.0.2.2"}, {"lab.test.", "TXT"}: {`"Some Text"`}, {"www.lab.test.", "CNAME"}: {"host0.lab.test."}}
	if diff := cmp.Diff(wantData, e); diff != "" {
		t.Error(diff)
	}
	_, err = ExpectedAnswers([]lang.Zone{{Name: "lab.test", Records: []lang.Record{{Name: "x", Type: "A", Values: []string{"no address"}}}}})
	if err == nil || !strings.Contains(err.Error(), "record 0 (x)") {
		t.Errorf("%v", err)
	}
}
