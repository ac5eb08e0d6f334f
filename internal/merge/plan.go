package merge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/lvslab/lvslab/internal/artifact"
)

// planned is what plan.json holds of the runs. It is the same in every share: what
// else is there tells of one machine's lab.
type planned struct {
	Version   int               `json:"version"`
	Lab       string            `json:"lab"`
	Addresses map[string]string `json:"addresses"`
	Pending   int               `json:"pending"`
	Study     struct {
		Study  string            `json:"study"`
		Trials []json.RawMessage `json:"trials"`
	} `json:"study"`
	Decisions json.RawMessage `json:"planned_decisions,omitempty"`
	Ports     json.RawMessage `json:"source_ports,omitempty"`
}

// trial is what is needed of one that was planned.
type trial struct {
	RunID      string `json:"run_id"`
	Experiment string `json:"experiment"`
	Block      int    `json:"block"`
}

// planOf reads a result's plan, its bytes as they are in the whole, and their hash.
func planOf(a *artifact.Artifact) (p planned, data []byte, sum string, err error) {
	raw, err := a.ReadFile(artifact.PlanFile)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return p, nil, "", fmt.Errorf("%s of %s: %w", artifact.PlanFile, a.Dir(), err)
	}
	p.Pending = len(p.Study.Trials)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(p); err != nil {
		return p, nil, "", err
	}
	hash := sha256.Sum256(b.Bytes())
	return p, b.Bytes(), hex.EncodeToString(hash[:]), nil
}

// plan takes the plan that all parts have, and checks that each has all runs that
// the plan gives to its share, and no other.
func (w *Whole) plan() error {
	var first string
	for _, part := range w.parts {
		p, data, sum, err := planOf(part)
		if err != nil {
			return err
		}
		if first == "" {
			first, w.Plan = sum, data
		}
		if sum != first {
			return unfit("The results follow different plans", "Make all shares with the same topology, variables and numbers of blocks.",
				"the plan of the runs of %s has the hash %.12s, that of %s %.12s", w.parts[0].Dir(), first, part.Dir(), sum)
		}
		if err := carriedOut(part, p); err != nil {
			return err
		}
	}
	return nil
}

// carriedOut compares a share's runs with its plan.
func carriedOut(part *artifact.Artifact, p planned) error {
	share, err := artifact.ParseShare(part.Manifest().Shard)
	if err != nil {
		return fmt.Errorf("result %s: %w", part.Dir(), err)
	}
	have := map[string]bool{}
	for _, r := range part.Runs() {
		have[r.RunID] = true
	}
	for _, raw := range p.Study.Trials {
		var t trial
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Errorf("%s of %s: %w", artifact.PlanFile, part.Dir(), err)
		}
		if !share.Has(t.Block) {
			continue
		}
		if !have[t.RunID] {
			return unfit("A block is missing", "Make the share again: apply --fresh --shard "+part.Manifest().Shard+".",
				"%s has no run %s of block %d, experiment %s", part.Dir(), t.RunID, t.Block, t.Experiment)
		}
		delete(have, t.RunID)
	}
	for _, r := range part.Runs() {
		if have[r.RunID] {
			return unfit("A block is in the wrong share", "Check the result with: lvslab verify "+part.Dir(),
				"%s is share %s, and has run %s of block %d", part.Dir(), part.Manifest().Shard, r.RunID, r.Block)
		}
	}
	return nil
}
