// Package studytest holds a small study with all its raw data, for tests of what
// reads results: two treatments in two blocks, as package experiment writes them
// (a test there keeps it current). A test may change it before it is sealed, so
// that every checksum is right and a number is not.
package studytest

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/report"
	"github.com/lvslab/lvslab/internal/verdict"
	"github.com/lvslab/lvslab/internal/version"
)

//go:embed testdata/study
var files embed.FS

const root = "testdata/study/"

// Study is a result before it is sealed.
type Study struct {
	Run      string // name of the result
	Runs     []artifact.Run
	Rows     []artifact.BackendRow
	Raw      map[string][]byte // raw/<run>/<file> → content
	Plan     []byte
	Topology string
	Manifest artifact.Manifest
	// Summary changes summary.json before it is written, nil = not at all.
	Summary func(*report.Summary)
}

// Load returns the study as it was measured.
func Load() (*Study, error) {
	s := &Study{Run: "20000101T000000Z-0000", Raw: map[string][]byte{}, Topology: "lab \"sample\" {}\n",
		Manifest: artifact.Manifest{Study: "sample", Accelerator: "tcg", Versions: artifact.Versions{Lvslab: version.Version}}}
	err := fs.WalkDir(files, strings.TrimSuffix(root, "/"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		switch rel := strings.TrimPrefix(path, root); rel {
		case artifact.RunsFile:
			s.Runs, _, err = artifact.ReadRuns(bytes.NewReader(data))
		case artifact.BackendsFile:
			s.Rows, err = artifact.ReadBackends(bytes.NewReader(data))
		case artifact.PlanFile:
			s.Plan = data
		default:
			s.Raw[rel] = data
		}
		return err
	})
	return s, err
}

// Seal writes the study as a result below a directory and returns its path.
func (s *Study) Seal(results string) (string, error) {
	w, err := artifact.Create(results, "sample", s.Run, nil)
	if err != nil {
		return "", err
	}
	if err := s.write(w); err != nil {
		return "", fmt.Errorf("sample study: %w", err)
	}
	in := report.Input{Manifest: s.Manifest, Runs: s.Runs, Backends: s.Rows, Facts: []verdict.Facts{{Experiment: "schedulers", Service: "service.dns",
		VIPs: []string{"198.18.0.101"}, Scheduler: "rr", Protocol: "udp", Forward: "tunnel", ClientAddresses: 1, Blocks: 2,
		Accelerator: s.Manifest.Accelerator, Factors: []string{"scheduler"}}}}
	in.Manifest.Lab, in.Manifest.Run = "sample", s.Run
	sum, answers, err := report.Files(in)
	if err != nil {
		return "", err
	}
	if s.Summary != nil {
		s.Summary(&sum)
		if answers[artifact.SummaryJSONFile], err = sum.JSON(); err != nil {
			return "", err
		}
	}
	return w.Finalise(context.Background(), s.Manifest, answers)
}

func (s *Study) write(w *artifact.Writer) error {
	if err := w.AddInput("sample.hcl", []byte(s.Topology)); err != nil {
		return err
	}
	if err := w.SetPlan(s.Plan); err != nil {
		return err
	}
	if err := w.SetFactors([]string{"scheduler"}); err != nil {
		return err
	}
	for _, r := range s.Runs {
		d, err := w.StartRun(r.RunID)
		if err != nil {
			return err
		}
		for path, data := range s.Raw {
			if name, ok := strings.CutPrefix(path, "raw/"+r.RunID+"/"); ok {
				if err := d.WriteFile(name, data); err != nil {
					return err
				}
			}
		}
		mine := slices.DeleteFunc(slices.Clone(s.Rows), func(b artifact.BackendRow) bool { return b.RunID != r.RunID })
		if err := w.AddRun(r, mine); err != nil {
			return err
		}
	}
	return nil
}
