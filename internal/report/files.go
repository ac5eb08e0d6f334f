package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/sighting"
	"github.com/lvslab/lvslab/internal/verdict"
)

// JSON returns summary.json, indented.
func (s Summary) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", artifact.SummaryJSONFile, err)
	}
	return append(b, '\n'), nil
}

// Files builds the summary and renders every file of the report, by name, as
// artifact.Writer.Finalise takes them.
func Files(in Input) (Summary, map[string][]byte, error) {
	s := Build(in)
	js, err := s.JSON()
	if err != nil {
		return s, nil, err
	}
	html, err := s.HTML()
	if err != nil {
		return s, nil, err
	}
	junit, err := s.JUnit(in.Runs)
	if err != nil {
		return s, nil, err
	}
	return s, map[string][]byte{
		artifact.SummaryJSONFile: js,
		artifact.SummaryMDFile:   s.Markdown(),
		artifact.ReportFile:      html,
		artifact.JUnitFile:       junit,
	}, nil
}

// FromArtifact makes the input of a report from a result: facts, description
// and checks come from its summary.json, numbers from its tables, so that the
// statements are computed anew and cannot have been edited in.
func FromArtifact(a *artifact.Artifact) (Input, error) {
	in := Input{Manifest: a.Manifest(), Runs: a.Runs(), Backends: a.Backends()}
	var err error
	if in.Paths, err = sighting.ProofsOf(a); err != nil {
		return Input{}, err
	}
	data, err := a.ReadFile(artifact.SummaryJSONFile)
	if errors.Is(err, fs.ErrNotExist) {
		in.Facts = factsFromRows(a)
		return in, nil
	}
	if err != nil {
		return Input{}, fmt.Errorf("read %s: %w", artifact.SummaryJSONFile, err)
	}
	var s Summary
	if err := json.Unmarshal(data, &s); err != nil {
		return Input{}, diag.Fail(err, "Summary cannot be read", "Compare its SHA-256 with the one in manifest.json.",
			"%s of %s is not what lvslab writes", artifact.SummaryJSONFile, a.Dir())
	}
	if s.SchemaVersion > SchemaVersion {
		return Input{}, diag.Fail(nil, "Summary of a newer lvslab", "Read it with the version that wrote it, or a newer one.",
			"%s has schema version %d; this lvslab reads versions up to %d.", artifact.SummaryJSONFile, s.SchemaVersion, SchemaVersion)
	}
	in.Description, in.Checks = s.Description, s.Checks
	for _, e := range s.Experiments {
		in.Facts = append(in.Facts, e.Facts)
	}
	return in, nil
}

// factsFromRows is what a partial result without a summary still tells.
func factsFromRows(a *artifact.Artifact) []verdict.Facts {
	var out []verdict.Facts
	seen := map[string]bool{}
	for _, r := range a.Runs() {
		if !seen[r.Experiment] {
			seen[r.Experiment] = true
			out = append(out, verdict.Facts{Experiment: r.Experiment, Protocol: r.Protocol, Accelerator: a.Manifest().Accelerator, Factors: a.Factors()})
		}
	}
	return out
}
