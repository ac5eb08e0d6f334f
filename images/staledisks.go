package images

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// staleSeeds are the seeds that hold another agent than this lvslab's, or that no
// machine with a disk of its own was started with for so long. One in the making has
// no lock: it is unfinished when it was left alone for a while.
func staleSeeds(cacheDir string, o PruneOptions, _ []Image) ([]Stale, error) {
	entries, err := entriesOf(seedsDir(cacheDir))
	var out []Stale
	for _, e := range entries {
		s := Stale{Kind: staleSeed, Name: e.Name(), Path: filepath.Join(seedsDir(cacheDir), e.Name()), used: changed(e)}
		ago := time.Since(s.used)
		switch {
		case strings.HasPrefix(e.Name(), buildPrefix):
			s.Kind, s.Why = staleUnfinished, "its making was interrupted"
		case s.Path != SeedPath(o.Agent, cacheDir):
			s.Why = "its agent is that of another lvslab"
		case o.UnusedFor > 0 && ago >= o.UnusedFor:
			s.Why = fmt.Sprintf("not used for %s", ago.Round(time.Hour))
		default:
			continue
		}
		out = append(out, s)
	}
	return out, err
}

// errNoMemo says that a file would have to be read.
var errNoMemo = errors.New("its sum is not remembered")

// staleSums are the notes on files that are gone or have changed since, and on the
// kernels of disks that none of the other notes leads to.
func staleSums(cacheDir string, _ PruneOptions, _ []Image) ([]Stale, error) {
	dir := sumsDir(cacheDir)
	entries, err := entriesOf(dir)
	var out []Stale
	sums, kernels := map[string]string{}, map[string]bool{}
	for _, e := range entries {
		s := Stale{Kind: staleSum, Name: e.Name(), Path: filepath.Join(dir, e.Name()), used: changed(e)}
		switch filepath.Ext(e.Name()) {
		case memoSuffix:
			memo, err := readMemo(s.Path)
			id, gone := fileID(memo.Path)
			switch {
			case err != nil:
				s.Why = "it is damaged"
			case gone != nil:
				s.Why = memo.Path + " is gone"
			case id != memo.ID:
				s.Why = memo.Path + " has changed"
			default:
				sums[memo.Path] = memo.Sum
				continue
			}
		case kernelSuffix: // told below, when all sums are known
			continue
		default:
			s.Kind, s.Why = staleUnfinished, "its writing was interrupted"
		}
		out = append(out, s)
	}
	for path := range sums {
		d, err := openDisk(path, func(file string) (string, error) {
			if sum, known := sums[file]; known {
				return sum, nil
			}
			return "", errNoMemo
		})
		if err == nil {
			kernels[filepath.Base(d.kernelNote(cacheDir))] = true
		}
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == kernelSuffix && !kernels[e.Name()] {
			out = append(out, Stale{Kind: staleSum, Name: e.Name(), Path: filepath.Join(dir, e.Name()), used: changed(e), Why: "the disk whose kernel it names is gone or has changed"})
		}
	}
	return out, err
}
