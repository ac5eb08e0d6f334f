package artifact

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func ptr[T any](v T) *T { return &v }

func sampleRun(order int, scheduler string) (Run, []BackendRow) {
	id := fmt.Sprintf("01-%02d-%s", order, scheduler)
	run := Run{
		RunID: id, Experiment: "schedulers", TreatmentID: "scheduler=" + scheduler + ",one_packet=false",
		Block: 1, Order: order, Factors: map[string]string{"scheduler": scheduler, "one_packet": "false"},
		Protocol: "udp", LoadMode: "dnsperf", StartedAt: time.Date(2026, 12, 2, 10, 0, order, 123456000, time.UTC),
		QueriesPlanned: 1000, QueriesSent: 1000, AnswersOK: 1000,
		BatchS: ptr(0.814192), ResolvedS: ptr(0.814192), QPS: ptr(1228.211), LatencyP50: ptr(0.061),
		ClientTxIPBytes: 61000, ClientRxIPBytes: 93000, MbpsClientL2Both: ptr(1.752),
		SourcePorts: 1, IPVSConnsDelta: 1, ConnRowsAfter: 1, Decisions: ptr(1), JainWeighted: ptr(0.333333),
		DNSPerfRunS: ptr(0.8), DNSPerfCompleted: ptr(1000), Valid: true,
	}
	rows := []BackendRow{
		{RunID: id, Backend: "backend.ns[0]", Address: "198.18.0.30", Position: 0, Weight: 1, IPVSConnsDelta: 1,
			IPVSInPackets: 1000, IPVSInBytes: 61000, TunnelRxPackets: ptr(int64(1000)), NamedRequests: 1000, AnswersOK: 1000,
			ShareIPVS: ptr(1.0), ShareAnswersOK: ptr(1.0)},
		{RunID: id, Backend: "backend.ns[1]", Address: "198.18.0.31", Position: 1, Weight: 1, TunnelRxPackets: ptr(int64(0)),
			ShareIPVS: ptr(0.0), ShareAnswersOK: ptr(0.0)},
	}
	return run, rows
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeSample writes a result with two runs up to the point of sealing.
func writeSample(t *testing.T, results string) *Writer {
	t.Helper()
	w, err := Create(results, "lvs-tun-dns", "20261202T100000Z-ab12", &Owner{UID: os.Getuid(), GID: os.Getgid()})
	must(t, err)
	must(t, w.AddInput("lvs-tun-dns.hcl", []byte("lab {}\n")))
	must(t, w.AddInput("modules/a/main.hcl", []byte("# a\n")))
	must(t, w.SetPlan([]byte("{}\n")))
	must(t, w.SetFactors([]string{"scheduler", "one_packet"}))
	for i, s := range []string{"rr", "dh"} {
		run, rows := sampleRun(i+1, s)
		d, err := w.StartRun(run.RunID)
		must(t, err)
		must(t, d.WriteFile(QueriesFile, []byte("n,port,id\n1,4242,7\n")))
		must(t, d.WriteFile("try-1/conns.csv", []byte("x\n")))
		must(t, w.AddRun(run, rows))
	}
	return w
}

func sealSample(t *testing.T, results string) string {
	t.Helper()
	dir, err := writeSample(t, results).Finalise(context.Background(),
		Manifest{Study: "s1", Accelerator: "tcg", StartedAt: time.Unix(1000, 0).UTC(), Timings: Timings{CreatedS: ptr(1.5)}},
		map[string][]byte{SummaryMDFile: []byte("# summary\n")})
	must(t, err)
	return dir
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	must(t, err)
	return string(b)
}
