package experiment

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
)

func TestProve(t *testing.T) {
	f := newFakeLab(t, paperTopology())
	proof, err := Prove(context.Background(), f.lab(), serviceS)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, w := range proof.Witnesses {
		if w.Source != w.VIP || w.Client != clientC || w.RTT <= 0 {
			t.Errorf("witness %+v", w)
		}
		seen = append(seen, w.Backend.String())
	}
	if got := strings.Join(seen, " "); got != "backend.ns[0] backend.ns[1] backend.ns[2]" {
		t.Errorf("witnesses %s", got)
	}
	if proof.FirstAnswer.IsZero() {
		t.Error("no time of the first answer")
	}
	if diff := cmp.Diff(declaredServices(f.top, director), f.services, plain); diff != "" || len(f.entries) != 0 {
		t.Errorf("the declared service must be back, with an empty table (%d rows):\n%s", len(f.entries), diff)
	}
	if n := f.count("director", "ipvs.fresh"); n != 2 {
		t.Errorf("%d clean slates, want one for the walk and one to give back", n)
	}
}

func TestProveManyVIPsAndClients(t *testing.T) {
	top := paperTopology()
	top.Services[0].VIPs = append(top.Services[0].VIPs, ip("198.18.0.102"))
	second := top.Machines[0]
	second.Noun = clientC.At(addr.Index(1))
	second.NICs = second.NICs[:1:1]
	second.NICs[0].Addresses = append(second.NICs[0].Addresses[:0:0], ip("198.18.0.129"))
	top.Machines = append(top.Machines, second)
	top.Experiments[0].Clients = append(top.Experiments[0].Clients, second.Noun)
	f := newFakeLab(t, top)
	proof, err := Prove(context.Background(), f.lab(), serviceS)
	if err != nil {
		t.Fatal(err)
	}
	if len(proof.Witnesses) != 2*2*3 {
		t.Errorf("%d witnesses, want one for each client, VIP and backend", len(proof.Witnesses))
	}
}

func TestProveWithoutClients(t *testing.T) {
	top := paperTopology()
	top.Experiments, top.Machines = nil, top.Machines[1:]
	f := newFakeLab(t, top)
	if proof, err := Prove(context.Background(), f.lab(), serviceS); err != nil || len(proof.Witnesses) != 0 || len(f.ops) != 0 {
		t.Errorf("%+v, %v, %v", proof, err, f.ops)
	}
}

// Each fault must be named with its cause; the golden file holds what people read.
func TestProveNamesCauses(t *testing.T) {
	var b strings.Builder
	for _, c := range []struct {
		name   string
		change func(*fakeLab)
	}{
		{"a backend answers ARP for the VIP", func(f *fakeLab) { f.thief = backend(1) }},
		{"the VIP is not on the director", func(f *fakeLab) {
			f.fail = func(n addr.Noun, op string, k int) error {
				if n == clientC && op == proto.Ping.Op && k == 2 {
					return guestError(proto.CodeTimeout, op, "no answer from 198.18.0.101 within 2s")
				}
				return nil
			}
		}},
		{"nothing is scheduled", func(f *fakeLab) {
			f.fail = func(n addr.Noun, op string, _ int) error {
				if n == clientC && op == proto.Query.Op {
					return guestError(proto.CodeTimeout, op, "no answer within 2s")
				}
				return nil
			}
		}},
		{"the director refuses", func(f *fakeLab) { f.refuse = clientC }},
		{"no receiver", broken(1, "no receiver")},
		{"filtered tunnel", broken(2, "filtered")},
		{"strict rp_filter", broken(0, "rp_filter")},
		{"no VIP on the backend", broken(1, "no vip")},
		{"named not on the VIP", broken(1, "not listening")},
		{"answer lost", broken(1, "lost on return")},
		{"other backend answers", broken(1, "other name")},
		{"wrong source", broken(2, "own source")},
		{"error code", broken(2, "refuses")},
		{"a scheduler is missing", func(f *fakeLab) {
			f.fail = func(_ addr.Noun, op string, k int) error {
				if op == proto.IPVSFresh.Op && k == 1 {
					return guestError(proto.CodeUnsupported, op, "the kernel has no module ip_vs_rr")
				}
				return nil
			}
		}},
		{"a named is dead", func(f *fakeLab) { f.refuse = backend(2) }},
	} {
		f := newFakeLab(t, paperTopology())
		c.change(f)
		_, err := Prove(context.Background(), f.lab(), serviceS)
		var failure *diag.Failure
		if !errors.As(err, &failure) {
			t.Errorf("%s: %v, want a diagnostic", c.name, err)
			continue
		}
		if failure.Diagnostic.Remedy == "" {
			t.Errorf("%s: no remedy", c.name)
		}
		d := diag.From(err)[0]
		b.WriteString("== " + c.name + "\n" + d.Address + ": " + d.Summary + "\n" + d.Detail + "\n→ " + d.Remedy + "\n\n")
		if f.count("director", "ipvs.fresh") > 0 {
			if diff := cmp.Diff(declaredServices(f.top, director), f.services, plain); diff != "" {
				t.Errorf("%s: the declared service must be back:\n%s", c.name, diff)
			}
		}
	}
	golden.Check(t, "prove-causes.txt", b.String())
}

// TestProveAfterALostFirstQuery: the query that nobody answered has moved the
// scheduler on, so the walk begins on another clean slate.
func TestProveAfterALostFirstQuery(t *testing.T) {
	f := newFakeLab(t, paperTopology())
	f.fail = func(n addr.Noun, op string, k int) error {
		if n == clientC && op == proto.Query.Op && k == 1 {
			return guestError(proto.CodeTimeout, op, "no answer within 2s")
		}
		return nil
	}
	proof, err := Prove(context.Background(), f.lab(), serviceS)
	if err != nil || len(proof.Witnesses) != 3 {
		t.Fatalf("%d witnesses, %v", len(proof.Witnesses), err)
	}
	if n := f.count("director", "ipvs.fresh"); n != 3 {
		t.Errorf("%d clean slates, want one for the lost query, one for the walk and one to give back", n)
	}
	if proof.FirstAnswer.IsZero() {
		t.Error("no time of the first answer")
	}
}

// A path that works for each backend alone and never for all of them ends too.
func TestProveGivesUpOnAnUnsteadyPath(t *testing.T) {
	f := newFakeLab(t, paperTopology())
	f.fail = func(n addr.Noun, op string, _ int) error {
		if n == clientC && op == proto.Query.Op && len(f.services) > 0 && len(f.services[0].Destinations) == 3 {
			return guestError(proto.CodeTimeout, op, "no answer within 2s")
		}
		return nil
	}
	_, err := Prove(context.Background(), f.lab(), serviceS)
	var failure *diag.Failure
	if !errors.As(err, &failure) || failure.Diagnostic.Summary != "The path to the backends is not steady" {
		t.Errorf("got %v", err)
	}
}

func broken(i int, how string) func(*fakeLab) {
	return func(f *fakeLab) { f.broken[backend(i)] = how }
}

func TestProveForgivesAPortDrawnTwice(t *testing.T) {
	f := newFakeLab(t, paperTopology())
	queries := 0
	f.fail = func(n addr.Noun, op string, _ int) error {
		if n == clientC && op == proto.Query.Op {
			if queries++; queries == 3 {
				f.mu.Lock()
				f.port-- // the third query has the second one's port
				f.mu.Unlock()
			}
		}
		return nil
	}
	proof, err := Prove(context.Background(), f.lab(), serviceS)
	if err != nil || len(proof.Witnesses) != 3 {
		t.Errorf("%d witnesses, %v", len(proof.Witnesses), err)
	}
	if n := f.count("director", "ipvs.fresh"); n != 3 {
		t.Errorf("%d clean slates, want the walk to begin again once", n)
	}
}

func TestProveEndsWhenAMachineIsGone(t *testing.T) {
	gone := errors.New("the connection to the guest was lost")
	f := newFakeLab(t, paperTopology())
	f.fail = func(n addr.Noun, op string, _ int) error {
		if n == backend(1) {
			return gone
		}
		return nil
	}
	if _, err := Prove(context.Background(), f.lab(), serviceS); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
