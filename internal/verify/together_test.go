package verify

import (
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/verify/studytest"
)

const startsOfClients = "raw/01-01-dh/starts.json"

func TestStartsFollow(t *testing.T) {
	s, err := studytest.LoadClients()
	must(t, err)
	if r := examine(t, seal(t, s)); !r.OK() {
		t.Fatalf("problems:\n%s", all(r))
	}
	// A run of a session before starts were kept.
	delete(s.Raw, startsOfClients)
	delete(s.Raw, "raw/01-01-dh/clients.csv")
	s.Runs[0].StartSpreadS = nil
	told := false
	r := examine(t, seal(t, s))
	for _, c := range r.Checks {
		told = told || strings.Contains(strings.Join(c.Notes, "\n"), "how far apart clients began was not kept")
	}
	if !r.OK() || !told {
		t.Errorf("without starts: told %v\n%s", told, all(r))
	}
}

func TestForgedClients(t *testing.T) {
	const file = "raw/01-01-dh/clients.csv"
	for name, c := range map[string]struct{ old, new, want string }{
		"another's address":   {"client.d,198.18.0.140", "client.d,198.18.0.141", "has not the address 198.18.0.140 that its first packet came from"},
		"began earlier":       {"0.003000,12", "0.001000,12", `started_s is not "0.003000"`},
		"more queries":        {"0.003000,12,12", "0.003000,13,12", `queries_sent is not "12"`},
		"a client is missing": {"client.d,198.18.0.140", "", "has 1 rows, the run 2 clients"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := studytest.LoadClients()
			must(t, err)
			text := string(s.Raw[file])
			if !strings.Contains(text, c.old) {
				t.Fatalf("no %q in\n%s", c.old, text)
			}
			if c.new != "" {
				text = strings.Replace(text, c.old, c.new, 1)
			} else {
				text = text[:strings.Index(text, c.old)]
			}
			s.Raw[file] = []byte(text)
			if r := examine(t, seal(t, s)); r.OK() || !strings.Contains(all(r), c.want) {
				t.Errorf("want %q in\n%s", c.want, all(r))
			}
		})
	}
}

func TestForgedStarts(t *testing.T) {
	file := func(old, new string) func(*studytest.Study) {
		return func(s *studytest.Study) {
			if !strings.Contains(string(s.Raw[startsOfClients]), old) {
				t.Fatalf("no %q in %s", old, s.Raw[startsOfClients])
			}
			s.Raw[startsOfClients] = []byte(strings.ReplaceAll(string(s.Raw[startsOfClients]), old, new))
		}
	}
	for name, c := range map[string]struct {
		do   func(*studytest.Study)
		want string
	}{
		"closer than they were": {func(s *studytest.Study) { d := 0.001; s.Runs[0].StartSpreadS = &d }, "start_spread_s is 0.001000, the raw data gives 0.003000"},
		"not told":              {func(s *studytest.Study) { s.Runs[0].StartSpreadS = nil }, "start_spread_s is empty, the raw data gives 0.003000"},
		"another bound":         {file(`"within_s": 0.05`, `"within_s": 0.5`), "within_s is 0.5, planned was 0.05"},
		"apart and not flagged": {func(s *studytest.Study) {
			s.Plan = []byte(strings.ReplaceAll(string(s.Plan), `"start_within": 50000000`, `"start_within": 2000000`))
			file(`"within_s": 0.05`, `"within_s": 0.002`)(s)
		}, "starts.json says clients_apart: true"},
		"flagged and not apart": {func(s *studytest.Study) { s.Runs[0].OutcomeFlags, s.Runs[0].Valid = []string{"clients_apart"}, false },
			"starts.json says clients_apart: false"},
		"flagged, and valid all the same": {func(s *studytest.Study) { s.Runs[0].OutcomeFlags = []string{"clients_apart"} }, "valid is true"},
		"one client made another":         {file(`"client": "client.d"`, `"client": "client.c[0]"`), "starts.json says start_unknown: true"},
		"a spread without clients": {func(s *studytest.Study) {
			s.Plan = []byte(strings.ReplaceAll(string(s.Plan), `"clients": 2`, `"clients": 1`))
		}, "start_spread_s is 0.003000, the raw data gives none"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := studytest.LoadClients()
			must(t, err)
			c.do(s)
			if r := examine(t, seal(t, s)); r.OK() || !strings.Contains(all(r), c.want) {
				t.Errorf("want %q in\n%s", c.want, all(r))
			}
		})
	}
}
