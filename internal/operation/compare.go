package operation

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lvslab/lvslab/internal/artifact"
	sidebyside "github.com/lvslab/lvslab/internal/compare"
)

// CompareOptions are what lvslab compare can be told.
type CompareOptions struct {
	// DetailedExitCode: outcomes that differ, and treatments that only one result
	// has, are ExitCheckFailed. Inputs and times are not looked at.
	DetailedExitCode bool
}

// Compare shows what differs between two results. A difference is no failure unless
// it is asked to be one.
func Compare(_ context.Context, s *Settings, first, second string, o CompareOptions) (Exit, error) {
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
	if o.DetailedExitCode && (c.Alike() < len(c.Treatments) || len(c.OnlyA)+len(c.OnlyB) > 0 || len(c.Treatments) == 0) {
		return ExitCheckFailed, nil
	}
	return ExitDone, nil
}
