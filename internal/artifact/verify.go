package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// ProblemKind says what is wrong with a file of a result.
type ProblemKind string

// The kinds of problems that [Verify] finds.
const (
	Missing ProblemKind = "missing" // in the manifest, not there
	Changed ProblemKind = "changed" // other bytes than the manifest says
	Extra   ProblemKind = "extra"   // there, not in the manifest
)

// Problem is one difference between the manifest and the files.
type Problem struct {
	Path      string // with slashes, inside the result
	Kind      ProblemKind
	Want, Got string // SHA-256 in hex, "" when there is none
}

// String returns the problem in one line.
func (p Problem) String() string {
	if p.Kind == Changed {
		return fmt.Sprintf("%s: changed: sha256 %.12s… instead of %.12s…", p.Path, p.Got, p.Want)
	}
	return fmt.Sprintf("%s: %s", p.Path, p.Kind)
}

// Verify compares every file with the manifest, and the manifest with its own
// sum, and returns the differences sorted by path; none means that the result
// is as it was sealed. An error means that it could not be checked.
func Verify(ctx context.Context, dir string) ([]Problem, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, noResult(dir, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		return nil, noResult(dir, err)
	}
	problems, err := verifyManifest(dir, data)
	if err != nil {
		return nil, err
	}
	m, err := ParseManifest(data)
	if err != nil {
		if len(problems) > 0 {
			return problems, nil // changed beyond reading
		}
		return nil, err
	}
	more, err := verifyFiles(ctx, dir, m.Files)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", dir, err)
	}
	problems = append(problems, more...)
	sort.Slice(problems, func(i, j int) bool { return problems[i].Path < problems[j].Path })
	return problems, nil
}

func verifyManifest(dir string, data []byte) ([]Problem, error) {
	line, err := os.ReadFile(filepath.Join(dir, ManifestSumFile))
	if errors.Is(err, fs.ErrNotExist) {
		return []Problem{{Path: ManifestSumFile, Kind: Missing}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", dir, err)
	}
	want, name, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), "  ")
	if !ok || name != ManifestFile || len(want) != 2*sha256.Size {
		return []Problem{{Path: ManifestSumFile, Kind: Changed}}, nil
	}
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != want {
		return []Problem{{Path: ManifestFile, Kind: Changed, Want: want, Got: got}}, nil
	}
	return nil, nil
}

func verifyFiles(ctx context.Context, dir string, want map[string]string) ([]Problem, error) {
	var problems []Problem
	seen := map[string]bool{}
	err := eachFile(ctx, dir, func(path, rel string, d fs.DirEntry) (err error) {
		if rel == ManifestFile || rel == ManifestSumFile {
			return nil
		}
		seen[rel] = true
		sum, listed := want[rel]
		if !listed {
			problems = append(problems, Problem{Path: rel, Kind: Extra})
			return nil
		}
		got := "" // a link or a device instead of the file
		if d.Type().IsRegular() {
			if got, err = sumFile(path); err != nil {
				return err
			}
		}
		if got != sum {
			problems = append(problems, Problem{Path: rel, Kind: Changed, Want: sum, Got: got})
		}
		return nil
	})
	for path, sum := range want {
		if !seen[path] {
			problems = append(problems, Problem{Path: path, Kind: Missing, Want: sum})
		}
	}
	return problems, err
}
