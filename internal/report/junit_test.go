package report

import (
	"encoding/xml"
	"fmt"
	"testing"

	"github.com/lvslab/lvslab/internal/verdict"
)

// parse reads the file back as a CI server does: by element, counts apart.
func parse(t *testing.T, b []byte, err error) junitSuites {
	t.Helper()
	must(t, err)
	var got junitSuites
	must(t, xml.Unmarshal(b, &got))
	var tests, failures, errors, skipped int
	for _, s := range got.Suites {
		var f, e, k int
		for _, c := range s.Cases {
			f, e, k = f+count(c.Failure), e+count(c.Error), k+count(c.Skipped)
		}
		if len(s.Cases) != s.Tests || f != s.Failures || e != s.Errors || k != s.Skipped {
			t.Errorf("suite %s says %d %d %d %d, holds %d %d %d %d", s.Name, s.Tests, s.Failures, s.Errors, s.Skipped, len(s.Cases), f, e, k)
		}
		tests, failures, errors, skipped = tests+s.Tests, failures+f, errors+e, skipped+k
	}
	if got.Tests != tests || got.Failures != failures || got.Errors != errors || got.Skipped != skipped {
		t.Errorf("the file says %d %d %d %d, holds %d %d %d %d", got.Tests, got.Failures, got.Errors, got.Skipped, tests, failures, errors, skipped)
	}
	return got
}

func count(n *junitNote) int {
	if n == nil {
		return 0
	}
	return 1
}

// of returns the notes of a case by its name: failure, error, skipped.
func (a junitSuites) of(t *testing.T, name string) (failure, err, skipped *junitNote) {
	t.Helper()
	for _, s := range a.Suites {
		for _, c := range s.Cases {
			if c.Name == name {
				return c.Failure, c.Error, c.Skipped
			}
		}
	}
	t.Fatalf("no case %q", name)
	return nil, nil, nil
}

func TestJUnitSuiteIsExperiment(t *testing.T) {
	in := sample(1)
	b, err := Build(in).JUnit(in.Runs)
	got := parse(t, b, err)
	if len(got.Suites) != 1 || got.Suites[0].Name != "schedulers" {
		t.Errorf("suites: %+v", got.Suites)
	}
	other := in.Facts[0]
	other.Experiment = "other"
	in.Facts = append(in.Facts, other)
	b, err = Build(in).JUnit(in.Runs)
	names := ""
	for _, s := range parse(t, b, err).Suites {
		names += s.Name + " "
	}
	if names != "checks schedulers other " {
		t.Errorf("with two experiments: %s", names)
	}
}

func TestJUnitCheckFails(t *testing.T) {
	in := sample(1)
	b, err := Build(in).JUnit(in.Runs)
	got := parse(t, b, err)
	if got.Failures != 1 || got.Errors != 0 {
		t.Errorf("%d failures, %d errors", got.Failures, got.Errors)
	}
	if f, e, _ := got.of(t, "even <shares>"); f == nil || e != nil || f.Message != "dh | got everything & more" {
		t.Errorf("%+v %+v", f, e)
	}
	if f, _, _ := got.of(t, "nothing_lost"); f != nil {
		t.Errorf("a check that holds: %+v", f)
	}
}

func TestJUnitErrorOfLab(t *testing.T) {
	in := sample(1)
	in.Runs[0].Valid, in.Runs[0].PreconditionFailures = false, []string{"table not empty"}
	in.Manifest.Partial = "interrupted"
	b, err := Build(in).JUnit(in.Runs)
	got := parse(t, b, err)
	if got.Failures != 1 || got.Errors != 2 {
		t.Errorf("%d failures, %d errors", got.Failures, got.Errors)
	}
	if f, e, _ := got.of(t, in.Runs[0].RunID); f != nil || e == nil || e.Message != "not valid: table not empty" {
		t.Errorf("%+v %+v", f, e)
	}
	if _, e, _ := got.of(t, "complete"); e == nil || e.Message != "cut short: interrupted" {
		t.Errorf("%+v", e)
	}
	b, err = JUnitOfFailure("lab", "no KVM & no TCG", "Install QEMU.")
	got = parse(t, b, err)
	if _, e, _ := got.of(t, "lab"); got.Tests != 1 || e == nil || e.Message != "no KVM & no TCG" || e.Text != "Install QEMU." {
		t.Errorf("%+v", got)
	}
}

// A loss is an outcome: the check decides, not the run.
func TestJUnitOutcomeIsNoError(t *testing.T) {
	in := sample(1)
	in.Checks = nil
	in.Runs[0].Unanswered, in.Runs[0].AnswersOK, in.Runs[0].BatchS, in.Runs[0].OutcomeFlags = 1, 999, nil, []string{"lost_in_tunnel"}
	b, err := Build(in).JUnit(in.Runs)
	if got := parse(t, b, err); got.Failures+got.Errors != 0 {
		t.Errorf("%d failures, %d errors", got.Failures, got.Errors)
	}
}

// Of all claims, whatever they say, only refusals are marked, as skipped, with the
// reason.
func TestJUnitClaims(t *testing.T) {
	in := sample(1)
	s := Build(in)
	levels := []verdict.Level{verdict.Refusal, verdict.Caution, verdict.Finding, verdict.OK}
	s.Experiments[0].Verdicts = nil
	for i, l := range levels {
		s.Experiments[0].Verdicts = append(s.Experiments[0].Verdicts,
			verdict.Verdict{ID: fmt.Sprint("claim", i), Level: l, Title: "Title", Text: "No difference was found: p = 0.38."})
	}
	b, err := s.JUnit(in.Runs)
	got := parse(t, b, err)
	for i, l := range levels {
		f, e, k := got.of(t, fmt.Sprint("claim", i))
		if f != nil || e != nil || (k != nil) != (l == verdict.Refusal) {
			t.Errorf("%s: %+v %+v %+v", l, f, e, k)
		}
		if k != nil && (k.Message != "Title" || k.Text != "No difference was found: p = 0.38.") {
			t.Errorf("%s: %+v", l, k)
		}
	}
}
