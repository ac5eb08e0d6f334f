package operation

import (
	"encoding/json"
	"fmt"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
)

// Shard is a share of a study's blocks: the i-th of n, zero = all of them. Every
// n-th block belongs to it, from block i on: that stays so when blocks are added,
// and no machine has only the early or only the late ones. The study, its plan and
// the ids of its runs are the same in every share.
type Shard struct{ i, of int }

// ParseShard reads "i/n".
func ParseShard(text string) (Shard, error) {
	if text == "" {
		return Shard{}, nil
	}
	i, n, err := artifact.ShareOf(text)
	return Shard{i, n}, err
}

// String returns "i/n", "" for all blocks.
func (s Shard) String() string {
	if s.of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.i, s.of)
}

// has reports whether a block, from 1, belongs to the share.
func (s Shard) has(block int) bool { return s.of == 0 || (block-1)%s.of == s.i-1 }

// Set and Type make it a flag.
func (s *Shard) Set(text string) (err error) { *s, err = ParseShard(text); return err }

// Type is what --help calls the value.
func (s *Shard) Type() string { return "I/N" }

// MarshalJSON writes "i/n".
func (s Shard) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads it.
func (s *Shard) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return s.Set(text)
}

// mine are the trials of a study that this apply's share has.
func (a *applying) mine(all []experiment.Trial) []experiment.Trial {
	if a.opts.Shard.of == 0 {
		return all
	}
	var out []experiment.Trial
	for _, t := range all {
		if a.opts.Shard.has(t.Block) {
			out = append(out, t)
		}
	}
	return out
}

// ofShare is the list with the share's trials alone.
func (a *applying) ofShare() trialList {
	out := a.list
	out.trials = a.mine(out.trials)
	return out
}

// someBlock refuses a share without a block: a machine would be started for nothing,
// and its result could not be merged.
func (s Shard) someBlock(trials []experiment.Trial) error {
	last := 0
	for _, t := range trials {
		if s.has(t.Block) {
			return nil
		}
		last = max(last, t.Block)
	}
	if s.of == 0 {
		return nil
	}
	return diag.Fail(nil, "A share without blocks", "Use at most as many shares as there are blocks, or more iterations.",
		"--shard %s: the study has %s", s, count(last, "block"))
}
