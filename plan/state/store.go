package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
)

// Options of [Open] and [OpenOrCreate].
type Options struct {
	// Lvslab is the version that writes, for the file.
	Lvslab string
	// Command names the caller to others who wait; the command line when empty.
	Command string
	// LockTimeout is how long to wait for another process; 0 = not at all.
	LockTimeout time.Duration
	// Lineage is what a new state gets; empty = a drawn one. A saved plan of a lab
	// without a state has decided already.
	Lineage string
	// Waiting is called once when another process holds the lock and waiting begins.
	Waiting func(Holder)
}

// Store is a lab's directory, locked by this process. Its methods may be
// called concurrently.
//
// A sync takes 2 ms on a good disk and 30 ms on a bad one, and a walk records
// many small things at the same time. So a change is made in memory first, and
// then whoever comes to write writes everything that has come together by then.
type Store struct {
	dir    string
	lvslab string
	fsys   files
	lock   *lock

	mu      sync.Mutex // guards what follows
	state   State
	text    []byte // the state, encoded when it was changed
	version uint64 // counts the changes in memory
	journal *journal
	closed  bool

	io       sync.Mutex // is held while the disk is written; taken before mu
	onDisk   []byte     // what state.json holds, nil when there is none yet
	written  uint64     // version of what is on the disk
	backedUp bool
}

// Read returns the state of a lab's directory without taking its lock, for
// commands that only look. The error wraps [ErrNone] when there is none.
func Read(dir string) (State, error) {
	s, _, err := read(disk{}, dir)
	return s, err
}

func statePath(dir string) string   { return filepath.Join(dir, "state.json") }
func journalPath(dir string) string { return filepath.Join(dir, "journal.jsonl") }

func read(fsys files, dir string) (State, []byte, error) {
	path := statePath(dir)
	b, err := fsys.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil, absent(fsys, dir)
	}
	if err != nil {
		return State{}, nil, unreadableFailure(path, err)
	}
	s, err := decode(b)
	if err != nil {
		return State{}, nil, unreadableFailure(path, err)
	}
	return s, b, nil
}

// absent tells a directory that never had a state from one that has lost it.
func absent(fsys files, dir string) error {
	backups, err := fsys.list(filepath.Join(dir, "backups"))
	if err != nil {
		return err
	}
	journal, err := fsys.read(journalPath(dir))
	if err := ignoreMissing(err); err != nil {
		return err
	}
	if len(backups) > 0 || len(journal) > 0 {
		return missingFailure(statePath(dir), filepath.Base(dir))
	}
	return noneFailure(statePath(dir))
}

// Open locks a lab's directory and reads its state and journal. Errors wrap
// [*LockedError], [ErrNone], [ErrMissing], [ErrUnreadable], [ErrNewer] or
// [ErrJournal]. The context bounds only the wait for the lock.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, noneFailure(statePath(dir))
	}
	return open(ctx, disk{}, dir, o)
}

// OpenOrCreate is [Open] for a lab that may have no state yet: then it gets a
// lineage, which is on the disk when OpenOrCreate returns.
func OpenOrCreate(ctx context.Context, dir, lab, source string, o Options) (*Store, error) {
	if err := (disk{}).makeDir(dir, 0o755); err != nil {
		return nil, dirFailure(dir, err)
	}
	return openOrCreate(ctx, disk{}, dir, lab, source, o)
}

func openOrCreate(ctx context.Context, fsys files, dir, lab, source string, o Options) (*Store, error) {
	l, err := acquire(ctx, dir, o.Command, o.LockTimeout, o.Waiting)
	if err != nil {
		return nil, err
	}
	s, err := load(fsys, dir, l, o)
	if errors.Is(err, ErrNone) {
		s = &Store{dir: dir, lvslab: o.Lvslab, fsys: fsys, lock: l, backedUp: true}
		s.journal = &journal{fsys: fsys, path: journalPath(dir), next: 1}
		s.state = State{Version: Version, Lvslab: o.Lvslab, Lineage: cmp.Or(o.Lineage, NewLineage()), Serial: 1, Lab: lab, Source: source}
		s.version = 1
		if err = s.state.check(); err == nil {
			s.text, err = s.state.encode()
		}
		if err == nil {
			err = s.flush(s.version)
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return s, nil
}

func open(ctx context.Context, fsys files, dir string, o Options) (*Store, error) {
	l, err := acquire(ctx, dir, o.Command, o.LockTimeout, o.Waiting)
	if err != nil {
		return nil, err
	}
	s, err := load(fsys, dir, l, o)
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return s, nil
}

func load(fsys files, dir string, l *lock, o Options) (*Store, error) {
	st, b, err := read(fsys, dir)
	if err != nil {
		return nil, err
	}
	j, err := openJournal(fsys, journalPath(dir))
	if err != nil {
		return nil, err
	}
	return &Store{dir: dir, lvslab: o.Lvslab, fsys: fsys, lock: l, state: st, onDisk: b, journal: j}, nil
}

// Dir returns the lab's directory.
func (s *Store) Dir() string { return s.dir }

// State returns a copy of the state as it is now.
func (s *Store) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.clone()
}

// clone copies what may be changed in place. Raw JSON and lists of
// dependencies are replaced as a whole, never edited.
func (s *State) clone() State {
	c := *s
	c.Resources = slices.Clone(s.Resources)
	c.Addresses = maps.Clone(s.Addresses)
	c.Outputs = maps.Clone(s.Outputs)
	c.Identities = maps.Clone(s.Identities)
	return c
}

// Update changes the state and writes it when it has changed, with the next
// serial. An error of the callback changes nothing. When writing fails, the
// change is kept in memory and goes with the next write; the error tells.
//
// A change that forgets a resource is refused with [ErrForgetting]: only what is
// proven gone is forgotten, by [Recorder.Gone] and [Store.Empty].
func (s *Store) Update(change func(*State) error) error {
	return s.update(change, false)
}

// has reports whether the state holds a resource that is not in doubt.
func (s *Store) has(a addr.Resource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, found := s.state.Resource(a)
	return found && r.Status == OK
}

// Empty is [Store.Update] for those who have proved that nothing is left: it
// forgets all resources and the hypervisor, then applies the change, which may
// be nil.
func (s *Store) Empty(change func(*State) error) error {
	return s.update(func(st *State) error {
		st.Resources, st.Hypervisor = nil, nil
		if change == nil {
			return nil
		}
		return change(st)
	}, true)
}

func (s *Store) update(change func(*State) error, mayForget bool) error {
	version, err := s.apply(change, mayForget)
	if err != nil {
		return err
	}
	return s.flush(version)
}

// apply makes the change in memory and returns the version to be written.
func (s *Store) apply(change func(*State) error, mayForget bool) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, ErrClosed
	}
	next := s.state.clone()
	if err := change(&next); err != nil {
		return 0, err
	}
	switch {
	case next.Lineage != s.state.Lineage:
		return 0, fmt.Errorf("%w from %s to %s", ErrLineage, s.state.Lineage, next.Lineage)
	case !mayForget:
		if lost := forgotten(s.state, next); len(lost) > 0 {
			return 0, fmt.Errorf("%w: %v", ErrForgetting, lost)
		}
	}
	if same(&next, &s.state) {
		return s.version, nil
	}
	next.Version, next.Lvslab, next.Serial = Version, s.lvslab, s.state.Serial+1
	if err := next.check(); err != nil {
		return 0, fmt.Errorf("state: %w", err)
	}
	text, err := next.encode()
	if err != nil {
		return 0, err
	}
	s.state, s.text = next, text
	s.version++
	return s.version, nil
}

// forgotten lists what the next state does not hold any more.
func forgotten(now, next State) []addr.Resource {
	var lost []addr.Resource
	for _, r := range now.Resources {
		if _, kept := next.find(r.Addr); !kept {
			lost = append(lost, r.Addr)
		}
	}
	return lost
}

// flush returns when that version or a later one is on the disk. The first
// write of a store keeps what it found as a backup.
func (s *Store) flush(version uint64) error {
	s.io.Lock()
	defer s.io.Unlock()
	if s.written >= version {
		return nil
	}
	s.mu.Lock()
	text, version := s.text, s.version
	s.mu.Unlock()
	path := statePath(s.dir)
	if !s.backedUp {
		if err := s.backUp(path); err != nil {
			return writeFailure(path, s.onDisk == nil, fmt.Errorf("backup: %w", err))
		}
		s.backedUp = true
	}
	if err := writeFile(s.fsys, path, text, 0o600); err != nil {
		return writeFailure(path, s.onDisk == nil, err)
	}
	s.onDisk, s.written = text, version
	return nil
}

// Begin writes an intent and syncs it; only then may its effect be begun.
func (s *Store) Begin(in Intent) (seq uint64, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, ErrClosed
	}
	seq, err = s.journal.begin(in)
	s.mu.Unlock()
	if err != nil {
		return 0, intentFailure(s.journal.path, err)
	}
	s.io.Lock()
	defer s.io.Unlock()
	s.mu.Lock()
	f, written := s.journal.f, s.journal.next-1
	s.mu.Unlock()
	// The journal is neither closed nor begun anew meanwhile: seq is pending.
	if err := s.journal.sync(f, seq, written); err != nil {
		return seq, intentFailure(s.journal.path, err)
	}
	return seq, nil
}

// End closes an intent. Write the state first. The sequence number 0 stands
// for no intent at all.
func (s *Store) End(seq uint64, failed error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case seq == 0:
		return nil
	}
	return s.journal.end(seq, failed)
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Pending returns the intents that have no end: those of calls in flight and
// those that an earlier process left.
func (s *Store) Pending() []Intent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal.pending)
}

// Close gives the lock back. Intents that are open stay in the journal.
func (s *Store) Close() error {
	s.io.Lock()
	defer s.io.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.journal.close(), s.lock.release())
}
