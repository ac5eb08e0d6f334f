package operation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/plan/state"
)

// follow finds what has been moved since the state was written.
func follow(sk *lang.Skeleton, st state.State) (topo.Renames, diag.Diagnostics) {
	known := map[addr.Noun]bool{}
	for _, r := range st.Resources {
		known[r.Addr.Noun] = true
	}
	for slot := range st.Addresses {
		if r, err := addr.ParseResource(slot); err == nil {
			known[r.Noun] = true
		}
	}
	return topo.Follow(sk, slices.Collect(maps.Keys(known)))
}

// moves lists the renamed blocks that something exists of.
func (a *applying) moves() []topo.Rename {
	existing := map[addr.Noun]bool{}
	for _, r := range a.stored().Resources {
		existing[r.Addr.Noun] = true
	}
	return slices.DeleteFunc(a.study.renames.Sorted(), func(r topo.Rename) bool { return !existing[r.From] })
}

// movesText shows them.
func movesText(moves []topo.Rename) string {
	var b strings.Builder
	for _, m := range moves {
		fmt.Fprintf(&b, "  # %s has moved to %s\n", m.From, m.To)
	}
	return b.String()
}

// writeMoves writes the names of today to the state.
func (a *applying) writeMoves() error {
	err := a.store.Move(a.study.renames, func(s *state.State) error {
		s.Identities = a.study.layout.Identities
		return nil
	})
	if err == nil {
		a.study.renames = nil
	}
	return err
}

// onlyMoves ends an apply that has names to write and nothing to do.
func (a *applying) onlyMoves() (Exit, error) {
	if err := a.makeRoom(); err != nil {
		return ExitError, err
	}
	a.Events.Emit(SummaryEvent{Text: "The state says so now; nothing else was to be done."})
	return ExitDone, nil
}
