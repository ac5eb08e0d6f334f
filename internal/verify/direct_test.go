package verify

import (
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verify/studytest"
)

// directRun is one of the sample's runs without LVS, sent to backend.ns[1].
const directRun = "01-01-direct-ns-1"

func directStudy(t *testing.T) *studytest.Study {
	t.Helper()
	s, err := studytest.LoadDirect()
	must(t, err)
	return s
}

func TestRunsWithoutLVSFollow(t *testing.T) {
	if r := examine(t, seal(t, directStudy(t))); !r.OK() {
		t.Fatalf("problems:\n%s", all(r))
	}
}

// TestForgedRunsWithoutLVS: what the rows of a run without LVS say must be what its
// raw data shows.
func TestForgedRunsWithoutLVS(t *testing.T) {
	row := func(s *studytest.Study, backend string) *artifact.BackendRow {
		for i := range s.Rows {
			if s.Rows[i].RunID == directRun && s.Rows[i].Backend == backend {
				return &s.Rows[i]
			}
		}
		t.Fatalf("no row of %s", backend)
		return nil
	}
	for name, c := range map[string]struct {
		do   func(*studytest.Study)
		want string
	}{
		"another backend was asked": {func(s *studytest.Study) { s.Runs[0].TreatmentID = "control=direct:backend.ns[0]" },
			"is a run of control=direct:backend.ns[0], planned was a load sent to backend.ns[1]"},
		"IPVS had a part": {func(s *studytest.Study) { b := row(s, "backend.ns[1]"); b.WithoutLVS = false },
			"has counts of IPVS in a run without LVS"},
		"decisions made up": {func(s *studytest.Study) { n := 3; s.Runs[0].Decisions = &n },
			"decisions is 3, the raw data gives none"},
		"answers of another": {func(s *studytest.Study) { row(s, "backend.ns[0]").AnswersOK = 4; row(s, "backend.ns[1]").AnswersOK = 8 },
			"answers_ok is 4, the raw data gives 0"},
		"requests hidden": {func(s *studytest.Study) { row(s, "backend.ns[1]").NamedRequests = 11 },
			"named_requests is 11, the raw data gives 12"},
		"the row that was asked is gone": {func(s *studytest.Study) {
			for i := range s.Rows {
				if s.Rows[i].RunID == directRun && s.Rows[i].Backend == "backend.ns[1]" {
					s.Rows = append(s.Rows[:i], s.Rows[i+1:]...)
					break
				}
			}
		}, "has no row of backend.ns[1], which was asked"},
		"it went through the director": {func(s *studytest.Study) {
			f := "raw/" + directRun + "/counters-after.json"
			old := `"scheduler": "rr",`
			if !strings.Contains(string(s.Raw[f]), old) {
				t.Fatalf("%s has no %s", f, old)
			}
			s.Raw[f] = []byte(strings.Replace(string(s.Raw[f]), old, old+` "stats": {"in_packets": 12},`, 1))
		}, "IPVS took 12 packets in a run without it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := directStudy(t)
			c.do(s)
			if r := examine(t, seal(t, s)); r.OK() || !strings.Contains(all(r), c.want) {
				t.Errorf("want %q in\n%s", c.want, all(r))
			}
		})
	}
}
