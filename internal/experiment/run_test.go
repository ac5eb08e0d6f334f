package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// memory is a recorder that keeps everything in maps.
type memory struct {
	runs     []artifact.Run
	backends map[string][]artifact.BackendRow
	raw      map[string]map[string][]byte
	err      error
}

func (m *memory) Record(run artifact.Run, backends []artifact.BackendRow, raw map[string][]byte) error {
	if m.err != nil {
		return m.err
	}
	if m.raw == nil {
		m.raw, m.backends = map[string]map[string][]byte{}, map[string][]artifact.BackendRow{}
	}
	m.runs = append(m.runs, run)
	m.raw[run.RunID], m.backends[run.RunID] = raw, backends
	return nil
}

// trial runs an experiment on a fake lab in virtual time.
type trialRun struct {
	f   *fakeLab
	top *lang.Topology
	rec memory
	out Outcome
	err error
}

func runFake(t *testing.T, change func(*lang.Topology, *lang.Experiment), faults func(*fakeLab)) *trialRun {
	t.Helper()
	r := &trialRun{top: paperTopology()}
	e := &r.top.Experiments[0]
	e.Iterations = 1
	if change != nil {
		change(r.top, e)
	}
	synctest.Test(t, func(t *testing.T) {
		r.f = newFakeLab(t, r.top)
		if faults != nil {
			faults(r.f)
		}
		r.run(t, context.Background(), Hooks{})
	})
	return r
}

func (r *trialRun) run(t *testing.T, ctx context.Context, hooks Hooks) {
	e := r.top.Experiments[0]
	treatments, ds := Treatments(r.top, e)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	r.out, r.err = Run(ctx, r.f.lab(), e, Trials(e, treatments, 0), &r.rec, hooks)
}

// only returns the single run of a study with one treatment.
func (r *trialRun) only(t *testing.T) (artifact.Run, []artifact.BackendRow, map[string][]byte) {
	t.Helper()
	if r.err != nil || len(r.rec.runs) != 1 {
		t.Fatalf("%d runs, %v", len(r.rec.runs), r.err)
	}
	id := r.rec.runs[0].RunID
	return r.rec.runs[0], r.rec.backends[id], r.rec.raw[id]
}

func oneTreatment(factors ...lang.Factor) func(*lang.Topology, *lang.Experiment) {
	return func(_ *lang.Topology, e *lang.Experiment) { e.Factors = factors }
}

func TestRunThePapersStudy(t *testing.T) {
	var started, done []int
	top := paperTopology()
	r := &trialRun{top: top}
	synctest.Test(t, func(t *testing.T) {
		r.f = newFakeLab(t, top)
		r.run(t, context.Background(), Hooks{
			RunStarted: func(k, n int, _ Trial) { started = append(started, k*1000+n) },
			RunDone: func(k, n int, run artifact.Run, b []artifact.BackendRow, took time.Duration) {
				done = append(done, k*1000+n)
				if len(b) != 3 || run.RunID == "" || took < 0 {
					t.Errorf("run %d: %+v %v", k, run, took)
				}
			},
		})
	})
	if r.err != nil || r.out.Interrupted || !r.out.GivenBack || len(r.out.Done) != 50 {
		t.Fatalf("%d runs, interrupted %v, given back %v, %v", len(r.out.Done), r.out.Interrupted, r.out.GivenBack, r.err)
	}
	if len(started) != 50 || !slices.Equal(started, done) || started[49] != 50050 {
		t.Errorf("hooks: started %v, done %v", started, done)
	}
	for _, run := range r.rec.runs {
		if !run.Valid || len(run.OutcomeFlags) != 0 || run.QueriesPlanned != 12 || run.QueriesSent != 12 || run.AnswersOK != 12 ||
			run.SourcePorts != 1 || run.IPVSConnsDelta != 1 || *run.Decisions != 1 || run.ConnRowsAfter != 1 || *run.DNSPerfCompleted != 12 {
			t.Fatalf("run %+v", run)
		}
		if *run.JainWeighted < 0.333 || *run.JainWeighted > 0.334 {
			t.Errorf("Jain %v, want 1/3: all on one of three", *run.JainWeighted)
		}
		rows := r.rec.backends[run.RunID]
		if run.Replay != "packets" || run.KernelDiffers != "" || *run.ReplayRows != 1 || *run.ReplayRowsDiffer != 0 {
			t.Errorf("run %s: replay %q of %d rows, %s", run.RunID, run.Replay, *run.ReplayRows, run.KernelDiffers)
		}
		at := hashed(&proto.IPVSService{Scheduler: run.Factors["scheduler"], Destinations: make([]proto.IPVSDestination, 3)},
			flow{netip.MustParseAddrPort("198.18.0.128:1"), netip.MustParseAddr("198.18.0.101")}, 0)
		for i, b := range rows {
			want := 0
			if i == at {
				want = 12
			}
			if b.Position != i || b.Backend != backend(i).String() || b.AnswersOK != want || b.IPVSInPackets != int64(want) ||
				*b.TunnelRxPackets != int64(want) || b.NamedRequests != int64(want) {
				t.Fatalf("run %s: %+v, want %d queries", run.RunID, b, want)
			}
		}
		for _, name := range []string{"queries.csv", "dnsperf.txt", "counters-before.json", "counters-after.json", "conns.csv", "ipvs.json"} {
			if len(r.rec.raw[run.RunID][name]) == 0 {
				t.Fatalf("run %s lacks raw/%s", run.RunID, name)
			}
		}
		if after := string(r.rec.raw[run.RunID]["counters-after.json"]); strings.Contains(after, "198.18.0.128:") || !strings.Contains(after, `"conns": 1`) {
			t.Fatalf("counters-after.json holds the table, which is conns.csv, or lacks the counters:\n%s", after)
		}
		if _, ok := r.rec.raw[run.RunID]["capture.pcap"]; ok {
			t.Fatal("the capture is kept although capture = false")
		}
	}
	if n := r.f.count("client", "file.write"); n != 1 {
		t.Errorf("the query file travelled %d times, want once", n)
	}
	if diff := cmp.Diff(declaredServices(top, director), r.f.services, plain); diff != "" {
		t.Errorf("the declared service must be back:\n%s", diff)
	}
}

// Step 1 is over everywhere before step 2 begins, and the load follows step 6.
// TestRunWritesWhatWasPlanned beside what happened, and nothing where nothing
// was certain.
func TestRunWritesWhatWasPlanned(t *testing.T) {
	r := &trialRun{top: paperTopology()}
	e := &r.top.Experiments[0]
	e.Iterations, e.Factors = 1, []lang.Factor{factorOf("scheduler", "rr", "sh")}
	treatments, ds := Treatments(r.top, *e)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	synctest.Test(t, func(t *testing.T) {
		r.f = newFakeLab(t, r.top)
		lab := r.f.lab()
		trials := Trials(*e, treatments, 0)
		for _, one := range trials {
			if one.Treatment.ID == "scheduler=rr" {
				lab.Planned = map[string]map[string]int{one.RunID: {"backend.ns[0]": 1, "backend.ns[1]": 0, "backend.ns[2]": 0}}
			}
		}
		_, r.err = Run(t.Context(), lab, *e, trials, &r.rec, Hooks{})
	})
	if r.err != nil || len(r.rec.runs) != 2 {
		t.Fatalf("%d runs, %v", len(r.rec.runs), r.err)
	}
	for _, run := range r.rec.runs {
		for _, b := range r.rec.backends[run.RunID] {
			switch p := b.PlannedDecisions; {
			case run.TreatmentID == "scheduler=sh" && p != nil:
				t.Errorf("%s: %s has %d planned, nothing was", run.RunID, b.Backend, *p)
			case run.TreatmentID == "scheduler=rr" && (p == nil || int64(*p) != b.IPVSConnsDelta):
				t.Errorf("%s: %s has %v planned, %d happened", run.RunID, b.Backend, p, b.IPVSConnsDelta)
			}
		}
	}
}

func TestRunKeepsTheOrderOfTheSteps(t *testing.T) {
	r := runFake(t, oneTreatment(), nil)
	run, _, _ := r.only(t)
	if !run.Valid {
		t.Fatal(run.OutcomeFlags)
	}
	first := func(op string) int {
		return slices.IndexFunc(r.f.ops, func(o string) bool { return strings.HasSuffix(o, " "+op) })
	}
	fresh, load := first("ipvs.fresh"), first("load.dnsperf")
	for i, o := range r.f.ops {
		_, op, _ := strings.Cut(o, " ")
		switch {
		case (op == "ping" || op == "query") && i > fresh:
			t.Errorf("%s after step 2", o)
		case (op == "capture.start" || op == "file.write") && i > load:
			t.Errorf("%s after the load", o)
		}
	}
	if fresh < 0 || load < fresh || first("ipvs.settled") < load {
		t.Errorf("steps out of order: %v", r.f.ops)
	}
}

func TestDirectorSysctls(t *testing.T) {
	top := paperTopology()
	top.Machines[1].Sysctl = map[string]string{"net.ipv4.vs.expire_nodest_conn": "1", "net.ipv4.ip_forward": "0"}
	got := directorSysctls(top, director)
	if got["net.ipv4.vs.expire_nodest_conn"] != "1" || got["net.ipv4.vs.drop_entry"] != "0" || len(got) != len(pinnedSysctls) {
		t.Errorf("%v", got)
	}
}

func TestRunTriesPreconditionsAgain(t *testing.T) {
	r := runFake(t, oneTreatment(), func(f *fakeLab) {
		f.fail = func(n addr.Noun, op string, k int) error {
			switch {
			case op == proto.IPVSFresh.Op && k == 1:
				return guestError(proto.CodeTimeout, op, "the connection table still holds 4 rows")
			case op == proto.Ping.Op && n == backend(2) && k == 2:
				return guestError(proto.CodeTimeout, op, "no answer")
			}
			return nil
		}
	})
	run, rows, raw := r.only(t)
	if !run.Valid || len(rows) != 3 || len(run.PreconditionFailures) != 2 || run.AnswersOK != 12 {
		t.Errorf("%+v", run)
	}
	if !strings.Contains(string(raw["try-1.txt"]), "still holds 4 rows") || !strings.Contains(string(raw["try-2.txt"]), "no answer") || raw["try-3.txt"] != nil {
		t.Errorf("tries %q, %q, %q", raw["try-1.txt"], raw["try-2.txt"], raw["try-3.txt"])
	}
	if n := len(r.f.captures[clientC]); n != 0 {
		t.Errorf("%d captures are left running", n)
	}
}

func TestRunFindsAnotherReadBack(t *testing.T) {
	r := runFake(t, oneTreatment(), func(f *fakeLab) {
		f.readBack = func(k int, st *proto.IPVSFreshState) {
			if k == 1 {
				d := st.Services[0].Destinations
				d[0], d[2] = d[2], d[0]
				d[1].Inactive = 7
			}
		}
	})
	run, _, raw := r.only(t)
	if !run.Valid || !strings.Contains(string(raw["try-1.txt"]), "destinations") || !strings.Contains(string(raw["try-1.txt"]), "7 inactive") {
		t.Errorf("%v, %q", run.PreconditionFailures, raw["try-1.txt"])
	}
}

func TestRunGivesAHopelessLabUp(t *testing.T) {
	r := runFake(t, nil, func(f *fakeLab) { f.thief = backend(0) })
	var failure *diag.Failure
	if !errors.As(r.err, &failure) || len(r.rec.runs) != hopeless || !r.out.GivenBack || r.out.Interrupted {
		t.Fatalf("%d runs, %+v, %v", len(r.rec.runs), r.out, r.err)
	}
	for _, run := range r.rec.runs {
		if run.Valid || len(run.PreconditionFailures) != tries || run.QueriesSent != 0 || run.BatchS != nil || len(r.rec.backends[run.RunID]) != 0 {
			t.Errorf("%+v", run)
		}
		if !strings.Contains(run.PreconditionFailures[0], "backend.ns[0] and not director.lb") {
			t.Errorf("%v", run.PreconditionFailures)
		}
	}
	if r.f.count("client", "load.dnsperf") != 0 {
		t.Error("a load ran without preconditions")
	}
}

func TestRunInterrupted(t *testing.T) {
	for _, c := range []struct {
		name string
		on   string // the call during which the user interrupts, in the third run
		done int
	}{
		{"before the load ends the run leaves no trace", proto.DNSPerf.Op, 2},
		{"while preparing", proto.IPVSFresh.Op, 2},
		{"after the load the run is finished", proto.CaptureStop.Op, 3},
	} {
		r := &trialRun{top: paperTopology()}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r.f = newFakeLab(t, r.top)
			r.f.fail = func(_ addr.Noun, op string, k int) error {
				if op == c.on && k == 3 {
					cancel()
					if op != proto.CaptureStop.Op {
						return context.Canceled
					}
				}
				return nil
			}
			r.run(t, ctx, Hooks{})
		})
		if r.err != nil || !r.out.Interrupted || !r.out.GivenBack || len(r.out.Done) != c.done || len(r.rec.runs) != c.done {
			t.Errorf("%s: %d done, %d recorded, %+v, %v", c.name, len(r.out.Done), len(r.rec.runs), r.out.Interrupted, r.err)
		}
		if len(r.f.captures[clientC]) != 0 {
			t.Errorf("%s: a capture is left running", c.name)
		}
		if diff := cmp.Diff(declaredServices(r.top, director), r.f.services, plain); diff != "" {
			t.Errorf("%s: the loan is not given back:\n%s", c.name, diff)
		}
	}
}

func TestRunEndsWhenAMachineIsGone(t *testing.T) {
	gone := errors.New("the connection to the guest was lost")
	r := runFake(t, nil, func(f *fakeLab) {
		loads := 0
		f.fail = func(n addr.Noun, op string, _ int) error {
			if op == proto.DNSPerf.Op {
				loads++
			}
			if loads >= 2 && n == backend(1) {
				return gone
			}
			return nil
		}
	})
	if !errors.Is(r.err, gone) || len(r.rec.runs) != 1 || r.out.Interrupted || !r.out.GivenBack {
		t.Errorf("%d runs, %+v, %v", len(r.rec.runs), r.out, r.err)
	}
	if !strings.Contains(r.err.Error(), backend(1).String()) {
		t.Errorf("%v does not name the machine", r.err)
	}
}

func TestRunReportsAFullDisk(t *testing.T) {
	full := errors.New("no space left on device")
	r := &trialRun{top: paperTopology(), rec: memory{err: full}}
	synctest.Test(t, func(t *testing.T) {
		r.f = newFakeLab(t, r.top)
		r.run(t, context.Background(), Hooks{})
	})
	if !errors.Is(r.err, full) || len(r.out.Done) != 0 || !r.out.GivenBack {
		t.Errorf("%+v, %v", r.out, r.err)
	}
}

func TestRunReportsALoanThatIsKept(t *testing.T) {
	r := runFake(t, oneTreatment(), func(f *fakeLab) {
		f.fail = func(_ addr.Noun, op string, k int) error {
			if op == proto.IPVSFresh.Op && k == 2 {
				return guestError(proto.CodeMismatch, op, "order differs")
			}
			return nil
		}
	})
	if r.err == nil || r.out.GivenBack || len(r.out.Done) != 1 {
		t.Errorf("%+v, %v", r.out, r.err)
	}
}

func TestRunSeveralClientsAndVIPs(t *testing.T) {
	r := runFake(t, func(top *lang.Topology, e *lang.Experiment) {
		top.Services[0].VIPs = append(top.Services[0].VIPs, ip("198.18.0.102"))
		second := top.Machines[0]
		second.Noun = clientC.At(addr.Index(1))
		second.NICs = slices.Clone(second.NICs)
		second.NICs[0].Addresses = append(second.NICs[0].Addresses[:0:0], ip("198.18.0.129"))
		top.Machines = append(top.Machines, second)
		e.Clients = append(e.Clients, second.Noun)
		e.Capture = true
		e.Factors = []lang.Factor{factorOf("vips", 2), factorOf("clients", 2), factorOf("queries", 7)}
	}, nil)
	run, rows, raw := r.only(t)
	// Each client: 4 queries to the first VIP, 3 to the second; one port each.
	if !run.Valid || run.QueriesPlanned != 14 || run.AnswersOK != 14 || *run.Decisions != 4 || run.SourcePorts != 4 || *run.DNSPerfCompleted != 14 {
		t.Errorf("%+v", run)
	}
	got := []int{rows[0].AnswersOK, rows[1].AnswersOK, rows[2].AnswersOK}
	if !slices.Equal(got, []int{7, 7, 0}) {
		t.Errorf("answers %v, want each VIP's rr to take its first two", got)
	}
	for _, name := range []string{"capture-c-0.pcap", "capture-c-1.pcap"} {
		if len(raw[name]) == 0 {
			t.Errorf("no %s among %v", name, sortedKeys(raw))
		}
	}
}

func TestRunKeepsKernelMessages(t *testing.T) {
	r := runFake(t, oneTreatment(), func(f *fakeLab) {
		f.klog[director] = []proto.KernelLine{{Seq: 4, Level: 6, USec: 1, Text: "long ago"}}
		f.onLoad = func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.klog[director] = append(f.klog[director], proto.KernelLine{Seq: 5, Level: 4, USec: 12_000_345, Text: "IPVS: rr: UDP 198.18.0.101:53 - no destination available"})
		}
	})
	_, _, raw := r.only(t)
	if got, want := string(raw["klog.txt"]), "director.lb <4> [12.000345] IPVS: rr: UDP 198.18.0.101:53 - no destination available\n"; got != want {
		t.Errorf("klog.txt %q, want %q", got, want)
	}
}

func TestRunIntoAnArtifact(t *testing.T) {
	dir := t.TempDir()
	w, err := artifact.Create(dir, "lvs-tun-dns", "r1", nil)
	if err != nil {
		t.Fatal(err)
	}
	top := paperTopology()
	e := top.Experiments[0]
	e.Iterations = 1
	if err := w.SetFactors([]string{"scheduler"}); err != nil {
		t.Fatal(err)
	}
	treatments, _ := Treatments(top, e)
	out, err := Run(context.Background(), newFakeLab(t, top).lab(), e, Trials(e, treatments, 0), Into(w), Hooks{})
	if err != nil || len(out.Done) != 10 {
		t.Fatalf("%d runs, %v", len(out.Done), err)
	}
	a, err := artifact.Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Runs()) != 10 || len(a.Backends()) != 30 {
		t.Errorf("%d runs, %d backends", len(a.Runs()), len(a.Backends()))
	}
	for _, r := range a.Runs() {
		body, err := a.ReadFile("raw/" + r.RunID + "/counters-after.json")
		var v map[string]any
		if err != nil || json.Unmarshal(body, &v) != nil || !strings.Contains(string(body), "backend.ns[2]") {
			t.Errorf("%s: %v, %.100s", r.RunID, err, body)
		}
	}
}

func TestBorrow(t *testing.T) {
	top := paperTopology()
	other := top.Services[0]
	other.Noun, other.VIPs = addr.N(addr.Service, "web"), append(other.VIPs[:0:0], ip("198.18.0.110"))
	top.Services[0].Timeouts.UDP = 30 * time.Second
	top.Services = append(top.Services, other)
	loan, err := Borrow(top, top.Experiments[0].Noun, serviceS)
	if err != nil || len(loan.Services) != 2 || loan.Director != director || loan.Borrower != "experiment.schedulers" {
		t.Fatalf("%+v, %v", loan, err)
	}
	for _, s := range loan.Services {
		if s.Timeouts != (proto.IPVSTimeouts{TCP: 900, TCPFin: 120, UDP: 30}) {
			t.Errorf("%s: timeouts %+v: a director has one set", s.VIP, s.Timeouts)
		}
	}
	text, err := json.Marshal(loan)
	var back Loan
	if err != nil || json.Unmarshal(text, &back) != nil || cmp.Diff(loan, back, plain) != "" {
		t.Errorf("a loan must survive the journal: %s, %v", text, err)
	}
}

// The other services of a director are there during a run.
func TestRunKeepsNeighbours(t *testing.T) {
	r := runFake(t, func(top *lang.Topology, e *lang.Experiment) {
		other := top.Services[0]
		other.Noun, other.VIPs, other.Scheduler = addr.N(addr.Service, "web"), append(other.VIPs[:0:0], ip("198.18.0.110")), "wlc"
		top.Services = append(top.Services, other)
		e.Factors = []lang.Factor{factorOf("timeout", "7s")}
	}, func(f *fakeLab) {
		f.onLoad = func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.services) != 2 || f.services[1].Scheduler != "wlc" {
				f.t.Errorf("services during the load: %+v", f.services)
			}
			if f.services[0].Timeouts.UDP != 7 || f.services[1].Timeouts != (proto.IPVSTimeouts{}) {
				f.t.Errorf("only the run may set timeouts: %+v", f.services)
			}
		}
	})
	if run, rows, _ := r.only(t); !run.Valid || len(rows) != 3 {
		t.Errorf("%+v", run)
	}
}
