package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/plan/state"
)

// concluding is the data of the intent to conclude: the result as it is called
// once it is sealed.
type concluding struct {
	Result string `json:"result"` // absolute
}

// beginConclusion writes down that a result is about to be sealed. Sealed it makes
// the study complete: without the intent, the next apply would find nothing to do,
// and outputs and checks would never have been.
func (a *applying) beginConclusion(w *artifact.Writer) (uint64, error) {
	final, err := filepath.Abs(strings.TrimSuffix(w.Dir(), artifact.PartialSuffix))
	if err != nil {
		return 0, fmt.Errorf("directory of the result: %w", err)
	}
	data, err := json.Marshal(concluding{final})
	if err != nil {
		return 0, err
	}
	return a.store.Begin(state.Intent{Op: opConclude, Subject: "lab." + a.study.topology.Lab.Name, Data: data})
}

// resumeConclusion goes on where an earlier apply was killed between sealing its
// result and ending, and reports whether it did: then this apply is done. It looks
// at the result: one that was not sealed stays a partial one, and one of another
// study, or that is to be repeated, has nothing more to say.
func (a *applying) resumeConclusion(ctx context.Context) (bool, Exit, error) {
	if a.opts.noStudy() {
		return false, ExitDone, nil
	}
	for _, in := range a.store.Pending() {
		if in.Op != opConclude {
			continue
		}
		var c concluding
		if err := json.Unmarshal(in.Data, &c); err != nil {
			return false, ExitError, fmt.Errorf("conclusion in the journal: %w", err)
		}
		if !a.awaits(c.Result) {
			if err := a.store.End(in.Seq, nil); err != nil {
				return false, ExitError, err
			}
			continue
		}
		a.Events.Emit(NoticeEvent{Text: "An earlier apply was ended right after it had sealed " + shownPath(c.Result) + "; what it left out is done now."})
		e, err := a.evaluation(nil, c.Result)
		if err != nil {
			return true, ExitError, err
		}
		exit, err := a.settled(context.WithoutCancel(ctx), in.Seq, e, a.result, "")
		return true, exit, err
	}
	return false, ExitDone, nil
}

// awaits reports whether a result is the one that makes this apply's study
// complete.
func (a *applying) awaits(result string) bool {
	mine, err := filepath.Abs(a.result)
	return a.result != "" && err == nil && mine == result && len(a.todo) == 0
}

// ofTheLab leaves out the intents that outlive the lab: what was measured is to be
// concluded though its machines have gone.
func ofTheLab(pending []state.Intent) []state.Intent {
	return slices.DeleteFunc(slices.Clone(pending), func(in state.Intent) bool { return in.Op == opConclude })
}
