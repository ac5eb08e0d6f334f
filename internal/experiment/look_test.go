package experiment

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/symptom"
)

// examine looks at the fake and, when it sees nothing, probes it.
func examine(t *testing.T, f *fakeLab) []symptom.Finding {
	t.Helper()
	vips, err := Look(context.Background(), f.lab(), serviceS)
	if err != nil {
		t.Fatal(err)
	}
	var out []symptom.Finding
	for _, v := range vips {
		out = append(out, v.Judge()...)
	}
	if len(out) > 0 {
		return out
	}
	paths, err := Probe(context.Background(), f.lab(), serviceS)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != len(f.top.Services[0].RealServers)*len(vips) {
		t.Errorf("%d paths", len(paths))
	}
	for _, p := range paths {
		if found := p.Judge(); found != nil {
			out = append(out, *found)
		}
	}
	return out
}

// old leaves entries in the table that the service, made anew, has not counted.
func old(n int) func(*fakeLab) {
	return func(f *fakeLab) {
		f.services = declaredServices(f.top, director)
		for i := range n {
			f.entries[flow{netip.AddrPortFrom(ip("198.18.0.128"), uint16(40000+i)), ip("198.18.0.101")}] = i % 3
		}
	}
}

// Each fault is found at its place, and nothing else; the golden file holds what
// people read.
func TestLookAndProbe(t *testing.T) {
	var b strings.Builder
	for _, c := range []struct {
		name   string
		change func(*fakeLab)
		want   symptom.Name
		at     addr.Noun
	}{
		{"healthy", func(*fakeLab) {}, "", addr.Noun{}},
		{"tunl0", broken(1, "fallback"), symptom.Fallback, backend(1)},
		{"strict rp_filter", broken(0, "rp_filter"), symptom.RPFilter, backend(0)},
		{"thief", func(f *fakeLab) { f.thief = backend(2) }, symptom.ARP, backend(2)},
		{"VIP gone", func(f *fakeLab) { f.vipGone = true }, symptom.VIPNotLocal, director},
		{"old entries", old(6), symptom.StaleEntries, director},
		{"named elsewhere", broken(1, "not listening"), symptom.NamedAddress, backend(1)},
		{"own address", broken(2, "own source"), symptom.OwnAddress, backend(2)},
	} {
		f := newFakeLab(t, paperTopology())
		f.services = declaredServices(f.top, director)
		c.change(f)
		got := examine(t, f)
		if c.want == "" {
			if len(got) != 0 {
				t.Errorf("%s: found %+v", c.name, got)
			}
			if diff := cmp.Diff(f.services, declaredServices(f.top, director), plain); diff != "" {
				t.Errorf("the service was not given back:\n%s", diff)
			}
			continue
		}
		if len(got) != 1 || got[0].Symptom != c.want || got[0].At != c.at {
			t.Errorf("%s: found %+v, want %s at %s alone", c.name, got, c.want, c.at)
			continue
		}
		fmt.Fprintf(&b, "== %s\n%s: %s\n%s\n→ %s\n\n", got[0].Symptom, got[0].Address, got[0].Summary, got[0].Evidence, got[0].Remedy)
	}
	golden.Check(t, "symptoms.txt", b.String())
}

// Entries that the service has made itself are no symptom, nor is a table whose
// counters lag behind.
func TestOwnEntriesAreNotOld(t *testing.T) {
	f := newFakeLab(t, paperTopology())
	f.services = declaredServices(f.top, director)
	for i := range 9 {
		f.schedule(flow{netip.AddrPortFrom(ip("198.18.0.128"), uint16(41000+i)), ip("198.18.0.101")})
	}
	lag := 3
	f.fail = func(_ addr.Noun, op string, _ int) error {
		if op == proto.IPVSRead.Op {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.services[0].Stats.Conns = 10 // with the query that Look sends
			if lag--; lag > 0 {
				f.services[0].Stats.Conns = 2
			}
		}
		return nil
	}
	if got := examine(t, f); len(got) != 0 {
		t.Errorf("found %+v", got)
	}
}

// A source port that meets its old entry is no evidence.
func TestProbeAsksAgain(t *testing.T) {
	f := newFakeLab(t, paperTopology())
	queries := 0
	f.fail = func(n addr.Noun, op string, _ int) error {
		if n == clientC && op == proto.Query.Op {
			if queries++; queries == 2 {
				f.mu.Lock()
				f.port--
				f.mu.Unlock()
			}
		}
		return nil
	}
	paths, err := Probe(context.Background(), f.lab(), serviceS)
	if err != nil || len(paths) != 3 || queries != 4 {
		t.Fatalf("%d paths, %d queries, %v", len(paths), queries, err)
	}
	for _, p := range paths {
		if found := p.Judge(); found != nil {
			t.Errorf("found %+v", found)
		}
	}
}

func TestLookWithoutClients(t *testing.T) {
	top := paperTopology()
	top.Experiments, top.Machines = nil, top.Machines[1:]
	f := newFakeLab(t, top)
	_, look := Look(context.Background(), f.lab(), serviceS)
	_, probe := Probe(context.Background(), f.lab(), serviceS)
	var failure *diag.Failure
	if !errors.As(look, &failure) || !errors.As(probe, &failure) || len(f.ops) != 0 {
		t.Errorf("%v, %v", look, probe)
	}
}

// A machine that is gone ends the look with its name, and what was borrowed is
// given back.
func TestProbeEndsWhenAMachineIsGone(t *testing.T) {
	gone := errors.New("the connection to the guest was lost")
	f := newFakeLab(t, paperTopology())
	f.fail = func(n addr.Noun, _ string, _ int) error {
		if n == backend(1) {
			return gone
		}
		return nil
	}
	if _, err := Probe(context.Background(), f.lab(), serviceS); !errors.Is(err, gone) || !strings.Contains(err.Error(), "backend.ns[1]") {
		t.Errorf("got %v", err)
	}
	if !slices.ContainsFunc(f.services, func(s proto.IPVSService) bool { return s.Scheduler == "rr" }) || len(f.entries) != 0 {
		t.Errorf("the service was not given back: %+v", f.services)
	}
}
