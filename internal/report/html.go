package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

//go:embed assets/report.gohtml
var pageSource string

//go:embed assets/report.css
var pageStyle string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"mark": func(l verdict.Level) string { return marks[l] },
	"link": linkTo,
}).Parse(pageSource))

// pageData is what the template sees.
type pageData struct {
	Summary
	Style       template.CSS
	Started     string
	Experiments []pageExperiment
	Pairs       [][2]string
	Files       []Pointer
	Sysctls     []pageSysctls
	Threats     []string
	Repeat      []Pointer
}

type pageExperiment struct {
	Experiment
	Headline   string
	Table      Table
	Open       []verdict.Verdict // what must be read before the numbers
	Aside      []verdict.Verdict
	Passed     []verdict.Verdict
	Shares     template.HTML
	Times      template.HTML
	Course     template.HTML
	Ladder     template.HTML
	TimeRefuse bool
	Expected   []expectedRow // empty where the model planned nothing
	Order      string        // of the columns
	Where      string        // who stood at which place, "" unless the list turned
}

type pageSysctls struct {
	Node   string
	Values [][2]string
}

// HTML returns report.html: one file without scripts and without anything to
// load, readable in light and dark and on paper.
func (s Summary) HTML() ([]byte, error) {
	// The style sheet and the charts are made here from numbers and escaped
	// names; everything else is escaped by the template.
	d := pageData{Summary: s, Style: template.CSS(pageStyle), Pairs: s.Conditions.pairs(), Files: files, Threats: s.threats(), Repeat: s.repeat()}
	if at, err := time.Parse(artifact.TimeFormat, s.Conditions.StartedAt); err == nil {
		d.Started = at.Format("2006-01-02 15:04:05 UTC")
	}
	for _, e := range s.Experiments {
		p := pageExperiment{Experiment: e, Headline: counted(e), Table: tableOf(e), Expected: expected(e), Order: strings.Join(e.columns(), " : "), Where: e.whoWasWhere(),
			Shares: template.HTML(sharesChart(e)), Times: template.HTML(timesChart(e)),
			Course: template.HTML(courseChart(e)), Ladder: template.HTML(ladderChart(e))}
		for _, v := range e.Verdicts {
			switch {
			case v.Level == verdict.OK:
				p.Passed = append(p.Passed, v)
			case v.Aside:
				p.Aside = append(p.Aside, v)
			default:
				p.Open = append(p.Open, v)
			}
			p.TimeRefuse = p.TimeRefuse || v.ID == "time-refused"
		}
		d.Experiments = append(d.Experiments, p)
	}
	for _, node := range sortedKeys(s.Conditions.Sysctls) {
		one := pageSysctls{Node: node}
		for _, name := range sortedKeys(s.Conditions.Sysctls[node]) {
			one.Values = append(one.Values, [2]string{name, s.Conditions.Sysctls[node][name]})
		}
		d.Sysctls = append(d.Sysctls, one)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, d); err != nil {
		return nil, fmt.Errorf("render %s: %w", artifact.ReportFile, err)
	}
	return b.Bytes(), nil
}

// linkTo returns the relative link of a file of the result, "" for a pattern.
func linkTo(path string) string {
	if strings.ContainsAny(path, "<>") {
		return artifact.RawDir + "/"
	}
	return path
}
