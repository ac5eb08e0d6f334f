package replay

import (
	"net/netip"

	"github.com/lvslab/lvslab/internal/artifact"
)

// ScriptFile is the file in raw/<run_id>/ that holds [Result.Script].
const ScriptFile = "kernel-differs.txtar"

// Fill writes the result into the row of the run and those of its backends.
func (r Result) Fill(run *artifact.Run, backends []artifact.BackendRow) {
	run.Replay, run.ReplayLimits = string(r.Scope), r.Limits
	run.ReplayRows, run.ReplayRowsDiffer, run.KernelDiffers = r.Rows, r.RowsDiffer, r.Differs
	for i := range backends {
		b := &backends[i]
		b.ReplayedDecisions, b.ReplayedPackets = nil, nil
		a, err := netip.ParseAddr(b.Address)
		if c, ok := r.Backends[a]; ok && err == nil {
			n := c.Conns
			b.ReplayedDecisions, b.ReplayedPackets = &n, c.Packets
		}
	}
}
