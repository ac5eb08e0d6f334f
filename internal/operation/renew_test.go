package operation

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// paper is an apply of the built-in topology, whose lab is up, in the state.
func paper(t *testing.T, isolation string) (*applying, *plan.Providers, []plan.Existing) {
	t.Helper()
	s := settings(t)
	st, err := s.parse("builtin:lvs-tun-dns")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.resolve(st, state.State{Lineage: state.NewLineage()}); err != nil {
		t.Fatal(err)
	}
	st.topology.Experiments[0].Isolation = isolation
	a := &applying{Settings: s, study: st, dir: t.TempDir(), accel: hypervisor.TCG}
	if a.list, err = st.trials(nil, ""); err != nil {
		t.Fatal(err)
	}
	a.todo = a.list.trials
	if a.wanted, err = lower.Resources(st.topology, st.layout, lower.Options{LabDir: a.dir, Guests: map[lang.Guest]lower.Guest{{}: {Kernel: "/k", Initrd: "/i", Root: "/r"}}, Accelerator: "tcg"}); err != nil {
		t.Fatal(err)
	}
	ps, err := offline()
	if err != nil {
		t.Fatal(err)
	}
	var have []plan.Existing
	for _, r := range a.wanted {
		have = append(have, plan.Existing{Addr: r.Addr, Type: r.Type, Value: r.Attrs, DependsOn: r.DependsOn, Within: r.Within})
	}
	return a, ps, have
}

// What is made anew is the machines with all that is in them, and nothing of
// anybody else.
func TestRenewalReplacesTheMachinesAlone(t *testing.T) {
	for isolation, want := range map[string]string{
		"restore":     "director.lb/domain director.lb/link.lan director.lb/sysctl service.dns/ipvs",
		"restore-all": "all but network.lan/network",
	} {
		a, ps, have := paper(t, isolation)
		machines := experiment.Renewals(a.study.topology, a.study.topology.Experiments[0])
		p, err := renewal(ps, a.wanted, have, machines)
		if err != nil {
			t.Fatal(err)
		}
		var replaced, kept []string
		for _, c := range p.Changes {
			if c.Action == provider.Replace {
				replaced = append(replaced, c.Addr.String())
			} else {
				kept = append(kept, c.Addr.String())
			}
		}
		got := strings.Join(replaced, " ")
		if isolation == "restore-all" {
			got = "all but " + strings.Join(kept, " ")
		}
		if got != want || len(p.Changes) != len(a.wanted) {
			t.Errorf("%s: replaced %s", isolation, got)
		}
	}
}

// What a renewal that failed has left half made is completed by the next one.
func TestRenewalAfterOneThatFailed(t *testing.T) {
	a, ps, have := paper(t, "restore")
	have = slices.DeleteFunc(have, func(e plan.Existing) bool { return e.Addr.String() == "director.lb/sysctl" })
	for i, e := range have {
		have[i].Tainted = e.Addr.String() == "director.lb/domain"
	}
	p, err := renewal(ps, a.wanted, have, []addr.Noun{addr.N(addr.Director, "lb")})
	if n := p.Totals(); err != nil || n.Replace != 3 || n.Create != 1 || n.Update+n.Delete != 0 {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestRenewalWantsALabAsDeclared(t *testing.T) {
	for name, spoil := range map[string]func([]plan.Existing) []plan.Existing{
		"something is missing":  func(have []plan.Existing) []plan.Existing { return have[1:] },
		"a machine is in doubt": func(have []plan.Existing) []plan.Existing { have[0].Tainted = true; return have },
		"one too many": func(have []plan.Existing) []plan.Existing {
			other := have[0]
			other.Addr.Noun = addr.N(addr.Backend, "old")
			return append(have, other)
		},
	} {
		a, ps, have := paper(t, "restore")
		have = spoil(slices.Clone(have))
		_, err := renewal(ps, a.wanted, have, experiment.Renewals(a.study.topology, a.study.topology.Experiments[0]))
		if err == nil || !strings.Contains(err.Error(), "The lab is not as declared any more") || !strings.Contains(err.Error(), "director.lb anew") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRenewalsOfAnApply(t *testing.T) {
	for isolation, want := range map[string]int{"flush": 0, "restore": 1, "restore-all": 5} {
		a, _, _ := paper(t, isolation)
		if got := a.renewals(); len(got) != want || len(a.renewedDomains()) != want {
			t.Errorf("%s: %v, %d domains", isolation, got, len(a.renewedDomains()))
		}
		anew := strings.Contains(strings.Join(a.list.describe(a.study.topology), ""), "; before each run ")
		if anew != (want > 0) {
			t.Errorf("%s: the plan says %s", isolation, a.list.describe(a.study.topology))
		}
		a.todo = nil
		if got := a.renewals(); len(got) != 0 {
			t.Errorf("%s: without runs %v", isolation, got)
		}
	}
}

// told keeps what the user is told.
type told struct{ text []string }

func (l *told) Emit(e Event) {
	if d, ok := e.(DiagnosticEvent); ok {
		for _, x := range d.Diagnostics {
			l.text = append(l.text, x.Summary+": "+x.Detail)
		}
	}
}

// Where nothing can be cloned the runs are as good and take longer: the plan
// says which machines, and why.
func TestWarnRenewals(t *testing.T) {
	for _, c := range []struct {
		name      string
		isolation string
		change    func(*applying)
		want      []string // in the one warning; nil = none
	}{
		{"clones", "restore", func(*applying) {}, nil},
		{"no isolation", "flush", func(a *applying) { a.opts.Boot = BootCold }, nil},
		{"a cold machine that is not made anew", "restore", func(a *applying) { cold(a, "backend.ns[1]") }, nil},
		{"a cold director", "restore", func(a *applying) { cold(a, "director.lb") }, []string{`director.lb: it has boot = "cold"`}},
		{"--boot restore wins", "restore", func(a *applying) { cold(a, "director.lb"); a.opts.Boot = BootRestore }, nil},
		{"one of all", "restore-all", func(a *applying) { cold(a, "backend.ns[1]") }, []string{`backend.ns[1]: it has boot = "cold"`}},
		{"--boot cold", "restore-all", func(a *applying) { a.opts.Boot = BootCold }, []string{"client.c[0], director.lb, backend.ns[0]", "--boot cold"}},
		{"nothing to clone", "restore", func(a *applying) { a.worldErr = errors.New("nobody answers") }, []string{"director.lb: nothing can be cloned here, nobody answers"}},
	} {
		a, _, _ := paper(t, c.isolation)
		c.change(a)
		var heard told
		a.Events = &heard
		a.warnRenewals()
		if len(heard.text) != min(1, len(c.want)) {
			t.Errorf("%s: %q", c.name, heard.text)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(heard.text[0], w) {
				t.Errorf("%s: %q is not in %q", c.name, w, heard.text[0])
			}
		}
	}
}

func cold(a *applying, node string) {
	for i, m := range a.study.topology.Machines {
		if m.Noun.String() == node {
			a.study.topology.Machines[i].Boot = BootCold
		}
	}
}

func TestTheNextMachineHasAKeyOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	store, err := state.OpenOrCreate(context.Background(), dir, "lab", "lab.hcl", state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	keys, err := openKeys(dir, store)
	if err != nil {
		t.Fatal(err)
	}
	host := func(node string) []byte {
		t.Helper()
		k, err := keys.host(node)
		if err != nil {
			t.Fatal(err)
		}
		if print, err := k.Fingerprint(); err != nil || !strings.HasPrefix(print, "SHA256:") {
			t.Errorf("fingerprint %q, %v", print, err)
		}
		return k.Private
	}
	first, other := host("director.lb"), host("client.c")
	keys.another("director.lb")
	second := host("director.lb")
	if bytes.Equal(first, second) || !bytes.Equal(second, host("director.lb")) || !bytes.Equal(other, host("client.c")) {
		t.Error("the key of the machine before, a new one at each call, or another machine's has changed")
	}
	again, err := openKeys(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := again.host("director.lb"); err != nil || !bytes.Equal(k.Private, second) {
		t.Errorf("the new key is not on the disk: %v", err)
	}
}

// A deleted machine's connection and key go with it; nobody else's do.
func TestForgetDeleted(t *testing.T) {
	a, _, _ := paper(t, "restore")
	a.keys, a.host = &keyring{}, &host{nodes: &nodes{slots: map[string]*slot{"director.lb": {}, "client.c": {}}}}
	event := func(kind walk.Kind, op plan.Op, typ, node string) walk.Event {
		n, err := addr.ParseNoun(node)
		if err != nil {
			t.Fatal(err)
		}
		return walk.Event{Kind: kind, Op: op, Change: plan.Change{Type: typ, Addr: addr.Resource{Noun: n, Part: typ}}}
	}
	for _, e := range []walk.Event{
		event(walk.Started, plan.Delete, schema.TypeDomain, "client.c"), event(walk.Done, plan.Create, schema.TypeDomain, "client.c"),
		event(walk.Done, plan.Delete, schema.TypeSysctl, "client.c"), event(walk.Done, plan.Delete, schema.TypeDomain, "director.lb"),
	} {
		a.forgetDeleted(e)
	}
	if a.host.nodes.slots["director.lb"] != nil || a.host.nodes.slots["client.c"] == nil || !a.keys.spent["director.lb"] || a.keys.spent["client.c"] {
		t.Errorf("connections %v, keys spent %v", a.host.nodes.slots, a.keys.spent)
	}
}

// A clone that does not answer is booted once; the next time it is a clone again.
func TestDoubtedClones(t *testing.T) {
	var ts templates
	d := schema.Domain{Address: "director.lb", Memory: 256 << 20, VCPUs: 1}
	ts.put(ts.kindOf(d), libvirt.Template{Key: "k"})
	ts.doubt(d.Address)
	if ts.of(d) != nil {
		t.Error("the clone that did not answer is cloned again")
	}
	ts.trustAgain()
	if ts.of(d) == nil {
		t.Error("it is never cloned again")
	}
	ts.bootCold(d.Address)
	ts.trustAgain()
	if ts.of(d) != nil {
		t.Error("what the user wants booted is cloned")
	}
}

// A director that was being replaced when lvslab was killed has nothing to give
// back, and is not waited for.
func TestALoanOfAMachineThatIsGone(t *testing.T) {
	a, _, _ := paper(t, "restore")
	store, err := state.OpenOrCreate(context.Background(), t.TempDir(), "lab", "lab.hcl", state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	a.store, a.host = store, &host{}
	lb := addr.N(addr.Director, "lb")
	for _, status := range []state.Status{"", state.Tainted} {
		if status != "" {
			res := provider.Resource{Addr: addr.Resource{Noun: lb, Part: schema.TypeDomain}, Type: schema.TypeDomain, Attrs: schema.Domain{Address: lb.String()}.Value()}
			if err := store.Recorder().Made(0, res, res.Attrs, errors.New("in doubt")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Begin(state.Intent{Op: opExperiment, Subject: "experiment.x", Data: []byte(`{"borrower":"experiment.x","director":"director.lb"}`)}); err != nil {
			t.Fatal(err)
		}
		if err := a.giveBackLoans(context.Background()); err != nil || len(store.Pending()) > 0 {
			t.Errorf("status %q: %v, %d intents open", status, err, len(store.Pending()))
		}
	}
}

func TestNoteRenewed(t *testing.T) {
	var a applying
	a.noteDone([]experiment.Done{
		{Run: artifact.Run{RunID: "01-01-rr"}, Renewed: []experiment.Renewed{{Node: "director.lb", BootID: "b1"}, {Node: "client.c", BootID: "b2"}}},
		{Run: artifact.Run{RunID: "01-02-sh"}},
	})
	if len(a.boots) != 1 || a.boots["01-01-rr"]["director.lb"] != "b1" || a.boots["01-01-rr"]["client.c"] != "b2" {
		t.Errorf("%v", a.boots)
	}
}
