package report

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

// The JUnit dialect that CI servers agree on: a suite for each experiment with its
// runs and its claims, and one of the checks, which may speak of several
// experiments; with one experiment they stand in its suite. A failed check is a
// failure. A run that is not valid, and a study that was cut short, is an error:
// the laboratory failed, not what was tested. A claim that is refused is skipped,
// not failed: nothing went wrong, it just cannot be said. Whatever a claim says,
// it passes: a difference that is not significant is no failure.

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr,omitempty"`
	Timestamp string      `xml:"timestamp,attr,omitempty"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Time    string     `xml:"time,attr,omitempty"`
	Failure *junitNote `xml:"failure"`
	Error   *junitNote `xml:"error"`
	Skipped *junitNote `xml:"skipped"`
	Out     string     `xml:"system-out,omitempty"`
}

type junitNote struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit returns junit.xml. runs are the rows that the summary was built from.
func (s Summary) JUnit(runs []artifact.Run) ([]byte, error) {
	all := junitSuites{Name: s.Lab}
	own := junitSuite{Name: "checks"}
	own.checks(s, s.Lab+".checks")
	if len(s.Experiments) != 1 {
		all.add(own)
	}
	for _, e := range s.Experiments {
		suite := junitSuite{Name: e.Facts.Experiment, Timestamp: strings.TrimSuffix(s.Conditions.StartedAt, "Z")}
		class := s.Lab + "." + e.Facts.Experiment
		if len(s.Experiments) == 1 {
			suite.checks(s, class+".checks")
		}
		suite.runs(e, class, runs)
		if s.Conditions.Partial != "" {
			suite.add(junitCase{Class: class, Name: "complete", Error: &junitNote{Message: "cut short: " + s.Conditions.Partial}})
		}
		suite.claims(e, class+".claims")
		all.add(suite)
	}
	return all.encode()
}

// JUnitOfFailure is the file of an apply that failed before it had measured
// anything: one error. remedy may be empty.
func JUnitOfFailure(lab, message, remedy string) ([]byte, error) {
	all := junitSuites{Name: lab}
	suite := junitSuite{Name: lab}
	suite.add(junitCase{Class: lab, Name: "lab", Error: &junitNote{Message: message, Text: remedy}})
	all.add(suite)
	return all.encode()
}

func (a junitSuites) encode() ([]byte, error) {
	b, err := xml.MarshalIndent(a, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", artifact.JUnitFile, err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

func (s *junitSuite) checks(from Summary, class string) {
	for _, c := range from.Checks {
		one := junitCase{Class: class, Name: c.Name}
		if !c.Passed {
			one.Failure = &junitNote{Message: c.Message}
		}
		s.add(one)
	}
}

func (s *junitSuite) runs(e Experiment, class string, runs []artifact.Run) {
	seconds := 0.0
	for _, r := range runs {
		if r.Experiment != e.Facts.Experiment {
			continue
		}
		one := junitCase{Class: class, Name: r.RunID,
			Out: fmt.Sprintf("%s: %d of %d answers ok", r.TreatmentID, r.AnswersOK, r.QueriesPlanned)}
		if len(r.OutcomeFlags) > 0 {
			one.Out += ", " + strings.Join(r.OutcomeFlags, ", ")
		}
		if r.ResolvedS != nil {
			one.Time = fmt.Sprintf("%.3f", *r.ResolvedS)
			seconds += *r.ResolvedS
		}
		if !r.Valid {
			why := strings.Join(slices.Concat(r.PreconditionFailures, r.OutcomeFlags), "; ")
			one.Error = &junitNote{Message: "not valid: " + why, Text: artifact.RawDir + "/" + r.RunID + "/ holds what was found."}
		}
		s.add(one)
	}
	s.Time = fmt.Sprintf("%.3f", seconds)
}

func (s *junitSuite) claims(e Experiment, class string) {
	for _, v := range e.Verdicts {
		one := junitCase{Class: class, Name: v.ID}
		if v.Level == verdict.Refusal {
			one.Skipped = &junitNote{Message: v.Title, Text: v.Text}
		} else {
			one.Out = fmt.Sprintf("%s: %s. %s", v.Level, v.Title, v.Text)
		}
		s.add(one)
	}
}

func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Error != nil {
		s.Errors++
	}
	if c.Skipped != nil {
		s.Skipped++
	}
}

// add leaves out suites without a case.
func (a *junitSuites) add(s junitSuite) {
	if s.Tests == 0 {
		return
	}
	a.Suites = append(a.Suites, s)
	a.Tests += s.Tests
	a.Failures += s.Failures
	a.Errors += s.Errors
	a.Skipped += s.Skipped
}
