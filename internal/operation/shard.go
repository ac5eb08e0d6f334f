package operation

import (
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
)

// mine are the trials of a study that this apply's share has.
func (a *applying) mine(all []experiment.Trial) []experiment.Trial {
	var out []experiment.Trial
	for _, t := range all {
		if a.opts.Shard.Has(t.Block) {
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
func someBlock(s artifact.Share, trials []experiment.Trial) error {
	last := 0
	for _, t := range trials {
		if s.Has(t.Block) {
			return nil
		}
		last = max(last, t.Block)
	}
	if s.All() {
		return nil
	}
	return diag.Fail(nil, "A share without blocks", "Use at most as many shares as there are blocks, or more iterations.",
		"--shard %s: the study has %s", s, count(last, "block"))
}
