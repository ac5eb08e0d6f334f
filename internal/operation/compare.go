package operation

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lvslab/lvslab/internal/artifact"
	sidebyside "github.com/lvslab/lvslab/internal/compare"
)

// Compare shows what differs between two results. A difference is no failure.
func Compare(_ context.Context, s *Settings, first, second string) (Exit, error) {
	a, errA := artifact.OpenStudy(first)
	b, errB := artifact.OpenStudy(second)
	if err := errors.Join(errA, errB); err != nil {
		return ExitError, err
	}
	c, err := sidebyside.Results(a, b)
	if err != nil {
		return ExitError, err
	}
	c.A.Dir, c.B.Dir = shownPath(c.A.Dir), shownPath(c.B.Dir)
	raw, err := json.Marshal(c)
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "compare", Text: c.Text(), Data: raw})
	return ExitDone, nil
}
