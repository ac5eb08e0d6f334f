package operation

import (
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/artifact"
)

// A second apply of a study that is complete has nothing to do and exits 0. It says how
// the first has ended, or a failure would read as if it had gone away.
func TestCompleteButAmiss(t *testing.T) {
	for name, c := range map[string]struct {
		last func(*artifact.Run)
		exit Exit
		want string
	}{
		"well":          {func(*artifact.Run) {}, ExitDone, ""},
		"check failed":  {func(r *artifact.Run) { r.Unanswered = 1 }, ExitCheckFailed, " It has ended with exit code 3: check failed."},
		"run not valid": {func(r *artifact.Run) { r.Valid = false }, ExitBroken, " It has ended with exit code 4, runs not valid: 1 of 5."},
	} {
		t.Run(name, func(t *testing.T) {
			results := memory(t)
			a, _ := sitting(t, results, 1)
			w := a.open(t, len(a.todo)-1)
			planned, err := a.planned()
			if err != nil {
				t.Fatal(err)
			}
			last := a.todo[len(a.todo)-1]
			a.fakeRun(t, w, last, planned[last.RunID], c.last)
			if exit, err := a.conclude(t.Context(), w); err != nil || exit != c.exit {
				t.Fatalf("exit %d, %v", exit, err)
			}
			again, _ := sitting(t, results, 1)
			want := "the study is complete in " + shownPath(w.Dir()) + "." + c.want
			if got := again.trialsLine(); got != "Trials: none, "+want {
				t.Errorf("plan says %q", got)
			}
			if got := again.idleText(); !strings.HasPrefix(got, "Nothing to do: "+want+"\n") {
				t.Errorf("apply says %q", got)
			}
		})
	}
}
