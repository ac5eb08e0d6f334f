package state

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lvslab/lvslab/plan"
)

// BenchmarkRecord is what one call of a walk costs on the disk: intent, state
// and the end of the intent, alone and with seven others at the same time.
func BenchmarkRecord(b *testing.B) {
	var n atomic.Int64
	record := func(b *testing.B, s *Store) {
		r := thing(fmt.Sprint("m", n.Add(1)%30))
		seq, err := s.Recorder().Begin(plan.Create, r)
		if err == nil {
			err = s.Recorder().Made(seq, r, r.Attrs, fmt.Errorf("attempt %d", n.Load()))
		}
		if err == nil {
			err = s.Update(func(st *State) error { st.Study = fmt.Sprint(n.Load()); return nil })
		}
		if err != nil {
			b.Error(err)
		}
	}
	open := func(b *testing.B) *Store {
		s, err := OpenOrCreate(b.Context(), b.TempDir(), "lab", "", Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return s
	}
	b.Run("alone", func(b *testing.B) {
		s := open(b)
		for b.Loop() {
			record(b, s)
		}
	})
	b.Run("together", func(b *testing.B) {
		s := open(b)
		b.SetParallelism(4) // goroutines for each of two processors
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				record(b, s)
			}
		})
	})
}
