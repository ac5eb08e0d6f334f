package load

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func report(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "reports", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseReport(t *testing.T) {
	for name, want := range map[string]Report{
		"udp-2.10.txt": {Version: "2.10.0", Sent: 200, Completed: 200, Rcodes: map[string]int{"NOERROR": 190, "SERVFAIL": 10}, RequestBytes: 29, ResponseBytes: 45,
			RunTime: 0.187869, QPS: 1064.571590, Latency: &ReportLatency{0.013620, 0.000929, 0.031788, 0.007112}, Reason: "end of file"},
		"lost-time-2.10.txt": {Version: "2.10.0", Sent: 200, Completed: 200, Rcodes: map[string]int{"NOERROR": 190, "SERVFAIL": 10}, RequestBytes: 29, ResponseBytes: 45,
			RunTime: 0.187869, QPS: 1064.571590, Reason: "end of file"},
		"lost-2.10.txt": {Version: "2.10.0", Sent: 10, Lost: 10, Rcodes: map[string]int{}, RequestBytes: 29, RunTime: 0.016164, Reason: "end of file"},
		"nominum-2.1.txt": {Version: "2.1.0.0", Sent: 1, Completed: 1, Rcodes: map[string]int{"NXDOMAIN": 1}, RequestBytes: 29, ResponseBytes: 45,
			RunTime: 1, QPS: 1, Latency: &ReportLatency{0.013620, 0.013620, 0.013620, 0}, Reason: "time limit"},
		"updates-interrupted-2.9.txt": {Version: "2.9.0", Updates: true, Sent: 50, Completed: 40, Lost: 3, Interrupted: 7, Rcodes: map[string]int{"REFUSED": 40}, RequestBytes: 60, ResponseBytes: 60,
			RunTime: 2.5, QPS: 16, Latency: &ReportLatency{0.1, 0.05, 0.2, 0.01}, Reason: "interruption"},
		"tcp-2.10.txt": {Version: "2.10.0", Sent: 300, Completed: 300, Rcodes: map[string]int{"NOERROR": 300}, RequestBytes: 29, ResponseBytes: 45,
			RunTime: 0.4, QPS: 750, Latency: &ReportLatency{0.03, 0.01, 0.05, 0.002}, Reason: "end of file", Reconnections: 3},
		"intervals-2.14.txt": {Version: "2.14.0", Sent: 1000, Completed: 1000, Rcodes: map[string]int{"NOERROR": 1000}, RequestBytes: 29, ResponseBytes: 45,
			RunTime: 1.5, QPS: 666.666667, Latency: &ReportLatency{0.03, 0.01, 0.05, 0.002}, Reason: "end of file", Reconnections: 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseReport(report(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseReportWithoutOne(t *testing.T) {
	whole := report(t, "udp-2.10.txt")
	for name, out := range map[string]string{
		"nothing": "",
		"no data": "DNS Performance Testing Tool\nVersion 2.10.0\n\nError: input file contains no data\n",
		"killed":  whole[:strings.Index(whole, "  Run time")],
	} {
		if _, err := ParseReport(out); !errors.Is(err, ErrNoReport) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, out := range map[string]string{
		"a newer dnsperf":   strings.Replace(whole, "2.10.0", "2.15.0", 1),
		"another series":    strings.Replace(whole, "2.10.0", "3.0", 1),
		"no version":        strings.Replace(whole, "Version 2.10.0", "", 1),
		"not even a number": strings.Replace(whole, "2.10.0", "next", 1),
	} {
		if _, err := ParseReport(out); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseReport(strings.Replace(whole, "190", "many", 1)); err == nil || !strings.Contains(err.Error(), "Response codes") {
		t.Errorf("a broken number: %v", err)
	}
}

func FuzzParseReport(f *testing.F) {
	files, err := filepath.Glob("testdata/reports/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		f.Add(report(f, filepath.Base(name)))
	}
	f.Fuzz(func(t *testing.T, out string) {
		r, err := ParseReport(out)
		if err == nil && (r.Sent < 0 || r.Completed < 0 || r.Lost < 0) {
			t.Errorf("%+v", r)
		}
	})
}
