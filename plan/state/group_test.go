package state

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lvslab/lvslab/plan"
)

// slow is the real disk, counted, with a sync that takes its time.
type slow struct {
	disk
	syncs atomic.Int64
}

type slowFile struct {
	file
	s *slow
}

func (s *slow) create(path string, perm fs.FileMode) (file, error) {
	f, err := s.disk.create(path, perm)
	return slowFile{f, s}, err
}

func (s *slow) extend(path string, size int64, perm fs.FileMode) (file, error) {
	f, err := s.disk.extend(path, size, perm)
	return slowFile{f, s}, err
}

func (f slowFile) Sync() error {
	f.s.syncs.Add(1)
	time.Sleep(10 * time.Millisecond)
	return f.file.Sync()
}

// What is recorded at the same time is written together.
func TestSimultaneousRecordsShareSyncs(t *testing.T) {
	const n = 24
	dir, fsys := t.TempDir(), &slow{}
	s, err := openOrCreate(context.Background(), fsys, dir, "lab", "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := fsys.syncs.Load()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := thing(fmt.Sprint("m", i))
			seq, err := s.Recorder().Begin(plan.Create, r)
			if err == nil {
				err = s.Recorder().Made(seq, r, r.Attrs, nil)
			}
			if err != nil {
				t.Error(err)
			}
			// Made has returned: the disk must know.
			st, err := Read(dir)
			if _, found := st.Resource(r.Addr); err != nil || !found {
				t.Errorf("%s was recorded, but is not on the disk: %v", r.Addr, err)
			}
		})
	}
	wg.Wait()
	if got := fsys.syncs.Load() - before; got > n {
		t.Errorf("%d syncs for %d intents and as many records", got, n)
	}
	if st, err := Read(dir); err != nil || len(st.Resources) != n || len(s.Pending()) != 0 {
		t.Errorf("%d resources, %v, pending %v", len(st.Resources), err, s.Pending())
	}
}
