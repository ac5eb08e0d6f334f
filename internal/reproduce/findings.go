package reproduce

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// findings are the reasons for what the tables show. Each says only what its
// counts show; where a count is otherwise, the sentence is not there.
func (s study) findings(r Reproduction) []Finding {
	var out []Finding
	for _, f := range []func(Reproduction) (Finding, bool){s.onePort, s.sameBackend, s.confounded, s.manyPorts, s.openConnections, s.times, s.fewBlocks} {
		if found, ok := f(r); ok {
			out = append(out, found)
		}
	}
	return out
}

// onePort: a run with one source port is one choice.
func (s study) onePort(Reproduction) (Finding, bool) {
	runs, single := 0, 0
	for _, name := range s.order[published] {
		for _, r := range s.runs[[2]string{published, name}] {
			runs++
			if r.SourcePorts == 1 && r.Decisions != nil && *r.Decisions == 1 {
				single++
			}
		}
	}
	return Finding{"one-decision",
		"One source port makes one entry in IPVS's table, and that entry one decision: all other queries of the run follow it. " +
			"Whatever the schedulers are good for, this protocol does not exercise it.",
		[]string{fmt.Sprintf("%d of %d runs with 1 source port and 1 decision (runs.csv: source_ports, decisions)", single, runs)}}, runs > 0 && single == runs
}

// sameBackend: which schedulers used the same backend in all runs.
func (s study) sameBackend(r Reproduction) (Finding, bool) {
	by := map[string][]string{}
	var backends []string
	for _, row := range r.Rows {
		used := row.used()
		if len(used) != 1 {
			return Finding{}, false
		}
		if by[used[0]] == nil {
			backends = append(backends, used[0])
		}
		by[used[0]] = append(by[used[0]], row.Scheduler)
	}
	var evidence []string
	for _, b := range backends {
		evidence = append(evidence, fmt.Sprintf("%s answered everything of %s (backends.csv: answers_ok)", b, strings.Join(by[b], ", ")))
	}
	return Finding{"one-backend",
		"That sed and nq send everything to one backend is nothing of theirs: every scheduler does here.", evidence}, len(r.Rows) > 1
}

// confounded: dh alone on a backend.
func (s study) confounded(r Reproduction) (Finding, bool) {
	var dh string
	others := map[string]bool{}
	for _, row := range r.Rows {
		used := row.used()
		switch {
		case len(used) != 1:
			return Finding{}, false
		case row.Scheduler == "dh":
			dh = used[0]
		default:
			others[used[0]] = true
		}
	}
	if dh == "" || others[dh] || len(others) == 0 {
		return Finding{}, false
	}
	return Finding{"confounded",
		fmt.Sprintf("dh hashes the virtual address and picks %s, all others another backend. Its time is the time of %s: scheduler and backend cannot be told apart, "+
			"so that \"dh is fastest\" may mean no more than that %s is.", dh, dh, dh),
		[]string{fmt.Sprintf("dh: %s only; the others: never %s (backends.csv: answers_ok)", dh, dh)}}, true
}

// spread writes what the backends got in an experiment, by name.
func (s study) spread(experiment, scheduler string, value func(artifact.BackendRow) int64) (counts []int64, text string) {
	sum := map[string]int64{}
	for _, r := range s.runs[[2]string{experiment, scheduler}] {
		for _, b := range s.rows[r.RunID] {
			sum[b.Backend] += value(b)
		}
	}
	var names []string
	for n := range sum {
		names = append(names, n)
	}
	slices.Sort(names)
	var parts []string
	for _, n := range names {
		counts = append(counts, sum[n])
		parts = append(parts, fmt.Sprint(sum[n]))
	}
	return counts, strings.Join(parts, ":")
}

func decisionsOf(b artifact.BackendRow) int64 { return b.IPVSConnsDelta }

// onOne reports whether one backend has everything.
func onOne(counts []int64) bool {
	some := 0
	for _, c := range counts {
		if c > 0 {
			some++
		}
	}
	return some == 1
}

func (s study) portsOf(experiment string) string {
	low, high := 0, 0
	for _, name := range s.order[experiment] {
		for _, r := range s.runs[[2]string{experiment, name}] {
			if low == 0 || r.SourcePorts < low {
				low = r.SourcePorts
			}
			high = max(high, r.SourcePorts)
		}
	}
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// manyPorts: with many source ports rr spreads, sed and nq do not.
func (s study) manyPorts(Reproduction) (Finding, bool) {
	var evidence []string
	for _, name := range []string{"rr", "sed", "nq"} {
		counts, text := s.spread(ports, name, decisionsOf)
		if len(counts) == 0 || onOne(counts) == (name == "rr") {
			return Finding{}, false
		}
		evidence = append(evidence, fmt.Sprintf("%s: %s decisions over the backends, %s source ports a run (backends.csv: ipvs_conns_delta)", name, text, s.portsOf(ports)))
	}
	return Finding{"ports-are-not-enough",
		"The paper explains sed and nq by the reuse of source ports. With many ports rr spreads and sed and nq still do not: " +
			"they look at active connections only, and the kernel counts no UDP entry as active (ip_vs_proto_udp.c), so that every backend looks idle to them. " +
			"One port is a second cause, which hides the first.", evidence}, true
}

// openConnections: with connections that stay open they spread, too.
func (s study) openConnections(Reproduction) (Finding, bool) {
	var evidence []string
	for _, name := range []string{"rr", "sed", "nq"} {
		counts, text := s.spread(tcp, name, decisionsOf)
		if len(counts) == 0 || onOne(counts) {
			return Finding{}, false
		}
		evidence = append(evidence, fmt.Sprintf("%s: %s connections over the backends, %s a run (backends.csv: ipvs_conns_delta)", name, text, s.portsOf(tcp)))
	}
	return Finding{"tcp-is-active",
		"Over TCP, while the connections are open, the same two schedulers spread them: such entries are active.", evidence}, true
}

// times: what our times are not.
func (s study) times(r Reproduction) (Finding, bool) {
	text := "Mbps is the bytes of a batch, which are the same for all, divided by its time: it says nothing that the time does not. "
	if r.Accelerator != "kvm" {
		text += "Our times are those of an emulated processor: no scheduler's time here can be held against the published one, nor against another's."
	} else {
		text += "Our times are those of this machine; they can be held against each other only as far as the verdicts of the report go."
	}
	return Finding{"times", text, []string{"accelerator " + r.Accelerator + " (manifest.json)"}}, true
}

// fewBlocks: what five blocks cannot show.
func (s study) fewBlocks(r Reproduction) (Finding, bool) {
	blocks, n := 0, len(r.Rows)
	for _, row := range r.Rows {
		if blocks == 0 || row.Runs < blocks {
			blocks = row.Runs
		}
	}
	needed := stats.PairsNeeded(n*(n-1)/2, 0.05)
	if n < 2 || blocks >= needed {
		return Finding{}, false
	}
	return Finding{"few-blocks",
		fmt.Sprintf("With %d iterations no two schedulers can be called different in time: the smallest p of a paired test is %s, before any correction for %d pairs. It takes %d.",
			blocks, fmt.Sprintf("%.4g", stats.SmallestP(blocks)), n*(n-1)/2, needed),
		[]string{"exact sign-flip test, Holm over all pairs"}}, true
}
