package state

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

// Recorder writes down what a walk does, in the order that survives a kill at
// any point: intent, effect, state, end of the intent.
type Recorder struct{ store *Store }

// Recorder returns the store's recorder.
func (s *Store) Recorder() Recorder { return Recorder{s} }

// Begin writes the intent of a call. What is to be created although the state
// holds it was found gone: it is put in doubt first, so that [Store.Recover]
// can tell whether the creation was recorded before a crash.
func (r Recorder) Begin(op plan.Op, res provider.Resource) (uint64, error) {
	rec, err := NewResource(res, res.Attrs, Tainted)
	if err != nil {
		return 0, err
	}
	if op == plan.Create && r.store.has(res.Addr) {
		if err := r.Doubtful(0, res.Addr, nil); err != nil {
			return 0, err
		}
	}
	return r.store.Begin(Intent{Op: op, Subject: res.Addr.String(), Resource: &rec})
}

// Made records that the resource exists with these attributes, and closes the
// intent. A tainted one is recorded with cause, which is written to the journal.
func (r Recorder) Made(seq uint64, res provider.Resource, v cty.Value, cause error) error {
	status := OK
	if cause != nil {
		status = Tainted
	}
	rec, err := NewResource(res, v, status)
	if err != nil {
		return err
	}
	if err := r.store.Update(func(s *State) error { s.Put(rec); return nil }); err != nil {
		return err
	}
	return r.store.End(seq, cause)
}

// Gone records that resources do not exist any more, and closes the intent.
func (r Recorder) Gone(seq uint64, gone ...addr.Resource) error {
	err := r.store.update(func(s *State) error {
		for _, a := range gone {
			s.Drop(a)
		}
		return nil
	}, true) // the last one was really deleted
	if err != nil {
		return err
	}
	return r.store.End(seq, nil)
}

// Doubtful records that a call has failed and left an existing resource in an
// unknown condition, and closes the intent.
func (r Recorder) Doubtful(seq uint64, a addr.Resource, cause error) error {
	err := r.store.Update(func(s *State) error {
		if rec, found := s.Resource(a); found {
			rec.Status = Tainted
			s.Put(rec)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.store.End(seq, cause)
}

// HalfDone records that an update failed and may have had a part of its
// effect, and closes the intent.
func (r Recorder) HalfDone(seq uint64, res provider.Resource, cause error) error {
	attrs, err := encodeAttrs(res.Attrs)
	if err != nil {
		return fmt.Errorf("%s: %w", res.Addr, err)
	}
	err = r.store.Update(func(s *State) error {
		if rec, found := s.Resource(res.Addr); found {
			rec.Half = attrs
			s.Put(rec)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.store.End(seq, cause)
}

// Unchanged closes the intent of a call that failed without an effect that
// the state would have to know.
func (r Recorder) Unchanged(seq uint64, cause error) error { return r.store.End(seq, cause) }

// Recover turns what an interrupted walk left in the journal into state. What
// was being created may exist, so it is recorded as tainted and the next refresh
// looks for it. What was being deleted is in doubt. What was being updated keeps
// both descriptions, and the next refresh looks under both. It returns the
// intents that it resolved; those of other kinds stay pending for whoever wrote
// them.
func (s *Store) Recover() ([]Intent, error) {
	ours := slices.DeleteFunc(s.Pending(), func(in Intent) bool {
		return in.Op != plan.Create && in.Op != plan.Update && in.Op != plan.Delete
	})
	if len(ours) == 0 {
		return nil, nil
	}
	err := s.Update(func(st *State) error {
		for _, in := range ours {
			if err := in.resolve(st); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, in := range ours {
		if err := s.End(in.Seq, nil); err != nil {
			return nil, err
		}
	}
	return ours, nil
}

func (in Intent) resolve(st *State) error {
	a, err := addr.ParseResource(in.Subject)
	if err != nil {
		return fmt.Errorf("journal, intent %d: %w", in.Seq, err)
	}
	rec, found := st.Resource(a)
	switch {
	case in.Op == plan.Delete:
		if found {
			rec.Status = Tainted
			st.Put(rec)
		}
	case in.Resource == nil:
		return fmt.Errorf("journal, intent %d: it does not say what was to be made", in.Seq)
	case !found || in.Op == plan.Create && rec.Status == Tainted:
		st.Put(*in.Resource)
	case in.Op == plan.Update:
		rec.Half = in.Resource.Attrs
		st.Put(rec)
	}
	return nil
}
