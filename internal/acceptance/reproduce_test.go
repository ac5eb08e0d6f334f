package acceptance

import (
	"strings"
	"testing"
	"time"
)

// TestAccReproduce runs the paper's study with one iteration: the counts that the
// explanations stand on do not depend on how many.
func TestAccReproduce(t *testing.T) {
	s := newSite(t, small("unused", "198.19.31", ""))
	r := s.must(0, 4*time.Minute, "reproduce", "triac-2026", "-var", "iterations=1", "-var", "queries=100")
	for _, want := range []string{
		"1.0060", "1.7520", "all ns[2]", "10 of 10 runs with 1 source port and 1 decision",
		"sed: 60:0:0 decisions", "nq: 60:0:0 decisions", "sed: 30:30:30 connections", "nq: 30:30:30 connections",
		"dh: ns[2] only", "It takes 11.",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in: %s", want, r)
		}
	}
	s.must(0, time.Minute, "verify", "results/triac-2026/latest")
	// A complete study is shown again, and nothing is run.
	if again := s.must(0, 2*time.Minute, "reproduce", "triac-2026", "-var", "iterations=1", "-var", "queries=100"); again.took > 60*time.Second || !strings.Contains(again.stdout, "sed: 60:0:0 decisions") {
		t.Errorf("a study that is complete: %s", again)
	}
	s.must(0, time.Minute, "reproduce", "triac-2026", "--from", "results/triac-2026/latest")
}
