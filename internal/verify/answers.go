package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/report"
	"github.com/lvslab/lvslab/internal/verdict"
	"github.com/lvslab/lvslab/internal/version"
)

// checkAnswers derives the verdicts and the report from the tables again. What
// this version of the program writes must be the same byte for byte; of another
// version's report the verdicts must follow, whatever their words.
func checkAnswers(a *artifact.Artifact) (Check, error) {
	c := Check{Name: "answers", What: "verdicts and report against the tables", Unit: "verdicts"}
	data, err := a.ReadFile(artifact.SummaryJSONFile)
	if errors.Is(err, fs.ErrNotExist) {
		c.Notes = append(c.Notes, "the result has no summary")
		return c, nil
	}
	if err != nil {
		return c, err
	}
	var told report.Summary
	if err := json.Unmarshal(data, &told); err != nil {
		c.fail(artifact.SummaryJSONFile, "", "cannot be read: %v", err)
		return c, nil
	}
	in, err := report.FromArtifact(a)
	if err != nil {
		return c, err
	}
	// The time of the teardown came to the manifest after the report was written.
	in.Manifest.Timings.DestroyedS = told.Conditions.Timings.DestroyedS
	summary, files, err := report.Files(in)
	if err != nil {
		return c, err
	}
	for i, e := range told.Experiments {
		compareVerdicts(&c, e, summary.Experiments[i])
	}
	wrote := a.Manifest().Versions.Lvslab
	if wrote != version.Version {
		c.Notes = append(c.Notes, fmt.Sprintf("the report was written by lvslab %s, this is %s: verdicts are compared, the wording is not", wrote, version.Version))
		return c, nil
	}
	for _, name := range []string{artifact.SummaryJSONFile, artifact.SummaryMDFile, artifact.ReportFile, artifact.JUnitFile} {
		have, err := a.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // said by the files' check when the manifest lists it
		}
		if err != nil {
			return c, err
		}
		if !bytes.Equal(have, files[name]) {
			c.fail(name, "", "is not what follows from the tables")
		}
	}
	return c, nil
}

// compareVerdicts checks that each verdict that was told follows, at its level,
// and that none is missing which speaks against the study.
func compareVerdicts(c *Check, told, now report.Experiment) {
	where := "experiment " + told.Facts.Experiment
	for _, v := range told.Verdicts {
		c.Compared++
		i := slices.IndexFunc(now.Verdicts, func(o verdict.Verdict) bool { return o.ID == v.ID })
		switch {
		case i < 0:
			c.fail(artifact.SummaryJSONFile, where, "the verdict %q does not follow from the tables", v.ID)
		case now.Verdicts[i].Level != v.Level:
			c.fail(artifact.SummaryJSONFile, where, "the verdict %q is a %s, the tables give a %s", v.ID, v.Level, now.Verdicts[i].Level)
		}
	}
	for _, v := range now.Verdicts {
		if slices.ContainsFunc(told.Verdicts, func(o verdict.Verdict) bool { return o.ID == v.ID }) {
			continue
		}
		note := fmt.Sprintf("%s: this version also says %q (%s)", where, v.ID, v.Level)
		c.Notes = append(c.Notes, note)
	}
	for _, cmp := range []struct {
		what      string
		got, want int
	}{{"runs", told.Totals.Runs, now.Totals.Runs}, {"valid_runs", told.Totals.ValidRuns, now.Totals.ValidRuns},
		{"queries_sent", told.Totals.QueriesSent, now.Totals.QueriesSent}, {"answers_ok", told.Totals.AnswersOK, now.Totals.AnswersOK},
		{"unanswered", told.Totals.Unanswered, now.Totals.Unanswered}} {
		if cmp.got != cmp.want {
			c.fail(artifact.SummaryJSONFile, where, "%s is %d, the tables give %d", cmp.what, cmp.got, cmp.want)
		}
	}
}
