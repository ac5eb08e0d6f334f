package experiment

import (
	"encoding/json"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
)

// fakeWatch is a watch for first packets that is going on.
type fakeWatch struct {
	sources []netip.Addr
	found   proto.ArrivalsResult
}

func (f *fakeLab) watchStart(n addr.Noun, spec proto.ArrivalsSpec) error {
	if f.watches == nil {
		f.watches = map[addr.Noun]map[string]*fakeWatch{}
	}
	if len(f.watches[n]) > 0 {
		return guestError(proto.CodeInvalid, "arrivals.start", "a watch is going on")
	}
	f.watches[n] = map[string]*fakeWatch{spec.ID: {sources: spec.Sources}}
	return nil
}

// watchStop lists first packets in the order of their times, whatever the order is in
// which the fake has carried out the loads.
func (f *fakeLab) watchStop(n addr.Noun, ref proto.ArrivalsRef) (any, error) {
	w, ok := f.watches[n][ref.ID]
	if !ok {
		return nil, guestError(proto.CodeNotFound, "arrivals.stop", "no watch "+ref.ID)
	}
	delete(f.watches[n], ref.ID)
	slices.SortFunc(w.found.First, func(a, b proto.Arrival) int { return a.Time.Compare(b.Time) })
	return w.found, nil
}

// begin is when a load begins, by its guest's clock.
func (f *fakeLab) begin(n addr.Noun, op string, startNS int64) {
	if f.clock = f.clock.Add(time.Minute); startNS != 0 {
		f.clock = time.Unix(0, startNS).UTC()
	}
	if f.late != nil {
		f.clock = f.clock.Add(f.late(n, f.callCount[n.String()+op]))
	}
}

// arrive is a client's packet at a backend, none = at the director, whose clocks are
// those of the host.
func (f *fakeLab) arrive(at, client addr.Noun, src netip.AddrPort, when time.Time) {
	if at.IsZero() {
		at = f.top.Services[0].Director
	}
	when = when.Add(-f.ahead[client])
	for _, w := range f.watches[at] {
		i := slices.IndexFunc(w.found.First, func(a proto.Arrival) bool { return a.Source == src.Addr() })
		switch {
		case !slices.Contains(w.sources, src.Addr()):
		case i < 0:
			w.found.First = append(w.found.First, proto.Arrival{Source: src.Addr(), Time: when})
		case when.Before(w.found.First[i].Time):
			w.found.First[i].Time = when
		}
	}
}

var secondClient = addr.N(addr.Client, "d")

// twoClients is a run of two clients with one treatment.
func twoClients(within time.Duration) func(*lang.Topology, *lang.Experiment) {
	return func(top *lang.Topology, e *lang.Experiment) {
		c, _ := top.Machine(e.Clients[0])
		c.Noun, c.NICs = secondClient, slices.Clone(c.NICs)
		c.NICs[0].Addresses = []netip.Addr{netip.MustParseAddr("198.18.0.140")}
		top.Machines = append(top.Machines, c)
		e.Clients, e.Factors, e.StartWithin = append(e.Clients, secondClient), nil, within
	}
}

// lateBy lets the second client begin its k-th load late.
func lateBy(by ...time.Duration) func(*fakeLab) {
	return func(f *fakeLab) {
		f.ahead = map[addr.Noun]time.Duration{secondClient: 7 * time.Second, clientC: -time.Minute}
		f.late = func(n addr.Noun, k int) time.Duration {
			if n == secondClient && k <= len(by) {
				return by[k-1]
			}
			return 0
		}
	}
}

// Clients begin at one instant although their clocks differ, and how far apart they
// began is in the row.
func TestClientsBeginTogether(t *testing.T) {
	for name, load := range map[string]string{"dnsperf": lang.LoadDNSPerf, "lvslab": lang.LoadLVSLab} {
		t.Run(name, func(t *testing.T) {
			r := runFake(t, func(top *lang.Topology, e *lang.Experiment) {
				twoClients(0)(top, e)
				if e.Load.Kind = load; load == lang.LoadLVSLab {
					e.Load.Mode, e.Load.Window = lang.ModeClosed, 1
				}
			}, lateBy(3*time.Millisecond))
			run, _, raw := r.only(t)
			if !run.Valid || len(run.OutcomeFlags) != 0 || run.QueriesSent != 24 {
				t.Errorf("valid %v, %v, %d queries, %s", run.Valid, run.OutcomeFlags, run.QueriesSent, raw["notes.txt"])
			}
			if run.StartSpreadS == nil || math.Abs(*run.StartSpreadS-0.003) > 1e-6 {
				t.Errorf("began %v s apart, want 0.003", run.StartSpreadS)
			}
			var got start
			if err := json.Unmarshal(raw[artifact.StartsFile], &got); err != nil {
				t.Fatal(err)
			}
			if got.At != "director.lb" || len(got.First) != 2 || got.First[1].Client != "client.d" || got.WithinS != lang.DefaultStartWithin.Seconds() ||
				len(got.Clocks) != 2 || math.Abs(got.Clocks[1].OffsetS-7) > 1e-3 || math.Abs(got.Clocks[0].OffsetS+60) > 1e-3 {
				t.Errorf("%s", raw[artifact.StartsFile])
			}
		})
	}
}

// A run whose clients began apart is tried again, three times in all; the last try is
// kept, and it does not count.
func TestClientsApart(t *testing.T) {
	const far = 80 * time.Millisecond
	for name, c := range map[string]struct {
		late          []time.Duration
		tries         int
		valid         bool
		spread        float64
		direct, alone bool
	}{
		"once":                   {late: []time.Duration{far}, tries: 1, valid: true, spread: 0},
		"twice":                  {late: []time.Duration{far, far}, tries: 2, valid: true, spread: 0},
		"always":                 {late: []time.Duration{far, far, far}, tries: 2, valid: false, spread: 0.08},
		"the bound itself holds": {late: []time.Duration{50 * time.Millisecond}, valid: true, spread: 0.05},
	} {
		t.Run(name, func(t *testing.T) {
			r := runFake(t, twoClients(50*time.Millisecond), lateBy(c.late...))
			run, backends, raw := r.only(t)
			if run.Valid != c.valid || slices.Contains(run.OutcomeFlags, FlagClientsApart) == c.valid || len(backends) == 0 {
				t.Errorf("valid %v, %v, %d backends", run.Valid, run.OutcomeFlags, len(backends))
			}
			if run.StartSpreadS == nil || math.Abs(*run.StartSpreadS-c.spread) > 1e-6 {
				t.Errorf("began %v s apart, want %v", run.StartSpreadS, c.spread)
			}
			if len(run.PreconditionFailures) != c.tries {
				t.Errorf("%d tries: %q", len(run.PreconditionFailures), run.PreconditionFailures)
			}
			const want = "the clients began apart: the first packet of client.d came to director.lb 0.080000 s after that of client.c[0], start_within is 50ms"
			if c.tries > 0 && (run.PreconditionFailures[0] != want || !strings.Contains(string(raw["try-1.txt"]), want)) {
				t.Errorf("%q, %s", run.PreconditionFailures, raw["try-1.txt"])
			}
			if run.QueriesSent != 24 || run.AnswersOK != 24 { // of the last try alone
				t.Errorf("%d queries, %d ok", run.QueriesSent, run.AnswersOK)
			}
			if got := r.f.count("client.d", proto.DNSPerf.Op); got != min(c.tries, 2)+1 {
				t.Errorf("%d loads", got)
			}
		})
	}
}

// One client has nobody to begin with; without LVS the backend that is asked tells;
// and where nothing of a client arrives, nobody knows.
func TestStartsThatAreNotMeasured(t *testing.T) {
	run, _, raw := runFake(t, func(_ *lang.Topology, e *lang.Experiment) { e.Factors = nil }, nil).only(t)
	if run.StartSpreadS != nil || raw[artifact.StartsFile] != nil || !run.Valid {
		t.Errorf("one client: %v, %s", run.StartSpreadS, raw[artifact.StartsFile])
	}
	r := runFake(t, func(top *lang.Topology, e *lang.Experiment) {
		twoClients(0)(top, e)
		e.Controls = &lang.Controls{Direct: true}
	}, lateBy())
	for _, run := range r.rec.runs {
		at := "director.lb"
		if b, ok := artifact.Direct(run.TreatmentID); ok {
			at = b
		}
		if text := string(r.rec.raw[run.RunID][artifact.StartsFile]); run.StartSpreadS == nil || !run.Valid || !strings.Contains(text, `"at": "`+at+`"`) {
			t.Errorf("%s: %v, %v\n%s", run.TreatmentID, run.StartSpreadS, run.OutcomeFlags, text)
		}
	}
	run, _, _ = runFake(t, twoClients(0), func(f *fakeLab) {
		lateBy()(f)
		f.packet = func(int) fate { return fate{lostBefore: true} }
	}).only(t)
	if run.StartSpreadS != nil || !run.Valid || !slices.Contains(run.OutcomeFlags, FlagStartUnknown) {
		t.Errorf("nothing arrived: %v, valid %v, %v", run.StartSpreadS, run.Valid, run.OutcomeFlags)
	}
}
