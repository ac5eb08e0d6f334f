// Package verify checks a result against itself: every file against its
// checksum, every derived number against the raw data it came from, the plan
// against what was run, and the verdicts against the tables. Where it can it
// goes another way than the code that wrote the numbers. It reads files and
// changes none.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
)

// Problem is one thing that does not follow.
type Problem struct {
	File string `json:"file"` // runs.csv, or a path with slashes
	Row  string `json:"row,omitempty"`
	Text string `json:"text"` // what stands there and what follows from the data
}

// String returns the problem in one line.
func (p Problem) String() string {
	if p.Row == "" {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s, %s: %s", p.File, p.Row, p.Text)
}

// Check is one kind of examination: how many things were compared, and what
// does not follow.
type Check struct {
	Name     string    `json:"name"`
	What     string    `json:"what"` // in words
	Compared int       `json:"compared"`
	Unit     string    `json:"unit"` // of Compared: files, numbers, …
	Notes    []string  `json:"notes,omitempty"`
	Problems []Problem `json:"problems"`
}

func (c *Check) fail(file, row, format string, args ...any) {
	c.Problems = append(c.Problems, Problem{file, row, fmt.Sprintf(format, args...)})
}

// Report is what [Result] found.
type Report struct {
	Dir    string  `json:"dir"`
	Checks []Check `json:"checks"`
}

// OK reports whether everything follows.
func (r Report) OK() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return len(c.Problems) > 0 })
}

// Problems counts what does not follow.
func (r Report) Problems() int {
	n := 0
	for _, c := range r.Checks {
		n += len(c.Problems)
	}
	return n
}

// Result examines a result. Problems are no error: an error means that the
// directory is not one, or that a file cannot be read at all. When the tables
// cannot be read only the files are checked.
func Result(ctx context.Context, dir string) (Report, error) {
	files, err := checkFiles(ctx, dir)
	if err != nil {
		return Report{}, err
	}
	out := Report{Dir: dir, Checks: []Check{files}}
	a, err := artifact.OpenStudy(dir)
	if errors.Is(err, artifact.ErrParent) {
		return out.alone(ctx, dir, err)
	}
	if err != nil {
		if len(files.Problems) > 0 {
			return out.filled(), nil // changed beyond reading, which has been said
		}
		return Report{}, err
	}
	out.Dir = a.Dir()
	if len(a.Links()) > 1 {
		parents, err := checkParents(ctx, a)
		if err != nil {
			return Report{}, err
		}
		out.Checks = append(out.Checks, parents)
	}
	if len(a.Manifest().Parts) > 0 {
		out.Checks = append(out.Checks, checkMerged(a))
	}
	measured, err := checkLinks(ctx, a)
	if err != nil {
		return Report{}, err
	}
	if paths, there, err := checkPaths(a); err != nil {
		return Report{}, err
	} else if there {
		measured = append(measured, paths)
	}
	answers, err := checkAnswers(a)
	if err != nil {
		return Report{}, err
	}
	out.Checks = append(append(out.Checks, measured...), answers)
	return out.filled(), nil
}

// filled makes lists without an entry empty ones: JSON has [] for them, not null.
func (r Report) filled() Report {
	for i := range r.Checks {
		if r.Checks[i].Problems == nil {
			r.Checks[i].Problems = []Problem{}
		}
	}
	return r
}

// checkFiles compares every file with the manifest, and that with its sum.
func checkFiles(ctx context.Context, dir string) (Check, error) {
	c := Check{Name: "files", What: "every file against its SHA-256, the manifest against its own", Unit: "files"}
	problems, err := artifact.Verify(ctx, dir)
	if err != nil {
		return c, err
	}
	for _, p := range problems {
		text := string(p.Kind)
		switch p.Kind {
		case artifact.Missing:
			text = "is missing"
		case artifact.Extra:
			text = "is not in the manifest"
		case artifact.Changed:
			text = "was changed after the result was sealed"
		}
		c.fail(p.Path, "", "%s", text)
	}
	if a, err := artifact.Open(dir); err == nil {
		c.Compared = len(a.Manifest().Files) + 1
	}
	return c, nil
}
