// Package merge joins results that hold the shares of one study into one result,
// as if all blocks had been run on one machine, with the machine as a column more.
// It refuses what cannot be one study: other inputs, blocks that are there twice or
// not at all.
package merge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/sighting"
)

// ErrUnfit is the cause when results are not shares of one study.
var ErrUnfit = errors.New("these results are not the shares of one study")

func unfit(summary, remedy, format string, args ...any) error {
	return diag.Fail(diag.Told(ErrUnfit), summary, remedy, format, args...)
}

// Whole is what the shares come to.
type Whole struct {
	Manifest artifact.Manifest
	Factors  []string // of runs.csv, the host last
	Runs     []artifact.Run
	Backends []artifact.BackendRow
	Plan     []byte // plan.json
	Proofs   sighting.Proofs

	parts []*artifact.Artifact             // in the order of their shares
	owner map[string]*artifact.Artifact    // run id → the part that has it
	rows  map[string][]artifact.BackendRow // run id → its rows
}

// Join puts sealed results together. Times and sessions stay with each machine; what
// all of them have in common is the whole's. A *diag.Failure that is [ErrUnfit] names
// the results that do not fit.
func Join(ctx context.Context, parts []*artifact.Artifact) (*Whole, error) {
	for i, p := range parts {
		if err := sound(ctx, p); err != nil {
			return nil, err
		}
		if err := fits(parts[:i], p); err != nil {
			return nil, err
		}
	}
	ordered, err := allShares(parts)
	if err != nil {
		return nil, err
	}
	w := &Whole{parts: ordered, owner: map[string]*artifact.Artifact{}, rows: map[string][]artifact.BackendRow{}, Factors: append(slices.Clone(parts[0].Factors()), artifact.HostFactor)}
	if slices.Contains(parts[0].Factors(), artifact.HostFactor) {
		return nil, unfit("A factor has the name of the column of machines", "Give the factor another name.", "%s has a factor %q", parts[0].Dir(), artifact.HostFactor)
	}
	if err := w.plan(); err != nil {
		return nil, err
	}
	if err := w.collect(); err != nil {
		return nil, err
	}
	if err := w.proofs(); err != nil {
		return nil, err
	}
	w.manifest()
	return w, nil
}

// sound refuses a result that is not a whole share as it was sealed.
func sound(ctx context.Context, p *artifact.Artifact) error {
	m := p.Manifest()
	switch {
	case !p.Sealed():
		return unfit("A result is not complete", "Finish it first: apply with the same --shard continues it.", "%s was never sealed", p.Dir())
	case len(m.Parts) > 0:
		return unfit("A result is merged already", "Name the results that it was merged from, and the others.", "%s was merged from %d results", p.Dir(), len(m.Parts))
	case m.Shard == "":
		return unfit("A result is not a share", "Make the shares with: apply --shard 1/2, and so on. Compare whole results with: lvslab compare.", "%s holds all blocks of its study", p.Dir())
	}
	problems, err := artifact.Verify(ctx, p.Dir())
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return unfit("A result was changed after it was sealed", "Bring it back as it was, or make the share again. All problems are named by: lvslab verify "+p.Dir(),
			"%s: %s", p.Dir(), problems[0])
	}
	return nil
}

// allShares checks that all n of n shares are there, each once, and returns them in
// their order.
func allShares(parts []*artifact.Artifact) ([]*artifact.Artifact, error) {
	var have []*artifact.Artifact
	for _, p := range parts {
		share, err := artifact.ParseShare(p.Manifest().Shard)
		if err != nil {
			return nil, fmt.Errorf("result %s: %w", p.Dir(), err)
		}
		if have == nil {
			have = make([]*artifact.Artifact, share.N)
		}
		if share.N != len(have) {
			return nil, unfit("The study was shared out in two ways", "Merge results that --shard made with the same number of shares.",
				"%s is share %s, %s is share %s", parts[0].Dir(), parts[0].Manifest().Shard, p.Dir(), p.Manifest().Shard)
		}
		if other := have[share.I-1]; other != nil {
			return nil, unfit("A share is there twice", "Name one result for each share.", "%s and %s are both share %s", other.Dir(), p.Dir(), p.Manifest().Shard)
		}
		have[share.I-1] = p
	}
	missing := ""
	for i, p := range have {
		if p == nil {
			missing += fmt.Sprintf(", %d/%d", i+1, len(have))
		}
	}
	if missing != "" {
		return nil, unfit("Shares are missing", "Make them with apply --shard, and name their results, too.", "there is no result of share %s", missing[2:])
	}
	return have, nil
}

// collect gathers the rows of all parts in the order of the study, and checks that
// they are the runs that were planned, each once.
func (w *Whole) collect() error {
	for _, p := range w.parts {
		host := p.Manifest().Host.Label()
		for _, r := range p.Runs() {
			if other := w.owner[r.RunID]; other != nil {
				return unfit("A block is there twice", "Name each part of the study once.", "run %s of block %d is in %s and in %s", r.RunID, r.Block, other.Dir(), p.Dir())
			}
			w.owner[r.RunID] = p
			w.Runs = append(w.Runs, withHost(r, host))
		}
		for _, b := range p.Backends() {
			w.rows[b.RunID] = append(w.rows[b.RunID], b)
		}
	}
	slices.SortFunc(w.Runs, func(a, b artifact.Run) int { return a.Order - b.Order })
	for _, r := range w.Runs {
		w.Backends = append(w.Backends, w.rows[r.RunID]...)
	}
	return nil
}

// proofs gathers those of all parts; each says of which it is.
func (w *Whole) proofs() error {
	for _, p := range w.parts {
		own, err := sighting.ProofsOf(p)
		if err != nil {
			return err
		}
		for _, one := range own {
			one.Result = p.Manifest().Run
			w.Proofs = append(w.Proofs, one)
		}
	}
	return nil
}

func withHost(r artifact.Run, host string) artifact.Run {
	factors := map[string]string{artifact.HostFactor: host}
	for name, v := range r.Factors {
		factors[name] = v
	}
	r.Factors = factors
	return r
}

// Write stores inputs, plan, proofs, rows and raw data.
func (w *Whole) Write(ctx context.Context, out *artifact.Writer) error {
	if err := each(filepath.Join(w.parts[0].Dir(), artifact.TopologyDir), out.AddInput); err != nil {
		return err
	}
	if err := errors.Join(out.SetPlan(w.Plan), out.SetFactors(w.Factors)); err != nil {
		return err
	}
	if len(w.Proofs) > 0 {
		data, err := w.Proofs.Encode()
		if err == nil {
			err = out.SetPaths(data)
		}
		if err != nil {
			return err
		}
	}
	for _, r := range w.Runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir, err := out.StartRun(r.RunID)
		if err == nil {
			err = each(filepath.Join(w.owner[r.RunID].Dir(), artifact.RawDir, r.RunID), dir.WriteFile)
		}
		if err == nil {
			err = out.AddRun(r, w.rows[r.RunID])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Files are the manifests of the parts: each has the checksums of the raw data that
// came from it, and the conditions of its machine.
func (w *Whole) Files() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, p := range w.parts {
		data, err := p.ReadFile(artifact.ManifestFile)
		if err != nil {
			return nil, fmt.Errorf("result %s: %w", p.Dir(), err)
		}
		out[artifact.PartManifest(p.Manifest().Shard)] = data
	}
	return out, nil
}

// First is the result of the first share.
func (w *Whole) First() *artifact.Artifact { return w.parts[0] }

// each calls do with every file below a directory, by its path with slashes.
func each(dir string, do func(name string, data []byte) error) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return do(filepath.ToSlash(rel), data)
	})
}
