package state

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/labtest"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
)

// bed is a lab's whole surroundings: a disk with its state and a host with its
// machines, both in memory.
type bed struct {
	dir   string // only the lock is there
	disk  *model
	world fake.World
	// opened counts the commands.
	opened int
	// parallelism of the walks.
	parallelism int
	// rules are the faults of the next operation's provider.
	rules []fake.Rule
	// interrupted, when not nil, ends when the next operation is interrupted once,
	// aborted when it is the second time.
	interrupted, aborted context.Context
	// calls is how often that provider was called.
	calls int
}

func newBed(dir string) *bed {
	return &bed{dir: dir, disk: newModel(0), world: fake.InMemory(), parallelism: 1}
}

// tb is what is needed of a *testing.T or a *rapid.T.
type tb interface {
	Helper()
	Fatal(args ...any)
}

// after returns what a killed process leaves of the bed: what it had written, to
// the disk and to the world, is there. Nothing of the process itself is: its lock
// ended with it.
func (b *bed) after(t tb) *bed {
	t.Helper()
	w, err := b.world.Clone()
	if err != nil {
		t.Fatal(err)
	}
	return &bed{dir: b.dir, disk: b.disk.killed(), world: w, parallelism: b.parallelism, opened: b.opened}
}

// lineages are what a state gets that is begun anew: another one than the command
// before would have given, so that a fresh start where there was a state shows.
// That they are few keeps what was lowered for them.
var lineages = []string{"00000000000000000000000000000001", "00000000000000000000000000000002", "00000000000000000000000000000003"}

// session is one command on the lab, between taking its lock and giving it back.
type session struct {
	*bed
	store     *Store
	providers *plan.Providers
	options   walk.Options
}

// open begins a command: lock, state, journal, providers. A fuse that blows ends
// it like a kill.
func (b *bed) open(fuse *fake.Fuse) (*session, func() error, error) {
	b.disk.fuse = fuse
	p := labtest.Provider(b.world)
	p.Fuse = fuse
	p.Script(b.rules...)
	ps, err := plan.NewProviders(p)
	if err != nil {
		return nil, nil, err
	}
	b.opened++
	s, err := openOrCreate(context.Background(), b.disk, b.dir, "lab", "", Options{Lineage: lineages[b.opened%len(lineages)]})
	if err != nil {
		return nil, nil, err
	}
	o := walk.Options{Providers: ps, Recorder: s.Recorder(), Parallelism: b.parallelism}
	o.Abort = b.aborted
	if len(b.rules) > 0 && b.aborted == nil { // a call that hangs
		o.Deadline = func(plan.Op, string) time.Duration { return 20 * time.Millisecond }
	}
	end := func() error {
		b.calls = len(p.Calls())
		if fuse.Blown() {
			return s.lock.release() // which the kernel does
		}
		return s.Close()
	}
	return &session{b, s, ps, o}, end, nil
}

// context is the operation's, which an interruption ends.
func (b *bed) context() context.Context {
	if b.interrupted != nil {
		return b.interrupted
	}
	return context.Background()
}

func (s *session) look() (walk.Refreshed, map[addr.Resource]cty.Value, error) {
	if _, err := s.store.Recover(); err != nil {
		return walk.Refreshed{}, nil, err
	}
	st := s.store.State()
	have, err := st.Existing(s.providers)
	if err != nil {
		return walk.Refreshed{}, nil, err
	}
	recorded := map[addr.Resource]cty.Value{}
	for _, e := range have {
		recorded[e.Addr] = e.Value
	}
	seen, err := walk.Refresh(s.context(), have, s.options)
	return seen, recorded, err
}

func (s *session) wanted(top *labtest.Topology) ([]provider.Resource, map[string]netip.Addr, error) {
	if top == nil {
		return nil, nil, nil
	}
	st := s.store.State()
	return top.Lower(st.Lineage, st.Addresses)
}

// plan is what a command does before it changes anything.
func (s *session) plan(top *labtest.Topology) (plan.Plan, walk.Refreshed, map[string]netip.Addr, error) {
	seen, recorded, err := s.look()
	if err != nil {
		return plan.Plan{}, seen, nil, err
	}
	wanted, addresses, err := s.wanted(top)
	if err != nil {
		return plan.Plan{}, seen, nil, err
	}
	p, err := diff.Compute(diff.Input{Providers: s.providers, Wanted: wanted, Have: seen.Have, Gone: seen.Gone, Recorded: recorded})
	return p, seen, addresses, err
}

// apply brings the lab to a topology, nil to take it down, in the steps of
// internal/operation: recover, look, plan, record what was seen and the
// addresses, walk. It returns what the walk did.
func (b *bed) apply(top *labtest.Topology, fuse *fake.Fuse) (res walk.Result, err error) {
	s, end, err := b.open(fuse)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, end()) }()
	p, seen, addresses, err := s.plan(top)
	if err != nil {
		return res, err
	}
	if err := seen.Record(s.store.Recorder()); err != nil {
		return res, err
	}
	if top != nil {
		if err := s.store.Update(func(st *State) error { st.Addresses = addresses; return nil }); err != nil {
			return res, err
		}
	}
	res = walk.Run(s.context(), p, s.options)
	if err := res.Err(); err != nil || top != nil {
		return res, err
	}
	return res, s.store.Empty(nil)
}

// destroy is what lvslab destroy does: it looks at nothing, as deleting what does
// not exist is no error.
func (b *bed) destroy(fuse *fake.Fuse) (err error) {
	s, end, err := b.open(fuse)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if _, err := s.store.Recover(); err != nil {
		return err
	}
	st := s.store.State()
	have, err := st.Existing(s.providers)
	if err != nil {
		return err
	}
	p, err := diff.Compute(diff.Input{Providers: s.providers, Have: have})
	if err != nil {
		return err
	}
	if err := walk.Run(s.context(), p, s.options).Err(); err != nil {
		return err
	}
	return s.store.Empty(nil)
}

// checkKnown: whatever exists is known to the state or to the journal, the state
// is readable and of the same lineage, and it is not emptier than the world.
func (b *bed) checkKnown(lineage string) error {
	objects, err := b.world.Objects()
	if err != nil {
		return err
	}
	st, _, err := read(b.disk, b.dir)
	if errors.Is(err, ErrNone) && len(objects) == 0 && lineage == "" {
		return nil
	}
	if err != nil {
		return err
	}
	if lineage != "" && st.Lineage != lineage {
		return fmt.Errorf("lineage %s, before %s", st.Lineage, lineage)
	}
	j, err := openJournal(b.disk, journalPath(b.dir))
	if err != nil {
		return err
	}
	intents := map[string]bool{}
	for _, in := range j.pending {
		intents[in.Subject] = true
	}
	for _, a := range objects {
		if _, known := st.Resource(a); !known && !intents[a.String()] {
			return fmt.Errorf("%s exists, and neither state nor journal knows", a)
		}
	}
	return nil
}

// checkIs: world and state are what the topology says and nothing else, the world
// is the one that the topology makes alone, and the next plan is empty.
func (b *bed) checkIs(top *labtest.Topology) error {
	s, end, err := b.open(nil)
	if err != nil {
		return err
	}
	defer end()
	if left := s.store.Pending(); len(left) > 0 {
		return fmt.Errorf("pending: %v", left)
	}
	p, seen, _, err := s.plan(top)
	if err != nil {
		return err
	}
	if !p.Empty() || len(seen.Gone)+len(seen.Changed)+len(seen.Settled) > 0 {
		return fmt.Errorf("the next plan has %+v, gone %v, changed %v, settled %v", p.Totals(), seen.Gone, seen.Changed, seen.Settled)
	}
	wanted, _, err := s.wanted(top)
	if err != nil {
		return err
	}
	st := s.store.State()
	if len(st.Resources) != len(wanted) {
		return fmt.Errorf("the state holds %d of %d", len(st.Resources), len(wanted))
	}
	for _, r := range st.Resources {
		if r.Status != OK || len(r.Half) > 0 {
			return fmt.Errorf("%s is %s, half %s", r.Addr, r.Status, r.Half)
		}
	}
	got, err := b.world.Dump()
	if err != nil {
		return err
	}
	want, err := alone(wanted)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the world is\n%s\nand would alone be\n%s", got, want)
	}
	return nil
}

// alones are the worlds of topologies by themselves; the slices are labtest's own.
var alones sync.Map

// alone returns the world that resources make when there was nothing before.
func alone(wanted []provider.Resource) (string, error) {
	if len(wanted) == 0 {
		return "", nil
	}
	if w, ok := alones.Load(&wanted[0]); ok {
		return w.(string), nil
	}
	w, err := makeAlone(wanted)
	alones.Store(&wanted[0], w)
	return w, err
}

func makeAlone(wanted []provider.Resource) (string, error) {
	w := fake.InMemory()
	p := labtest.Provider(w)
	ps, err := plan.NewProviders(p)
	if err != nil {
		return "", err
	}
	todo, err := diff.Compute(diff.Input{Providers: ps, Wanted: wanted})
	if err != nil {
		return "", err
	}
	if err := walk.Run(context.Background(), todo, walk.Options{Providers: ps, Recorder: deaf{}, Parallelism: 1}).Err(); err != nil {
		return "", err
	}
	return w.Dump()
}

// deaf is a recorder that writes nothing down.
type deaf struct{}

func (deaf) Begin(plan.Op, provider.Resource) (uint64, error)       { return 0, nil }
func (deaf) Made(uint64, provider.Resource, cty.Value, error) error { return nil }
func (deaf) Gone(uint64, ...addr.Resource) error                    { return nil }
func (deaf) Doubtful(uint64, addr.Resource, error) error            { return nil }
func (deaf) HalfDone(uint64, provider.Resource, error) error        { return nil }
func (deaf) Unchanged(uint64, error) error                          { return nil }
