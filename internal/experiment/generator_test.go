package experiment

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/load"
)

// ownLoad makes an experiment one of the agent's generator with fresh ports.
func ownLoad(factors ...lang.Factor) func(*lang.Topology, *lang.Experiment) {
	return func(_ *lang.Topology, e *lang.Experiment) {
		e.Iterations, e.Factors = 1, factors
		e.Load.Kind, e.Load.Sockets, e.Load.Fresh, e.Load.Mode, e.Load.Window = lang.LoadLVSLab, 0, true, lang.ModeClosed, 100
	}
}

func TestOwnGenerator(t *testing.T) {
	var specs []proto.DNSLoadSpec
	r := runFake(t, ownLoad(), func(f *fakeLab) { f.onLoadSpec = func(s proto.DNSLoadSpec) { specs = append(specs, s) } })
	run, rows, raw := r.only(t)
	got := []int{rows[0].AnswersOK, rows[1].AnswersOK, rows[2].AnswersOK}
	if !run.Valid || len(run.OutcomeFlags) > 0 || !slices.Equal(got, []int{4, 4, 4}) || *run.Decisions != 12 || run.SourcePorts != 12 || run.LoadMode != "lvslab-closed" ||
		run.DNSPerfCompleted != nil || run.BatchS == nil {
		t.Errorf("%v, %+v", got, run)
	}
	ports, err := load.SourcePorts(2026, ip("198.18.0.128"), 12)
	if err != nil || len(specs) != 1 || !slices.Equal(specs[0].Ports, ports) || !specs[0].Fresh || specs[0].Device == "" || specs[0].Window != 100 || specs[0].Open {
		t.Errorf("%v, %+v", err, specs)
	}
	record, err := load.ReadRecord(bytes.NewReader(raw["generator.csv"]))
	if err != nil || len(record) != 12 || raw["dnsperf.txt"] != nil {
		t.Fatalf("%v, %d rows", err, len(record))
	}
	var said struct {
		load.Own
		Mode      string
		Window    int
		Processes []ownFile
	}
	if err := json.Unmarshal(raw["generator.json"], &said); err != nil {
		t.Fatal(err)
	}
	if said.Answered != 12 || said.Witness.Compared != 12 || !said.Witness.Agrees() || *said.Lag.P50 != 10e-6 || said.Timing.Paced != 0 || said.Mode != "closed" || said.Window != 100 || len(said.Processes) != 1 {
		t.Errorf("%+v", said)
	}
}

// What the generator and the capture say differently has a name.
func TestOwnGeneratorIsASecondWitness(t *testing.T) {
	for name, c := range map[string]struct {
		fault  func(*fakeLab)
		flag   string
		valid  bool
		absent int // unanswered
	}{
		"agreed loss": {func(f *fakeLab) {
			f.packet = func(i int) fate { return fate{lostReturn: i == 3} }
		}, "lost_on_return", true, 1},
		"lost before the NIC": {func(f *fakeLab) {
			f.packet = func(i int) fate { return fate{lostEgress: i == 3} }
		}, "lost_before_director", true, 1},
		"not taken": {func(f *fakeLab) {
			f.record = func(l []load.Asked) {
				l[3].Result, l[3].Source, l[3].Latency = load.TimedOut, ip("0.0.0.0"), 0
			}
		}, FlagNotTaken, true, 0},
		"another rcode": {func(f *fakeLab) {
			f.record = func(l []load.Asked) { l[3].Rcode = "SERVFAIL" }
		}, FlagCountsContradict, false, 0},
		"another machine": {func(f *fakeLab) {
			f.record = func(l []load.Asked) { l[3].Backend = "02:00:00:00:00:99" }
		}, FlagCountsContradict, false, 0},
		"never asked": {func(f *fakeLab) {
			f.record = func(l []load.Asked) { l[3].Port++ }
		}, FlagCountsContradict, false, 0},
		"invented answer": {func(f *fakeLab) {
			f.packet = func(i int) fate { return fate{lostReturn: i == 3} }
			f.record = func(l []load.Asked) {
				l[3].Result, l[3].Source, l[3].Rcode = load.Answered, ip("198.18.0.101"), "NOERROR"
			}
		}, FlagCountsContradict, false, 1},
		"cut": {func(f *fakeLab) { f.cutLoad = "the time was up" }, FlagCutShort, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := runFake(t, ownLoad(), c.fault)
			run, _, raw := r.only(t)
			if !slices.Contains(run.OutcomeFlags, c.flag) || run.Valid != c.valid || run.Unanswered != c.absent {
				t.Errorf("flags %v, valid %v, unanswered %d; want %s, %v, %d\n%s", run.OutcomeFlags, run.Valid, run.Unanswered, c.flag, c.valid, c.absent, raw["notes.txt"])
			}
		})
	}
}

func TestOwnGeneratorMissesDeadlines(t *testing.T) {
	open := func(top *lang.Topology, e *lang.Experiment) {
		ownLoad()(top, e)
		e.Load.Mode, e.Load.Rate, e.Load.Window = lang.ModeOpen, 1000, 0
	}
	run, _, raw := runFake(t, open, nil).only(t)
	if len(run.OutcomeFlags) > 0 || run.LoadMode != "lvslab-open" || !strings.Contains(string(raw["generator.json"]), `"missed_deadlines": 0`) {
		t.Errorf("%+v\n%s", run, raw["generator.json"])
	}
	run, _, raw = runFake(t, open, func(f *fakeLab) {
		f.record = func(l []load.Asked) { l[11].Started = l[11].Scheduled.Add(time.Millisecond) }
	}).only(t)
	if !run.Valid || !slices.Equal(run.OutcomeFlags, []string{FlagDeadlinesMissed}) || !strings.Contains(string(raw["notes.txt"]), "1 of 12 queries") {
		t.Errorf("%+v\n%s", run, raw["notes.txt"])
	}
}

func TestTreatmentsOfTheOwnGenerator(t *testing.T) {
	top := paperTopology()
	e := top.Experiments[0]
	ownLoad(factorOf("sockets", 1, 20))(top, &e)
	e.Factors[0].Values = append(e.Factors[0].Values, ctyOf("fresh"))
	list, ds := Treatments(top, e)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	var got []string
	for _, tr := range list {
		got = append(got, tr.ID+" "+tr.Slug)
	}
	if want := []string{"sockets=1 s1", "sockets=20 s20", "sockets=fresh sfresh"}; !slices.Equal(got, want) || list[1].Setting.Fresh || !list[2].Setting.Fresh || list[2].Setting.Sockets != 0 {
		t.Errorf("%q", got)
	}
	for name, change := range map[string]func(*lang.Experiment){
		"lvslab":         func(e *lang.Experiment) { e.Load.Kind, e.Load.Fresh, e.Load.Sockets = lang.LoadDNSPerf, false, 1 },
		"source ports":   func(e *lang.Experiment) { e.Load.Queries = 28233 },
		"100000 queries": func(e *lang.Experiment) { e.Load.Queries = 200000; e.Factors = nil },
		"above 0":        func(e *lang.Experiment) { e.Load.Mode = lang.ModeOpen },
		"lower the rate": func(e *lang.Experiment) { e.Load.Mode, e.Load.Rate = lang.ModeOpen, 5000 },
		"longer":         func(e *lang.Experiment) { e.Load.Rate, e.Load.Queries = 1, 10000 },
	} {
		x := e
		change(&x)
		if _, ds := Treatments(top, x); !ds.HasErrors() || !strings.Contains(ds.Err().Error(), name) {
			t.Errorf("%s: %v", name, ds.Err())
		}
	}
}

// A process that leaves no record makes the run invalid, and says so in the file.
func TestOwnGeneratorLeavesNothing(t *testing.T) {
	r := runFake(t, ownLoad(), func(f *fakeLab) {
		f.fail = func(_ addr.Noun, op string, _ int) error {
			if op == proto.DNSLoad.Op {
				return guestError(proto.CodeInvalid, op, "no such thing")
			}
			return nil
		}
	})
	run, _, raw := r.only(t)
	if run.Valid || !slices.Contains(run.OutcomeFlags, FlagCutShort) || !strings.Contains(string(raw["generator.json"]), `"lost": true`) || run.Unanswered != 0 {
		t.Errorf("%+v\n%s", run, raw["generator.json"])
	}
}

func TestLoadBound(t *testing.T) {
	s := Setting{Within: time.Second}
	for _, c := range []struct {
		load, mode string
		window     int
		rate       float64
		want       time.Duration
	}{
		{"", "", 0, 0, 42 * time.Second}, {"", "", 0, 10, 142 * time.Second}, {lang.LoadLVSLab, lang.ModeClosed, 10, 0, 132 * time.Second},
		{lang.LoadLVSLab, lang.ModeOpen, 0, 10, 132 * time.Second},
	} {
		s.Load, s.Mode, s.Window = c.load, c.mode, c.window
		if got := loadBound(s, 1000, c.rate); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
