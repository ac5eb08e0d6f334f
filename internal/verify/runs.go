package verify

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lvslab/lvslab/internal/artifact"
)

// checkRuns recomputes the tables from the raw data of every run.
func checkRuns(ctx context.Context, a *artifact.Artifact, planned map[string]trial, ports sourcePorts) ([]Check, error) {
	tables := Check{Name: "outcomes", What: "runs.csv against queries.csv and the generators' reports", Unit: "numbers"}
	captures := Check{Name: "captures", What: "queries.csv and traffic against the captures", Unit: "queries"}
	counters := Check{Name: "counters", What: "backends.csv and runs.csv against the counters of director and backends", Unit: "numbers"}
	flags := Check{Name: "validity", What: "outcome_flags and valid against the counts", Unit: "runs"}
	records := Check{Name: "generator", What: "the generator's own record against the plan, the capture and its summary", Unit: "queries"}
	rows := map[string][]artifact.BackendRow{}
	for _, b := range a.Backends() {
		rows[b.RunID] = append(rows[b.RunID], b)
	}
	words := Check{Name: "model", What: "replayed decisions and what differs against the model fed with the packets", Unit: "numbers"}
	without := 0
	for _, r := range a.Runs() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, ok := planned[r.RunID]
		if !ok {
			continue // said by the plan's check
		}
		mine := rows[r.RunID]
		if len(mine) == 0 && !r.Valid {
			if len(r.PreconditionFailures) == 0 {
				flags.fail(artifact.RunsFile, r.RunID, "nothing was measured, and no precondition is said to have failed")
			}
			continue // its preconditions failed: there was no load
		}
		data, err := readRaw(a, r.RunID)
		if err != nil {
			tables.fail(artifact.RawDir+"/"+r.RunID, "", "the raw data cannot be read: %v", err)
			continue
		}
		if len(data.captures) == 0 {
			without++
		}
		outcomes(&tables, r, t, data)
		tape(&captures, r, t, data)
		counted(&counters, r, mine, t, data)
		judged(&flags, r, mine)
		restarts(&flags, r, data)
		together(&tables, r, t, data)
		shared(&tables, r, t, data)
		generated(&records, r, t, data, ports[t.Experiment])
		booted(&tables, a.Manifest().Versions, r, t)
		replayed(&words, cmp.Or(r.Kernel, a.Manifest().Versions.GuestKernel), r, mine, t, data)
	}
	if without > 0 {
		captures.Notes = append(captures.Notes, fmt.Sprintf("%d runs kept no capture (capture = false): their queries.csv is taken as it is", without))
	}
	out := []Check{captures, tables, counters, flags, words}
	if records.Compared+len(records.Problems) > 0 {
		out = append(out, records)
	}
	return out, nil
}

// booted compares the kernel that was read on the director with the one of the image
// that the plan has it boot.
func booted(c *Check, v artifact.Versions, r artifact.Run, t trial) {
	image := t.Treatment.Setting.Kernel
	if image == "" {
		return
	}
	c.Compared++
	if want := v.GuestKernels[image]; r.Kernel != want {
		c.fail(artifact.RunsFile, r.RunID, "kernel is %q, but the director booted %s, which has %q", r.Kernel, image, want)
	}
}
