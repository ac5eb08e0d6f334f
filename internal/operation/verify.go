package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/verify"
)

// shownProblems is how many problems of one kind the screen lists.
const shownProblems = 20

// Verify examines a result: every file, every derived number, the verdicts. What
// does not follow is shown, and makes the exit code 1.
func Verify(ctx context.Context, s *Settings, dir string) (Exit, error) {
	r, err := verify.Result(ctx, dir)
	if err != nil {
		return ExitError, err
	}
	r.Dir = shownPath(r.Dir)
	raw, err := json.Marshal(r)
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "verify", Text: verifyText(r), Data: raw})
	if !r.OK() {
		return ExitError, nil
	}
	return ExitDone, nil
}

func verifyText(r verify.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Dir)
	for _, c := range r.Checks {
		mark := "ok"
		if n := len(c.Problems); n > 0 {
			mark = count(n, "problem")
		}
		fmt.Fprintf(&b, "  %-9s %7d %-8s %s: %s\n", c.Name, c.Compared, c.Unit, c.What, mark)
		for i, p := range c.Problems {
			if i == shownProblems {
				fmt.Fprintf(&b, "            ✗ and %d more\n", len(c.Problems)-i)
				break
			}
			fmt.Fprintf(&b, "            ✗ %s\n", p)
		}
		for _, n := range c.Notes {
			fmt.Fprintf(&b, "            – %s\n", n)
		}
	}
	if r.OK() {
		b.WriteString("Everything follows: the result is as it was sealed, and its numbers and verdicts are what the raw data gives.")
	} else {
		fmt.Fprintf(&b, "%s: do not rely on what is named above.", count(r.Problems(), "problem"))
	}
	return b.String()
}
