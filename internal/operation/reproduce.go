package operation

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/reproduce"
)

// Reproduce applies the builtin topology of a paper and shows its result beside
// what the paper has published. With from it reads that result and runs nothing.
// The exit code is that of apply.
func Reproduce(ctx context.Context, s *Settings, paper, from string, o ApplyOptions) (Exit, error) {
	if paper != reproduce.TRIAC2026 {
		return ExitError, diag.Fail(nil, "No such paper", "Use "+reproduce.TRIAC2026+".", "there is no %q", paper)
	}
	exit := ExitDone
	if from == "" {
		var err error
		exit, err = Apply(ctx, s, builtinPrefix+paper, o)
		measured := exit == ExitDone || exit == ExitCheckFailed || exit == ExitBroken
		if err != nil || !measured || o.PlanOnly || o.RefreshOnly || len(o.Target) > 0 {
			return exit, err
		}
		from = filepath.Join(o.Results, paper, artifact.LatestLink)
	}
	a, err := artifact.OpenStudy(from)
	if err != nil {
		return ExitError, err
	}
	r, err := reproduce.Of(a)
	if err != nil {
		return ExitError, diag.Fail(err, "Not a result of this paper", "Name a result of builtin:"+paper+".", "%s: %v", shownPath(from), err)
	}
	r.Dir = shownPath(r.Dir)
	raw, err := json.Marshal(r)
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "reproduce", Text: r.Text(), Data: raw})
	return exit, nil
}
