package verdict

import (
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

func ptr[T any](v T) *T { return &v }

var ten = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq"}

// scene builds the rows of a study: give says how many of the decisions each of
// the three backends got under a scheduler.
type scene struct {
	Facts
	in        Input
	ports     int
	decisions int
	queries   int
	give      func(scheduler string, block int) []int
	batch     func(scheduler string, block int) float64
	weights   []int
	order     int
	load      string
	resolved  float64 // seconds; 0: batch's
}

func newScene(schedulers []string, blocks int) *scene {
	s := &scene{ports: 1, decisions: 1, queries: 1000, weights: []int{1, 1, 1}, load: "dnsperf",
		Facts: Facts{Experiment: "schedulers", Service: "service.dns", VIPs: []string{"198.18.0.101"}, Scheduler: "rr",
			Protocol: "udp", Forward: "tunnel", ClientAddresses: 1, Blocks: blocks, Accelerator: "tcg", Factors: []string{"scheduler"}},
		batch: func(_ string, block int) float64 { return 0.5 + float64(block)/10 },
	}
	for _, name := range schedulers {
		s.Treatments = append(s.Treatments, Treatment{ID: "scheduler=" + name, Factors: map[string]string{"scheduler": name},
			Scheduler: name, VIPs: 1, ClientAddresses: 1})
	}
	return s
}

// profile makes the scene one whose times may be compared: batch is then the
// latency of a query.
func (s *scene) profile() *scene {
	s.Accelerator, s.load, s.resolved = "kvm", openLoop, profileSeconds
	return s
}

func (s *scene) build() Input {
	s.in.Facts = s.Facts
	for block := 1; block <= s.Blocks; block++ {
		for i := range s.Treatments {
			// Another order in each block, as a study has it.
			s.add(block, s.Treatments[(i*7+block)%len(s.Treatments)])
		}
	}
	return s.in
}

func (s *scene) add(block int, t Treatment) {
	s.order++
	id := fmt.Sprintf("%02d-%02d-%s", block, s.order, t.Scheduler)
	decisions := s.decisions
	if t.OnePacket {
		decisions = s.queries
	}
	got := s.give(t.Scheduler, block)
	batch := s.batch(t.Scheduler, block)
	r := artifact.Run{RunID: id, Experiment: s.Experiment, TreatmentID: t.ID, Block: block, Order: s.order, Factors: t.Factors,
		Protocol: s.Protocol, LoadMode: s.load, QueriesPlanned: s.queries, QueriesSent: s.queries, AnswersOK: s.queries,
		BatchS: &batch, ResolvedS: &batch, MbpsClientL2Both: ptr(1.232 / batch), QPS: ptr(float64(s.queries) / batch),
		SourcePorts: s.ports, IPVSConnsDelta: int64(decisions), ConnRowsAfter: decisions, Decisions: ptr(decisions),
		DNSPerfCompleted: ptr(s.queries), Valid: true}
	if s.resolved > 0 {
		r.BatchS, r.ResolvedS, r.LatencyP50 = ptr(s.resolved), ptr(s.resolved), &batch
	}
	if t.OnePacket {
		r.ConnRowsAfter = 0
	}
	s.in.Runs = append(s.in.Runs, r)
	for i, conns := range got {
		answers := conns * s.queries / decisions
		s.in.Backends = append(s.in.Backends, artifact.BackendRow{RunID: id, Backend: fmt.Sprintf("backend.ns[%d]", i),
			Address: fmt.Sprintf("198.18.0.3%d", i), Position: i, Weight: s.weights[i], IPVSConnsDelta: int64(conns),
			IPVSInPackets: int64(answers), IPVSInBytes: int64(61 * answers), TunnelRxPackets: ptr(int64(answers)),
			NamedRequests: int64(answers), AnswersOK: answers,
			ShareIPVS: ptr(float64(answers) / float64(s.queries)), ShareAnswersOK: ptr(float64(answers) / float64(s.queries))})
	}
}

// pinTo sends everything to one backend: dh's is another than the list head.
func (s *scene) pinTo(dh int) *scene {
	s.give = func(scheduler string, _ int) []int {
		got := []int{0, 0, 0}
		if scheduler == "dh" {
			got[dh] = s.decisions
		} else {
			got[0] = s.decisions
		}
		return got
	}
	return s
}

// sockets20 is what the kernel did with 20 source ports (EXP-D1b): four
// schedulers spread 7/7/6, the others use one backend.
func (s *scene) sockets20() *scene {
	s.ports, s.decisions = 20, 20
	s.give = func(scheduler string, _ int) []int {
		switch scheduler {
		case "rr", "wrr", "lc", "wlc":
			return []int{7, 7, 6}
		case "dh":
			return []int{0, 0, 20}
		}
		return []int{20, 0, 0}
	}
	return s
}

// render writes verdicts for golden files and failures.
func render(list []Verdict) string {
	var b strings.Builder
	for _, v := range list {
		fmt.Fprintf(&b, "[%s] %s: %s\n  %s\n", v.Level, v.ID, v.Title, v.Text)
		for _, e := range v.Evidence {
			fmt.Fprintf(&b, "  - %s | %s | %s | %s\n", e.File, e.Rows, e.Column, e.Value)
		}
		if v.Remedy != "" {
			fmt.Fprintf(&b, "  → %s\n", v.Remedy)
		}
	}
	return b.String()
}
