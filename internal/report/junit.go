package report

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

// The JUnit dialect that CI servers agree on: a suite of checks, one of runs
// for each experiment, and one of claims. A failed check and a run that is not
// valid are failures. A claim that is refused is skipped, not failed: nothing
// went wrong, it just cannot be said.

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr,omitempty"`
	Timestamp string      `xml:"timestamp,attr,omitempty"`
	Cases     []junitCase `xml:"testcase"`
	seconds   float64
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Time    string     `xml:"time,attr,omitempty"`
	Failure *junitNote `xml:"failure"`
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
	checks := junitSuite{Name: "checks"}
	for _, c := range s.Checks {
		one := junitCase{Class: s.Lab + ".checks", Name: c.Name}
		if !c.Passed {
			one.Failure = &junitNote{Message: c.Message}
		}
		checks.add(one)
	}
	all.add(checks)
	for _, e := range s.Experiments {
		all.add(e.junitRuns(s, runs))
		all.add(e.junitClaims(s))
	}
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", artifact.JUnitFile, err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

func (e Experiment) junitRuns(s Summary, runs []artifact.Run) junitSuite {
	suite := junitSuite{Name: "runs of " + e.Facts.Experiment, Timestamp: strings.TrimSuffix(s.Conditions.StartedAt, "Z")}
	for _, r := range runs {
		if r.Experiment != e.Facts.Experiment {
			continue
		}
		one := junitCase{Class: s.Lab + "." + e.Facts.Experiment, Name: r.RunID,
			Out: fmt.Sprintf("%s: %d of %d answers ok", r.TreatmentID, r.AnswersOK, r.QueriesPlanned)}
		if len(r.OutcomeFlags) > 0 {
			one.Out += ", " + strings.Join(r.OutcomeFlags, ", ")
		}
		if r.ResolvedS != nil {
			one.Time = fmt.Sprintf("%.3f", *r.ResolvedS)
			suite.seconds += *r.ResolvedS
		}
		if !r.Valid {
			why := strings.Join(slices.Concat(r.PreconditionFailures, r.OutcomeFlags), "; ")
			one.Failure = &junitNote{Message: "not valid: " + why, Text: artifact.RawDir + "/" + r.RunID + "/ holds what was found."}
		}
		suite.add(one)
	}
	suite.Time = fmt.Sprintf("%.3f", suite.seconds)
	return suite
}

func (e Experiment) junitClaims(s Summary) junitSuite {
	suite := junitSuite{Name: "claims of " + e.Facts.Experiment}
	for _, v := range e.Verdicts {
		one := junitCase{Class: s.Lab + "." + e.Facts.Experiment + ".claims", Name: v.ID}
		if v.Level == verdict.Refusal {
			one.Skipped = &junitNote{Message: v.Title, Text: v.Text}
		} else {
			one.Out = fmt.Sprintf("%s: %s. %s", v.Level, v.Title, v.Text)
		}
		suite.add(one)
	}
	return suite
}

func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	if c.Failure != nil {
		s.Failures++
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
	a.Skipped += s.Skipped
}
