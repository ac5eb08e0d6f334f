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
