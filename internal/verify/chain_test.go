package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verify/studytest"
)

// A study in two results is examined as a whole: files, plans and raw data of both,
// and verdicts over the rows of both.
func TestStudyInTwoResults(t *testing.T) {
	one := examine(t, seal(t, study(t)))
	results := t.TempDir()
	parent, child, err := study(t).Split(results, 1)
	must(t, err)
	dir, err := child.Seal(results)
	must(t, err)
	r := examine(t, dir)
	if !r.OK() {
		t.Fatalf("problems:\n%s", all(r))
	}
	compared := func(r Report) map[string]int {
		out := map[string]int{}
		for _, c := range r.Checks {
			out[c.Name] = c.Compared
		}
		delete(out, "files")
		return out
	}
	want := compared(one)
	want["parents"] = 4
	for name, n := range want {
		if got := compared(r)[name]; got != n {
			t.Errorf("%s: %d compared, %d when it is one result", name, got, n)
		}
	}
	if len(compared(r)) != len(want) {
		t.Errorf("checks %v, want %v", compared(r), want)
	}

	run := filepath.Base(parent)
	for _, c := range []struct{ file, want string }{
		{"raw/01-01-rr/queries.csv", "parents: ../" + run + "/raw/01-01-rr/queries.csv: is changed"},
		{artifact.RunsFile, "parents: ../" + run + "/runs.csv: is changed"},
		{artifact.ManifestFile, "parents: manifest.json: " + dir + " adds blocks to " + parent + ", whose manifest.json was changed since."},
	} {
		path := filepath.Join(parent, c.file)
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, append(data[:len(data):len(data)], '\n'), 0o644))
		if got := all(examine(t, dir)); !strings.Contains(got, c.want) {
			t.Errorf("%s was changed: want %q in\n%s", c.file, c.want, got)
		}
		must(t, os.WriteFile(path, data, 0o644))
	}
	must(t, os.RemoveAll(parent))
	if got := all(examine(t, dir)); !strings.Contains(got, "which cannot be read") {
		t.Errorf("the parent is gone:\n%s", got)
	}
}

// Blocks that are there twice, or not at all, are named; numbers that do not follow
// are named by the result that has them.
func TestForgedChains(t *testing.T) {
	for _, c := range []struct {
		name   string
		parent func(*studytest.Study)
		child  func(*studytest.Study)
		want   string
	}{
		{"a block that is missing", nil, func(s *studytest.Study) { s.Runs = s.Runs[:1]; s.Rows = s.Rows[:3] },
			"parents: runs.csv: experiment schedulers: block 2 has no run of"},
		{"a block that is there twice", nil, func(s *studytest.Study) { s.Runs[0].Block = 1 }, "is in block 1 already, as 01-0"},
		{"numbers of the parent", func(s *studytest.Study) { s.Runs[0].AnswersOK-- }, nil,
			"outcomes: ../20000101T000000Z-0000/runs.csv, 01-01-rr: answers_ok is 11, the raw data gives 12"},
		{"another order", nil, func(s *studytest.Study) { s.Runs[0], s.Runs[1] = s.Runs[1], s.Runs[0] }, "plan: runs.csv, 02-03-"},
	} {
		results := t.TempDir()
		s := study(t)
		if c.parent != nil {
			c.parent(s)
		}
		_, child, err := s.Split(results, 1)
		must(t, err)
		if c.child != nil {
			c.child(child)
		}
		dir, err := child.Seal(results)
		must(t, err)
		if got := all(examine(t, dir)); !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q in\n%s", c.name, c.want, got)
		}
	}
}

// Runs stand in the order in which they were planned; a session that continues an
// interrupted study may go back once.
func TestOrderOverSessions(t *testing.T) {
	for sessions, ok := range map[int]bool{0: false, 1: false, 2: true} {
		s := study(t)
		s.Runs[1], s.Runs[2] = s.Runs[2], s.Runs[1]
		s.Manifest.Sessions = make([]artifact.Session, sessions)
		if got := all(examine(t, seal(t, s))); strings.Contains(got, "comes after") == ok {
			t.Errorf("%d sessions:\n%s", sessions, got)
		}
	}
}
