package walk_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
)

func at(s string) addr.Resource {
	a, err := addr.ParseResource(s)
	if err != nil {
		panic(err)
	}
	return a
}

// tb is what helpers need of a *testing.T or a *rapid.T.
type tb interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// bench is one world with a fake, the records of it and what was observed.
type bench struct {
	t      tb
	fake   *fake.Provider
	ps     *plan.Providers
	memory *memory
	opt    walk.Options
	mu     sync.Mutex
	events []walk.Event
}

func newBench(t tb, dir string) *bench {
	t.Helper()
	w, err := fake.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return newBenchIn(t, w)
}

func newBenchIn(t tb, w fake.World) *bench {
	t.Helper()
	var err error
	b := &bench{t: t, fake: fake.New(fake.Schemas(), w), memory: newMemory()}
	if b.ps, err = plan.NewProviders(b.fake); err != nil {
		t.Fatal(err)
	}
	b.opt = walk.Options{Providers: b.ps, Recorder: b.memory, Observe: func(e walk.Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	}}
	return b
}

func (b *bench) plan(wanted ...provider.Resource) plan.Plan {
	b.t.Helper()
	p, err := diff.Compute(diff.Input{Providers: b.ps, Wanted: wanted, Have: b.memory.existing()})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) apply(wanted ...provider.Resource) walk.Result {
	b.t.Helper()
	b.events = nil
	return walk.Run(context.Background(), b.plan(wanted...), b.opt)
}

// log renders the calls since the last time: "create backend.a/box".
func (b *bench) log(from int) string {
	var out []string
	for _, c := range b.fake.Calls()[from:] {
		out = append(out, string(c.Op)+" "+c.Addr.Noun.Label)
	}
	return strings.Join(out, ", ")
}

// kinds renders the events: "started create a".
func (b *bench) kinds() string {
	var out []string
	for _, e := range b.events {
		text := fmt.Sprintf("%s %s %s", e.Kind, e.Op, e.Change.Addr.Noun.Label)
		if !e.Because.IsZero() {
			text += " because of " + e.Because.Noun.Label
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// memory is a recorder in memory. It checks the order of what it is told.
type memory struct {
	mu      sync.Mutex
	have    map[addr.Resource]plan.Existing
	open    map[uint64]string
	next    uint64
	failNow func(op plan.Op, a addr.Resource) error
}

func newMemory() *memory {
	return &memory{have: map[addr.Resource]plan.Existing{}, open: map[uint64]string{}}
}

func (m *memory) existing() []plan.Existing {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []plan.Existing
	for _, e := range m.have {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b plan.Existing) int { return a.Addr.Compare(b.Addr) })
	return out
}

func (m *memory) Begin(op plan.Op, r provider.Resource) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failNow != nil {
		if err := m.failNow(op, r.Addr); err != nil {
			return 0, err
		}
	}
	m.next++
	m.open[m.next] = string(op) + " " + r.Addr.String()
	return m.next, nil
}

func (m *memory) end(seq uint64) {
	if _, ok := m.open[seq]; !ok && seq != 0 {
		panic(fmt.Sprintf("intent %d was closed twice or never begun", seq))
	}
	delete(m.open, seq)
}

func (m *memory) Made(seq uint64, r provider.Resource, v cty.Value, cause error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(seq)
	m.have[r.Addr] = plan.Existing{Addr: r.Addr, Type: r.Type, Tainted: cause != nil, Value: v, DependsOn: r.DependsOn, Within: r.Within}
	return nil
}

func (m *memory) Gone(seq uint64, gone ...addr.Resource) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(seq)
	for _, a := range gone {
		delete(m.have, a)
	}
	return nil
}

func (m *memory) Doubtful(seq uint64, a addr.Resource, _ error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(seq)
	e := m.have[a]
	e.Tainted = true
	m.have[a] = e
	return nil
}

func (m *memory) HalfDone(seq uint64, r provider.Resource, _ error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(seq)
	e := m.have[r.Addr]
	e.Half = r.Attrs
	m.have[r.Addr] = e
	return nil
}

func (m *memory) Unchanged(seq uint64, _ error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(seq)
	return nil
}
