package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/plan/walk"
)

// showDrift compares what exists with what the state says, without lock and
// effect, and reports whether they differ.
func (a *applying) showDrift(ctx context.Context) (Exit, bool, error) {
	var err error
	if a.keys, err = openKeys(a.dir, nil); err != nil {
		return ExitError, false, err
	}
	defer func() { a.host.close(); a.host = nil }()
	if err := a.lookAround(ctx); err != nil {
		return ExitError, false, err
	}
	if !a.reality.differs() {
		return ExitDone, false, a.tellDrift("No changes: what exists is what the state says.")
	}
	return ExitDone, true, a.tellDrift("Nothing was changed. lvslab apply --refresh-only writes this to the state; lvslab apply repairs it.")
}

// writeDrift writes what exists to the state, under the lab's lock. It touches
// nothing but the state, so it asks nothing.
func (a *applying) writeDrift(ctx context.Context) (Exit, error) {
	var err error
	a.store, err = state.Open(ctx, a.dir, a.storeOptions())
	if errors.Is(err, state.ErrNone) {
		return ExitDone, a.tellDrift("No changes: this lab has no state.")
	}
	if err != nil {
		return ExitError, err
	}
	defer a.store.Close()
	if _, err := a.store.Recover(); err != nil {
		return ExitError, err
	}
	if err := a.resolve(a.study, a.stored()); err != nil {
		return ExitError, err
	}
	if err := a.writeMoves(); err != nil {
		return ExitError, err
	}
	if a.keys, err = openKeys(a.dir, a.store); err != nil {
		return ExitError, err
	}
	defer func() { a.host.close(); a.host = nil }()
	if err := a.lookAround(ctx); err != nil {
		return ExitError, err
	}
	if err := a.recordDrift(); err != nil {
		return ExitError, err
	}
	if !a.reality.differs() {
		return ExitDone, a.tellDrift("No changes: what exists is what the state says.")
	}
	return ExitDone, a.tellDrift(fmt.Sprintf("The state says so now, serial %d.", a.store.State().Serial))
}

// recordDrift forgets what is proven gone and keeps what was read.
func (a *applying) recordDrift() error {
	if a.host == nil { // the hypervisor has ended, and everything with it
		return a.store.Empty(nil)
	}
	seen := walk.Refreshed{Have: a.reality.have, Gone: a.reality.gone, Changed: a.reality.changed, Settled: a.reality.settled}
	return seen.Record(a.store.Recorder())
}

func (r reality) differs() bool { return len(r.changed)+len(r.gone) > 0 }

// tellDrift shows the differences and what came of them.
func (a *applying) tellDrift(end string) error {
	var b strings.Builder
	type change struct {
		Address  addr.Resource   `json:"address"`
		Recorded json.RawMessage `json:"recorded"`
		Found    json.RawMessage `json:"found"`
	}
	changes := []change{}
	for _, e := range a.reality.have {
		if !slices.Contains(a.reality.changed, e.Addr) {
			continue
		}
		recorded := a.reality.recorded[e.Addr]
		for _, l := range diff.Drift(e, recorded) {
			b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
		}
		b.WriteString("\n")
		c := change{Address: e.Addr}
		var err error
		if c.Recorded, err = valueJSON(recorded); err != nil {
			return err
		}
		if c.Found, err = valueJSON(e.Value); err != nil {
			return err
		}
		changes = append(changes, c)
	}
	gone := map[string]string{}
	for _, r := range slices.SortedFunc(maps.Keys(a.reality.gone), addr.Resource.Compare) {
		gone[r.String()] = a.reality.gone[r]
		fmt.Fprintf(&b, "  - %s is gone: %s\n", r, a.reality.gone[r])
	}
	if len(gone) > 0 {
		b.WriteString("\n")
	}
	if len(changes)+len(gone) > 0 {
		fmt.Fprintf(&b, "%d changed outside lvslab, %d gone. ", len(changes), len(gone))
	}
	raw, err := json.Marshal(struct {
		Lab     string            `json:"lab"`
		Changed []change          `json:"changed"`
		Gone    map[string]string `json:"gone"`
		Serial  uint64            `json:"serial"`
	}{a.study.config.LabName(), changes, gone, a.state().Serial})
	if err == nil {
		a.Events.Emit(ReportEvent{Kind: "refresh", Text: a.study.redact(b.String() + end), Data: json.RawMessage(a.study.redact(string(raw)))})
	}
	return err
}
