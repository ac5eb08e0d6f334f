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

//go:embed testdata/study testdata/direct testdata/clients
var files embed.FS

// Study is a result before it is sealed.
type Study struct {
	Run      string // name of the result
	Runs     []artifact.Run
	Rows     []artifact.BackendRow
	Raw      map[string][]byte // raw/<run>/<file> → content
	Plan     []byte
	Paths    []byte // paths.json, nil = without the file
	Topology string
	Manifest artifact.Manifest
	Blocks   int
	// Summary changes summary.json before it is written, nil = not at all.
	Summary func(*report.Summary)

	before []Study // results whose blocks come before this one's
}

// Split shares the study out between two results, the blocks up to one and those
// after it. The first one is sealed by the call and the parent of the other, which
// may still be changed.
func (s *Study) Split(results string, block int) (parent string, child *Study, err error) {
	first, second := *s, *s
	first.Runs, second.Runs = nil, nil
	for _, r := range s.Runs {
		if r.Block <= block {
			first.Runs = append(first.Runs, r)
		} else {
			second.Runs = append(second.Runs, r)
		}
	}
	first.Rows, second.Rows = rowsOf(s.Rows, first.Runs), rowsOf(s.Rows, second.Runs)
	if parent, err = first.Seal(results); err != nil {
		return "", nil, err
	}
	a, err := artifact.Open(parent)
	if err != nil {
		return "", nil, err
	}
	second.Run, second.before = "20000102T000000Z-0000", []Study{first}
	second.Manifest.Parent, err = artifact.ParentOf(a)
	return parent, &second, err
}

// Shares shares the blocks out between n results, as apply --shard does on machines of
// their own. None is sealed.
func (s *Study) Shares(n int) []*Study {
	var out []*Study
	for i := range n {
		one := *s
		one.Run = fmt.Sprintf("2000010%dT000000Z-0000", i+3)
		one.Manifest.Shard = fmt.Sprintf("%d/%d", i+1, n)
		one.Manifest.Host = artifact.Host{ID: strings.Repeat(fmt.Sprint(i+1), 64), CPU: "test", Cores: 2}
		one.Manifest.Lineage = fmt.Sprintf("lineage-%d", i+1)
		one.Manifest.Sessions = []artifact.Session{{End: "sealed", Runs: 2, Host: one.Manifest.Host}}
		one.Runs, one.Blocks = nil, 0
		blocks := map[int]bool{}
		for _, r := range s.Runs {
			if (r.Block-1)%n == i {
				one.Runs = append(one.Runs, r)
				blocks[r.Block] = true
			}
		}
		one.Rows, one.Blocks = rowsOf(s.Rows, one.Runs), len(blocks)
		out = append(out, &one)
	}
	return out
}

func rowsOf(rows []artifact.BackendRow, runs []artifact.Run) []artifact.BackendRow {
	return slices.DeleteFunc(slices.Clone(rows), func(b artifact.BackendRow) bool {
		return !slices.ContainsFunc(runs, func(r artifact.Run) bool { return r.RunID == b.RunID })
	})
}

// Load returns the study as it was measured.
func Load() (*Study, error) { return load("testdata/study/", 2) }

// LoadDirect returns a study of one block: one treatment, and each backend asked
// without LVS.
func LoadDirect() (*Study, error) { return load("testdata/direct/", 1) }

// LoadClients returns a study of one run of two clients, which began 3 ms apart where
// 50 ms were allowed.
func LoadClients() (*Study, error) { return load("testdata/clients/", 1) }

func load(root string, blocks int) (*Study, error) {
	s := &Study{Run: "20000101T000000Z-0000", Raw: map[string][]byte{}, Topology: "lab \"sample\" {}\n", Blocks: blocks,
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
	var runs []artifact.Run
	var rows []artifact.BackendRow
	for _, b := range append(slices.Clone(s.before), *s) {
		runs, rows = append(runs, b.Runs...), append(rows, b.Rows...)
	}
	in := report.Input{Manifest: s.Manifest, Runs: runs, Backends: rows, Facts: []verdict.Facts{{Experiment: "schedulers", Service: "service.dns",
		VIPs: []string{"198.18.0.101"}, Scheduler: "rr", Protocol: "udp", Forward: "tunnel", ClientAddresses: 1, Blocks: s.Blocks,
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
	if s.Paths != nil {
		if err := w.SetPaths(s.Paths); err != nil {
			return err
		}
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
		if err := w.AddRun(r, rowsOf(s.Rows, []artifact.Run{r})); err != nil {
			return err
		}
	}
	return nil
}
