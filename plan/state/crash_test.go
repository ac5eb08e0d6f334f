package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider/fake"
)

var errCrash = errors.New("the power went out")

// inode is a file of [model]: what was written, and how much of it is safe.
type inode struct{ data, synced []byte }

// model is a disk in memory whose operations can go wrong. Written bytes are
// safe after Sync, names after syncDir.
type model struct {
	mu   sync.Mutex // a walk writes from several goroutines
	ops  int
	dead bool // has crashed
	// fuse, when there is one, ends the process that uses the disk.
	fuse *fake.Fuse
	// fault says what goes wrong with the n-th operation, counted from 1, before
	// it has an effect; of a write the first half is there. needs tells whether
	// the operation takes room. It may be nil.
	fault       func(n int, needs bool) error
	names, safe map[string]*inode
}

// newModel returns a disk that stops at that operation, never when it is 0.
func newModel(crashAt int) *model {
	m := &model{names: map[string]*inode{}, safe: map[string]*inode{}}
	if crashAt > 0 {
		m.fault = func(n int, _ bool) error {
			if n >= crashAt {
				return errCrash
			}
			return nil
		}
	}
	return m
}

// lock keeps the others out until what it returns is called.
func (m *model) lock() (unlock func()) {
	m.mu.Lock()
	return m.mu.Unlock
}

func (m *model) step(needs bool) error {
	m.ops++
	switch {
	case raced && m.fuse.Blown():
		return fake.ErrCrashed
	case raced:
	default:
		if err := m.fuse.Step(); err != nil {
			return err
		}
	}
	if m.fault == nil {
		return nil
	}
	err := m.fault(m.ops, needs)
	m.dead = m.dead || errors.Is(err, errCrash)
	return err
}

func (m *model) create(path string, _ fs.FileMode) (file, error) {
	defer m.lock()()
	if err := m.step(true); err != nil {
		return nil, err
	}
	if m.names[path] != nil {
		return nil, fs.ErrExist
	}
	m.names[path] = &inode{}
	return &handle{m, m.names[path]}, nil
}

func (m *model) extend(path string, size int64, _ fs.FileMode) (file, error) {
	defer m.lock()()
	if err := m.step(true); err != nil {
		return nil, err
	}
	if m.names[path] == nil {
		m.names[path] = &inode{}
	}
	n := m.names[path]
	n.data = n.data[:size:size]
	return &handle{m, n}, nil
}

func (m *model) read(path string) ([]byte, error) {
	defer m.lock()()
	if n := m.names[path]; n != nil {
		return slices.Clone(n.data), nil
	}
	return nil, fs.ErrNotExist
}

func (m *model) rename(from, to string) error {
	defer m.lock()()
	if err := m.step(false); err != nil {
		return err
	}
	m.names[to] = m.names[from]
	delete(m.names, from)
	return nil
}

func (m *model) link(from, to string) error {
	defer m.lock()()
	if err := m.step(true); err != nil {
		return err
	}
	if m.names[to] != nil {
		return fs.ErrExist
	}
	m.names[to] = m.names[from]
	return nil
}

func (m *model) remove(path string) error {
	defer m.lock()()
	if err := m.step(false); err != nil {
		return err
	}
	if m.names[path] == nil {
		return fs.ErrNotExist
	}
	delete(m.names, path)
	return nil
}

func (m *model) makeDir(string, fs.FileMode) error {
	defer m.lock()()
	return m.step(true)
}

func (m *model) syncDir(dir string) error {
	defer m.lock()()
	if err := m.step(false); err != nil {
		return err
	}
	in := func(p string, _ *inode) bool { return filepath.Dir(p) == dir }
	maps.DeleteFunc(m.safe, in)
	for p, n := range m.names {
		if in(p, n) {
			m.safe[p] = n
		}
	}
	return nil
}

func (m *model) list(dir string) ([]string, error) {
	defer m.lock()()
	var names []string
	for p := range m.names {
		if filepath.Dir(p) == dir {
			names = append(names, filepath.Base(p))
		}
	}
	slices.Sort(names)
	return names, nil
}

type handle struct {
	m *model
	n *inode
}

func (h *handle) Write(b []byte) (int, error) {
	defer h.m.lock()()
	alive := !h.m.dead && !h.m.fuse.Blown()
	if err := h.m.step(true); err != nil {
		if alive { // half of it got out before the power went or the disk was full
			h.n.data = append(h.n.data, b[:len(b)/2]...)
		}
		return 0, err
	}
	h.n.data = append(h.n.data, b...)
	return len(b), nil
}

func (h *handle) Sync() error {
	defer h.m.lock()()
	if err := h.m.step(false); err != nil {
		return err
	}
	h.n.synced = slices.Clone(h.n.data)
	return nil
}

func (h *handle) Close() error {
	defer h.m.lock()()
	return h.m.step(false)
}

func (h *handle) Truncate(size int64) error {
	defer h.m.lock()()
	if err := h.m.step(false); err != nil {
		return err
	}
	h.n.data = h.n.data[:size:size]
	return nil
}

// killed returns what the next process finds when the one that wrote was killed:
// everything that reached the kernel.
func (m *model) killed() *model {
	v := newModel(0)
	for p, n := range m.names {
		v.names[p] = &inode{data: slices.Clone(n.data)}
	}
	return v
}

// after returns what a machine may find when it comes up again.
func (m *model) after() map[string]*model {
	keep := func(n *inode) []byte { return n.data }
	lose := func(n *inode) []byte { return n.synced }
	view := func(names map[string]*inode, content func(*inode) []byte) *model {
		v := newModel(0)
		for p, n := range names {
			v.names[p] = &inode{data: slices.Clone(content(n))}
		}
		return v
	}
	return map[string]*model{
		"everything written is there":     m.killed(),
		"only what was synced is there":   view(m.safe, lose),
		"names are there, bytes are lost": view(m.names, lose),
		"bytes are there, names are lost": view(m.safe, keep),
	}
}

// told is what the store has promised to a caller, and what the caller did.
type told struct {
	lineage string
	serial  uint64
	exists  map[addr.Resource]bool
}

// life is a small life of a lab: two operations, three effects. It stops at
// the first error, as a dead machine does.
func life(t *testing.T, fsys *model, dir string, p *told) error {
	t.Helper()
	ctx := context.Background()
	s, err := openOrCreate(ctx, fsys, dir, "lab", "", Options{})
	if err != nil {
		return err
	}
	defer s.lock.release() // the kernel does it when a process dies
	p.lineage, p.serial = s.State().Lineage, s.State().Serial
	if err := effect(s, p, "a", true); err != nil {
		return err
	}
	if err := effect(s, p, "b", true); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = openOrCreate(ctx, fsys, dir, "lab", "", Options{}); err != nil {
		return err
	}
	defer s.lock.release()
	if err := effect(s, p, "a", false); err != nil {
		return err
	}
	if err := effect(s, p, "b", false); err != nil {
		return err
	}
	return s.Close()
}

func effect(s *Store, p *told, label string, create bool) error {
	r, op := thing(label), plan.Create
	if !create {
		op = plan.Delete
	}
	seq, err := s.Recorder().Begin(op, r)
	if err != nil {
		return err
	}
	p.exists[r.Addr] = create // from here on the world has changed, recorded or not
	if create {
		err = s.Recorder().Made(seq, r, r.Attrs, nil)
	} else {
		err = s.Recorder().Gone(seq, r.Addr)
	}
	if err == nil {
		p.serial = s.State().Serial
	}
	return err
}

// Whatever the moment of the crash and whatever the disk has kept of the
// unsynced: the state reads, no promise is broken, and everything that may
// exist is known to the state or the journal.
func TestCrashAtEveryStep(t *testing.T) {
	steps := 0
	for at := 1; ; at++ {
		dir := t.TempDir()
		fsys := newModel(at)
		p := &told{exists: map[addr.Resource]bool{}}
		err := life(t, fsys, dir, p)
		if err != nil && !errors.Is(err, errCrash) {
			t.Fatalf("crash at %d: %v", at, err)
		}
		for name, view := range fsys.after() {
			if err := checkAfter(view, dir, p); err != nil {
				t.Errorf("crash at step %d, %s: %v", at, name, err)
			}
		}
		if err == nil {
			break
		}
		steps++
	}
	if steps < 40 {
		t.Errorf("only %d crash points: the model misses operations", steps)
	}
}

func checkAfter(view *model, dir string, p *told) error {
	s, err := open(context.Background(), view, dir, Options{})
	if errors.Is(err, ErrNone) && p.lineage == "" {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	st := s.State()
	if p.lineage != "" && st.Lineage != p.lineage {
		return fmt.Errorf("lineage %s, promised %s", st.Lineage, p.lineage)
	}
	if st.Serial < p.serial {
		return fmt.Errorf("serial %d, promised %d", st.Serial, p.serial)
	}
	if _, err := s.Recover(); err != nil {
		return err
	}
	if left := s.Pending(); len(left) > 0 {
		return fmt.Errorf("still pending: %v", left)
	}
	st = s.State()
	for a, exists := range p.exists {
		if _, known := st.Resource(a); exists && !known {
			return fmt.Errorf("%s may exist, but nobody knows", a)
		}
	}
	return nil
}

// Each operation of the disk fails by itself: once, or it and all that take room
// after it, as on a full disk, or every one after it, as on a disk that went
// read-only. The walk stops at the first error, and no promise is broken: once
// the disk works again, the next process knows everything that may exist.
func TestEveryOperationOfTheDiskFails(t *testing.T) {
	modes := map[string]func(at, n int, needs bool) bool{
		"once":      func(at, n int, _ bool) bool { return n == at },
		"full":      func(at, n int, needs bool) bool { return n >= at && needs },
		"read-only": func(at, n int, _ bool) bool { return n >= at },
	}
	points := 0
	for mode, fails := range modes {
		for at := 1; ; at++ {
			dir, fsys := t.TempDir(), newModel(0)
			failed := false
			fsys.fault = func(n int, needs bool) error {
				if !fails(at, n, needs) {
					return nil
				}
				failed = true
				return fmt.Errorf("operation %d: %w", n, syscall.ENOSPC)
			}
			p := &told{exists: map[addr.Resource]bool{}}
			err := life(t, fsys, dir, p)
			if !failed {
				break
			}
			if err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s at %d: %v", mode, at, err)
			}
			fsys.fault = nil
			if err := checkAfter(fsys, dir, p); err != nil {
				t.Errorf("%s at %d: %v", mode, at, err)
			}
			points++
		}
	}
	t.Logf("%d points", points)
	if points < 100 {
		t.Errorf("only %d points: the model misses operations", points)
	}
}

// What the kernel could not sync is lost, and the next sync says nothing of it.
func TestNoIntentAfterAFailedSync(t *testing.T) {
	fsys := newModel(0)
	s, err := openOrCreate(context.Background(), fsys, t.TempDir(), "lab", "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Recorder().Begin(plan.Create, thing("a")); err != nil {
		t.Fatal(err)
	}
	n := fsys.ops // write, then sync
	fsys.fault = func(op int, _ bool) error {
		if op == n+2 {
			return syscall.EIO
		}
		return nil
	}
	for range 2 {
		if _, err := s.Recorder().Begin(plan.Create, thing("b")); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v", err)
		}
	}
}

// A journal whose last line is cut short is continued behind its last whole line.
func TestTornLineIsCutOff(t *testing.T) {
	dir, fsys := t.TempDir(), newModel(0)
	s, err := openOrCreate(context.Background(), fsys, dir, "lab", "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := thing("a")
	if _, err := s.Recorder().Begin(plan.Create, r); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	n := fsys.names[journalPath(dir)]
	n.data = append(n.data, `{"seq":2,"op":"cre`...)
	s, err = open(context.Background(), fsys, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(Intent{Op: "loan", Subject: "experiment.e"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	pending, _, _, err := parseJournal(n.data)
	if err != nil || len(pending) != 2 || pending[1].Op != "loan" {
		t.Errorf("%+v, %v", pending, err)
	}
}
