package report

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

func ptr[T any](v T) *T { return &v }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// measured is batch_s of a real study under emulation: ten schedulers, five
// blocks, 1,000 queries from one source port, dh on another backend than the
// others.
var measured = []struct {
	scheduler string
	batch     []float64
}{
	{"rr", []float64{0.814192, 0.713079, 1.016422, 0.960343, 0.638661}},
	{"wrr", []float64{1.115718, 0.509794, 0.695437, 1.686028, 0.740674}},
	{"lc", []float64{0.983552, 0.799122, 0.764883, 0.340969, 0.416589}},
	{"wlc", []float64{0.787079, 0.608141, 0.611942, 0.431590, 1.091383}},
	{"lblc", []float64{1.152471, 1.534283, 0.508297, 0.805415, 1.542099}},
	{"lblcr", []float64{0.567528, 1.262064, 0.648151, 0.684521, 0.576206}},
	{"dh", []float64{0.717197, 0.723829, 0.544928, 0.702611, 0.367444}},
	{"sh", []float64{0.648736, 1.008086, 0.554209, 0.750853, 0.908111}},
	{"sed", []float64{0.613383, 0.490273, 0.911655, 0.645996, 0.514046}},
	{"nq", []float64{0.512199, 1.543464, 0.999774, 0.889495, 0.976331}},
}

// sample is that study, or with sockets = 20 the same with what 20 source ports
// do.
func sample(sockets int) Input {
	in := Input{
		Description: "Ten schedulers, one client, LVS-TUN, DNS over UDP",
		Manifest: artifact.Manifest{SchemaVersion: 1, Lab: "lvs-tun-dns", Run: "20261202T100000Z-ab12", Lineage: "5f3c9a71",
			Study: "9b1deb4d3b7d4bad", StartedAt: time.Date(2026, 12, 2, 10, 0, 0, 0, time.UTC), Accelerator: "tcg",
			Topology: "0d5e6f0c8f3b2a11", Seeds: map[string]int64{"schedulers": 2026}, Isolation: map[string]string{"schedulers": "restore"},
			Versions: artifact.Versions{Lvslab: "0.1.0", GuestKernel: "6.1.0-53-cloud-amd64", HostKernel: "6.18.2", QEMU: "7.2.22",
				Libvirt: "9.0.0", IPVS: "1.2.1", Named: "9.18.49", DNSPerf: "2.10.0"},
			DestinationOrder: map[string][]string{"service.dns": {"backend.ns[0]", "backend.ns[1]", "backend.ns[2]"}},
			Addresses: map[string]string{"client.c[0]": "198.18.0.128", "director.lb": "198.18.0.20", "backend.ns[0]": "198.18.0.30",
				"backend.ns[1]": "198.18.0.31", "backend.ns[2]": "198.18.0.32", "service.dns": "198.18.0.101"},
			Sysctls: map[string]map[string]string{"director.lb": {"net.ipv4.vs.expire_nodest_conn": "0", "net.ipv4.vs.run_estimation": "1"}},
			Timings: artifact.Timings{CreatedS: ptr(2.1), EnrolledS: ptr(14.8), ConfiguredS: ptr(16.2), ProvedS: ptr(17.9), FirstAnswerS: ptr(18.4), RunsDoneS: ptr(171.5)}},
		Checks: []Check{{Name: "nothing_lost", Passed: true}, {Name: "even <shares>", Passed: false, Message: "dh | got everything & more"}},
	}
	f := verdict.Facts{Experiment: "schedulers", Service: "service.dns", VIPs: []string{"198.18.0.101"}, Scheduler: "rr", Protocol: "udp",
		Forward: "tunnel", ClientAddresses: 1, Blocks: 5, Accelerator: "tcg", Factors: []string{"scheduler"}}
	for _, m := range measured {
		f.Treatments = append(f.Treatments, verdict.Treatment{ID: "scheduler=" + m.scheduler, Factors: map[string]string{"scheduler": m.scheduler},
			Scheduler: m.scheduler, VIPs: 1, ClientAddresses: 1})
	}
	in.Facts = []verdict.Facts{f}
	rng := rand.New(rand.NewPCG(2026, 1))
	order := 0
	for block := 1; block <= 5; block++ {
		for _, i := range rng.Perm(len(measured)) {
			order++
			in.add(block, order, sockets, measured[i].scheduler, measured[i].batch[block-1])
		}
	}
	return in
}

func (in *Input) add(block, order, sockets int, scheduler string, batch float64) {
	id := fmt.Sprintf("%02d-%02d-%s", block, order, scheduler)
	got := []int{sockets, 0, 0}
	switch {
	case scheduler == "dh":
		got = []int{0, 0, sockets}
	case sockets == 20 && (scheduler == "rr" || scheduler == "wrr" || scheduler == "lc" || scheduler == "wlc"):
		got = []int{7, 7, 6}
	}
	jain := 1.0 / 3
	if got[1] > 0 {
		jain = 0.995025
	}
	in.Runs = append(in.Runs, artifact.Run{RunID: id, Experiment: "schedulers", TreatmentID: "scheduler=" + scheduler, Block: block, Order: order,
		Factors: map[string]string{"scheduler": scheduler}, Protocol: "udp", LoadMode: "dnsperf",
		StartedAt:      time.Date(2026, 12, 2, 10, 0, 18+3*order, 0, time.UTC),
		QueriesPlanned: 1000, QueriesSent: 1000, AnswersOK: 1000, BatchS: &batch, ResolvedS: &batch, QPS: ptr(1000 / batch),
		LatencyP50: ptr(batch / 15), MbpsClientL2Both: ptr(1.762 / batch), SourcePorts: sockets, IPVSConnsDelta: int64(sockets),
		ConnRowsAfter: sockets, Decisions: ptr(sockets), JainWeighted: &jain, DNSPerfRunS: ptr(batch - 0.001), DNSPerfCompleted: ptr(1000), Valid: true})
	for i, conns := range got {
		n := conns * 1000 / sockets
		planned := ptr(conns)
		if scheduler == "sh" {
			planned = nil
		}
		in.Backends = append(in.Backends, artifact.BackendRow{RunID: id, Backend: fmt.Sprintf("backend.ns[%d]", i), Address: fmt.Sprintf("198.18.0.%d", 30+i),
			Position: i, Weight: 1, IPVSConnsDelta: int64(conns), IPVSInPackets: int64(n), IPVSInBytes: int64(61 * n), TunnelRxPackets: ptr(int64(n)),
			NamedRequests: int64(n), AnswersOK: n, PlannedDecisions: planned, ShareIPVS: ptr(float64(n) / 1000), ShareAnswersOK: ptr(float64(n) / 1000)})
	}
}
