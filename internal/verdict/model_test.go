package verdict

import "testing"

// TestAsPlanned: whole numbers, no tolerance, and only where they are certain.
func TestAsPlanned(t *testing.T) {
	plan := func(in Input, decisions ...int) Input {
		for i := range in.Backends {
			in.Backends[i].PlannedDecisions = ptr(decisions[i%3])
		}
		return in
	}
	in := newScene([]string{"rr", "lc"}, 4).sockets20().build()
	expect(t, Judge(in), "as-planned", "")
	expect(t, Judge(plan(in, 7, 7, 6)), "as-planned", OK, "8 of 8")
	expect(t, Judge(plan(in, 7, 7, 6)), "kernel-differs", "")

	wrong := plan(in, 7, 7, 6)
	wrong.Backends[4].PlannedDecisions = ptr(8)
	expect(t, Judge(wrong), "kernel-differs", Caution, "1 of 8 runs", "ns[1] got 7 where 8 were planned")
	expect(t, Judge(wrong), "as-planned", "")

	// A run of which the director got less is not what was planned.
	wrong.Runs[1].QueriesSent--
	expect(t, Judge(wrong), "kernel-differs", "")
	expect(t, Judge(wrong), "as-planned", OK, "7 of 7")
}

// TestAsReplayed: the model fed with what came, and whose fault a difference is.
func TestAsReplayed(t *testing.T) {
	in := newScene([]string{"rr", "twos"}, 4).sockets20().build()
	expect(t, Judge(in), "as-replayed", "")
	for i := range in.Runs {
		r := &in.Runs[i]
		r.Replay, r.ReplayRows, r.ReplayRowsDiffer = "packets", ptr(20), ptr(0)
		if r.TreatmentID == "scheduler=twos" {
			r.Replay, r.ReplayLimits, r.ReplayRows = "none", []string{"twos draws at random"}, nil
		}
	}
	expect(t, Judge(in), "as-replayed", OK, "In 4 of 4 runs", "80 connections", "(4,000 packets)", "(80 rows)", "Not compared: 4 runs: twos draws at random.")
	expect(t, Judge(in), "kernel-differs", "")

	// The plan took another load than came: not the kernel's fault.
	for i := range in.Backends {
		in.Backends[i].PlannedDecisions = ptr([]int{8, 6, 6}[i%3])
	}
	expect(t, Judge(in), "plan-differs", Caution, "4 of 8 runs", "got 7 where 8 were planned")

	for i := range in.Backends {
		in.Backends[i].PlannedDecisions = nil
	}
	in.Runs[1].Replay, in.Runs[1].KernelDiffers = "packets", "packet 17 went astray"
	expect(t, Judge(in), "as-replayed", "")
	expect(t, Judge(in), "kernel-differs", Caution, "1 of ", in.Runs[1].RunID+": packet 17 went astray.")
}
