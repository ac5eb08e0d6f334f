package acceptance

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// truths is one lab with studies whose outcome the kernel's rules fix.
const truths = `
lab "truths" {
  teardown = "always"
}

network "wire" { cidr = "198.19.7.0/24" }

client "probe" {
  nic { network = network.wire }
}

client "second" {
  nic { network = network.wire }
}

director "front" {
  nic { network = network.wire }
}

backend "web" {
  count = 3
  nic { network = network.wire }
  serves = [zone.z]
}

zone "z" {
  name    = "truth.test"
  records = [for i in range(50) : { name = "n${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "t" {
  from = director.front
  to   = backend.web
  type = "ipip"
}

service "s" {
  director  = director.front
  vip       = "198.19.7.101"
  port      = 53
  protocol  = "udp"
  scheduler = "wlc"
  forward   = "tunnel"
  real_server {
    backends = backend.web
    tunnel   = tunnel.t
  }
}

experiment "ten" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  seed       = 7
  factor "scheduler" { values = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq"] }
  load "dnsperf" { queries = 300 }
}

experiment "ports" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  seed       = 8
  factor "scheduler" { values = ["rr", "sed", "nq"] }
  load "dnsperf" {
    queries = 1000
    sockets = 20
  }
}

experiment "packets" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  seed       = 9
  factor "scheduler" { values = ["rr", "lc"] }
  factor "one_packet" { values = [true] }
  load "dnsperf" { queries = 1000 }
  controls { direct = true }
  capture = true
}

experiment "together" {
  service      = service.s
  clients      = [client.probe, client.second]
  iterations   = 1
  seed         = 10
  start_within = "1900ms" # 0.9 s were seen on a host with ten times its load
  load "dnsperf" { queries = 40 } # 80 at a time are no more than one backend takes
  controls { direct = true }
}

check "nothing_lost" {
  assert {
    condition     = experiment.ten.unanswered + experiment.ports.unanswered + experiment.packets.unanswered == 0
    error_message = "Queries without an answer."
  }
}

output "shares" { value = experiment.ports.shares }
`

func TestAccTruths(t *testing.T) {
	s := newSite(t, truths+ownLoads)
	s.must(0, 6*time.Minute, "apply", "lab.hcl")
	a := s.latest("truths")
	runs, backends := a.Runs(), byRun(a.Backends())
	const others = 18 + 4 // of one client, of two
	if len(runs) != others+ownRuns {
		t.Fatalf("want %d runs, got %d", others+ownRuns, len(runs))
	}
	s.must(0, time.Minute, "verify", "results/truths/latest")
	for _, r := range runs {
		t.Run(r.RunID, func(t *testing.T) {
			rows := backends[r.RunID]
			if r.LoadMode != "dnsperf" {
				checkOwn(t, r, rows)
				return
			}
			if r.Experiment == "together" {
				beganTogether(t, a, r)
				return
			}
			if r.StartSpreadS != nil {
				t.Errorf("one client began %v s apart", *r.StartSpreadS)
			}
			if r.PastLVS() {
				aloneAnswers(t, r, rows)
				return
			}
			countsAgree(t, r, rows)
			switch r.Experiment {
			case "ten":
				// One source port means one decision, whatever the scheduler.
				if got := answers(rows); nonzero(got) != 1 {
					t.Errorf("answers by backend %v, want all on one", got)
				}
				if r.SourcePorts != 1 || r.Decisions == nil || *r.Decisions != 1 {
					t.Errorf("ports %d, decisions %v, want 1 and 1", r.SourcePorts, deref(r.Decisions))
				}
				// dh and sh pick by hash; all others take the list head when
				// nothing is known of anybody.
				checkHolder(t, r, rows)
			case "ports":
				want := []int{1000, 0, 0} // sed and nq: UDP entries are never active
				if strings.Contains(r.TreatmentID, "rr") {
					want = []int{350, 350, 300} // 20 sockets over 3 backends, walked in turn
				}
				if got := sorted(answers(rows)); !slices.Equal(got, want) {
					t.Errorf("answers %v, want %v", got, want)
				}
				if *r.Decisions != 20 {
					t.Errorf("decisions %d, want 20", *r.Decisions)
				}
				if want[0] == 1000 && rows[headOf(rows)].AnswersOK != 1000 {
					t.Errorf("answers %v, want all on the list head", answers(rows))
				}
			case "packets":
				if *r.Decisions != 1000 || r.ConnRowsAfter != 0 {
					t.Errorf("decisions %d, rows %d, want 1000 and 0", *r.Decisions, r.ConnRowsAfter)
				}
				got := answers(rows)
				if strings.Contains(r.TreatmentID, "scheduler=lc") {
					if head := rows[headOf(rows)].AnswersOK; head < 970 {
						t.Errorf("answers %v: lc forgets each packet, so at least 97 %% belong to the head", got)
					}
				} else if want := []int{334, 333, 333}; !slices.Equal(sorted(got), want) {
					t.Errorf("answers %v, want %v in some order", got, want)
				}
			}
		})
	}
	s.must(0, time.Minute, "verify", a.Dir())
}

// beganTogether checks a run of two clients: both were seen on one clock, within the
// bound, and not at the same nanosecond.
func beganTogether(t *testing.T, a *artifact.Artifact, r artifact.Run) {
	t.Helper()
	if !r.Valid || r.AnswersOK != 80 || len(r.OutcomeFlags) > 0 {
		t.Errorf("valid %v, %d answers, %v", r.Valid, r.AnswersOK, r.OutcomeFlags)
	}
	if r.StartSpreadS == nil || *r.StartSpreadS <= 0 || *r.StartSpreadS > 1.9 {
		t.Errorf("began %v s apart", deref(r.StartSpreadS))
	} else {
		t.Logf("began %.6f s apart, tries before: %q", *r.StartSpreadS, r.PreconditionFailures)
	}
	table, err := a.ReadFile(artifact.RawDir + "/" + r.RunID + "/" + artifact.ClientsFile)
	if lines := strings.Split(strings.TrimSpace(string(table)), "\n"); err != nil || len(lines) != 3 ||
		!strings.HasPrefix(lines[1], "client.probe,") || !strings.HasPrefix(lines[2], "client.second,") || strings.Count(string(table), ",40,40,0,0,") != 2 {
		t.Errorf("%v\n%s", err, table)
	}
}

// aloneAnswers checks a run without LVS: the one backend took and answered
// everything, and the row says nothing of IPVS.
func aloneAnswers(t *testing.T, r artifact.Run, rows []artifact.BackendRow) {
	t.Helper()
	if !r.Valid || r.AnswersOK != 1000 || r.QueriesSent != 1000 || len(r.OutcomeFlags) > 0 || r.Decisions != nil || r.SourcePorts != 1 {
		t.Errorf("%+v", r)
	}
	asked, _ := artifact.Direct(r.TreatmentID)
	for _, b := range rows {
		want := 0
		if b.Backend == asked {
			want = 1000
		}
		if !b.WithoutLVS || b.AnswersOK != want || b.NamedRequests != int64(want) || b.TunnelRxPackets != nil {
			t.Errorf("%+v", b)
		}
	}
	if len(rows) != 3 {
		t.Errorf("%d rows, want one for each backend", len(rows))
	}
}

// countsAgree holds the four independent counts of a run against each other.
func countsAgree(t *testing.T, r artifact.Run, rows []artifact.BackendRow) {
	t.Helper()
	if !r.Valid || len(r.PreconditionFailures) > 0 || len(r.OutcomeFlags) > 0 {
		t.Errorf("valid %v, preconditions %v, flags %v", r.Valid, r.PreconditionFailures, r.OutcomeFlags)
	}
	if r.AnswersOK != r.QueriesPlanned || r.QueriesSent != r.QueriesPlanned || r.Unanswered != 0 {
		t.Errorf("planned %d, sent %d, ok %d, unanswered %d", r.QueriesPlanned, r.QueriesSent, r.AnswersOK, r.Unanswered)
	}
	for _, b := range rows {
		if b.TunnelRxPackets == nil || int64(b.AnswersOK) != b.IPVSInPackets || b.IPVSInPackets != *b.TunnelRxPackets || b.IPVSInPackets != b.NamedRequests {
			t.Errorf("%s: client %d, IPVS %d, tunnel %v, named %d do not agree", b.Backend, b.AnswersOK, b.IPVSInPackets, b.TunnelRxPackets, b.NamedRequests)
		}
	}
}

// checkHolder predicts the backend of a one-port run from the kernel's rules.
func checkHolder(t *testing.T, r artifact.Run, rows []artifact.BackendRow) {
	t.Helper()
	_, scheduler, _ := strings.Cut(r.TreatmentID, "scheduler=")
	want := holder(t, scheduler, rows)
	for _, b := range rows {
		if (b.AnswersOK > 0) != (b.Address == want) {
			t.Errorf("%s at position %d has %d answers, want all at %s", b.Backend, b.Position, b.AnswersOK, want)
		}
	}
}

// holder is the address of the backend that one port of the probe gets by the
// model of IPVS.
func holder(t *testing.T, scheduler string, rows []artifact.BackendRow) string {
	t.Helper()
	m := ipvsmodel.New(ipvsmodel.Kernel{}, 1)
	vip := netip.MustParseAddrPort("198.19.7.101:53")
	k := ipvsmodel.Key{Protocol: ipvsmodel.UDP, VIP: vip}
	err := m.AddService(k, ipvsmodel.Service{Scheduler: scheduler})
	list := slices.SortedFunc(slices.Values(rows), func(a, b artifact.BackendRow) int { return b.Position - a.Position })
	for _, b := range list { // the last one added is the head
		at := netip.AddrPortFrom(netip.MustParseAddr(b.Address), 53)
		err = errors.Join(err, m.AddDestination(k, ipvsmodel.Destination{Address: at, Weight: b.Weight}))
	}
	if err != nil {
		t.Fatal(err)
	}
	d := m.Packet(0, &ipvsmodel.Packet{Protocol: ipvsmodel.UDP, Client: netip.MustParseAddrPort("198.19.7.128:40000"), VIP: vip})
	return d.Backend.Addr().String()
}

func byRun(rows []artifact.BackendRow) map[string][]artifact.BackendRow {
	m := map[string][]artifact.BackendRow{}
	for _, b := range rows {
		m[b.RunID] = append(m[b.RunID], b)
	}
	return m
}

func answers(rows []artifact.BackendRow) []int {
	var out []int
	for _, b := range rows {
		out = append(out, b.AnswersOK)
	}
	return out
}

func headOf(rows []artifact.BackendRow) int {
	return slices.IndexFunc(rows, func(b artifact.BackendRow) bool { return b.Position == 0 })
}

func nonzero(list []int) (n int) {
	for _, x := range list {
		if x != 0 {
			n++
		}
	}
	return n
}

func sorted(list []int) []int {
	out := slices.Clone(list)
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// TestHolder holds the model's word against the formula of the two hashes.
func TestHolder(t *testing.T) {
	rows := []artifact.BackendRow{{Address: "198.19.7.10", Weight: 1}, {Address: "198.19.7.11", Position: 1, Weight: 1}, {Address: "198.19.7.12", Position: 2, Weight: 1}}
	for scheduler, place := range map[string]uint32{
		"rr": 0, "nq": 0, "lblcr": 0,
		"dh": ipvsmodel.Hash32(198<<24|19<<16|7<<8|101, 8) % 3,
		"sh": ipvsmodel.Hash32(198<<24|19<<16|7<<8|128, 8) % 3,
	} {
		if got := holder(t, scheduler, rows); got != rows[place].Address {
			t.Errorf("%s: %s, want %s", scheduler, got, rows[place].Address)
		}
	}
}
