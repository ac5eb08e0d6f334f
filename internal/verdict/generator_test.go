package verdict

import "testing"

// TestGenerator: what the generator says of itself is no loss.
func TestGenerator(t *testing.T) {
	in := newScene([]string{"rr", "lc"}, 4).sockets20().build()
	expect(t, Judge(in), "nothing-lost", OK)
	expect(t, Judge(in), "deadlines-missed", "")
	expect(t, Judge(in), "not-taken", "")
	in.Runs[1].OutcomeFlags = []string{"deadlines_missed"}
	in.Runs[2].OutcomeFlags = []string{"not_taken"}
	expect(t, Judge(in), "deadlines-missed", Caution, "In 1 of 8 runs")
	expect(t, Judge(in), "not-taken", Caution, "In 1 of 8 runs")
	expect(t, Judge(in), "nothing-lost", OK)
	in.Runs[3].OutcomeFlags = []string{"icmp_errors", "deadlines_missed"}
	expect(t, Judge(in), "losses", Caution, "in 1 of 8 runs", "icmp_errors in 1 run")
	expect(t, Judge(in), "nothing-lost", "")
}
