package operation

import (
	"context"
	"fmt"

	"github.com/lvslab/lvslab/plan/state"
)

// ForceUnlock removes what a holder of the lab's lock left when it died. It
// refuses while the holder lives: the error wraps [*state.LockedError].
func ForceUnlock(ctx context.Context, s *Settings, ref string) (Exit, error) {
	l, err := s.hereOnly(ctx, ref)
	if err != nil {
		return ExitError, err
	}
	left, err := state.Unlock(l.dir)
	if err != nil {
		return ExitError, err
	}
	text := fmt.Sprintf("Lab %s is not locked: a lock ends with the process that holds it.", l.state.Lab)
	if left != nil {
		text = fmt.Sprintf("Lab %s is not locked any more; forgot what was left of %s.", l.state.Lab, left)
	}
	s.Events.Emit(NoticeEvent{Text: text})
	return ExitDone, nil
}
