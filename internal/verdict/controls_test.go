package verdict

import (
	"fmt"
	"testing"
)

// withAA adds the A/A control to a scene: its first treatment once more.
func (s *scene) withAA() *scene {
	twin := s.Treatments[0]
	twin.ID = "control=aa"
	s.Treatments = append(s.Treatments, twin)
	s.Controls = &Controls{AA: true}
	return s
}

func TestTheSameTreatmentTwice(t *testing.T) {
	list := Judge(newScene([]string{"rr", "dh"}, 6).sockets20().withAA().build())
	expect(t, list, "aa", OK, "rr ran twice in each block", "the same way in 6 of 6 blocks", "1.000 in the median and 1.000 at most", "p = 1")
	expect(t, list, "controls", OK, "6 of 18 runs are controls")
	expect(t, list, "no-controls", "")

	// A split that differs where the kernel is deterministic.
	s := newScene([]string{"rr", "dh"}, 6).sockets20().withAA()
	in := s.build()
	for i, r := range in.Runs {
		if r.TreatmentID == "control=aa" && r.Block == 3 {
			in.Backends[3*i].IPVSConnsDelta, in.Backends[3*i+1].IPVSConnsDelta = 8, 6
		}
	}
	expect(t, Judge(in), "aa", Caution, "5 of 6 blocks", "something else decided")
	// Where ports are hashed another split is what chance makes.
	for i := range in.Facts.Treatments {
		in.Facts.Treatments[i].Scheduler, in.Facts.Treatments[i].Flags = "sh", []string{"sh-port"}
	}
	expect(t, Judge(in), "aa", OK, "5 of 6 blocks")

	// One of the two is slower throughout.
	in = newScene([]string{"rr", "dh"}, 6).sockets20().withAA().build()
	for i, r := range in.Runs {
		if r.TreatmentID == "control=aa" {
			in.Runs[i].BatchS = ptr(*r.BatchS * 1.1)
		}
	}
	expect(t, Judge(in), "aa", Caution, "1.100 in the median", "p = 0.0312", "other differences of this size mean nothing")

	// Without complete answers there is no time, but still a split.
	in = newScene([]string{"rr", "dh"}, 2).sockets20().withAA().build()
	for i := range in.Runs {
		in.Runs[i].BatchS = nil
	}
	expect(t, Judge(in), "aa", OK, "the same way in 2 of 2 blocks.")
	expect(t, Judge(newScene([]string{"rr", "dh"}, 2).sockets20().build()), "aa", "")
}

// turned is a study whose list begins one place further on in each block: what a
// scheduler gives to a place of the list goes to another backend each time.
func turned(blocks int) Input {
	s := newScene([]string{"rr", "sed", "dh"}, blocks).sockets20().profile()
	s.Controls = &Controls{Rotate: true}
	in := s.build()
	for i := range in.Backends {
		b := &in.Backends[i]
		block := in.Runs[i/3].Block
		b.Backend = fmt.Sprintf("backend.ns[%d]", (b.Position+block-1)%3)
	}
	return in
}

func TestRotation(t *testing.T) {
	list := Judge(turned(9))
	expect(t, list, "follows-list", Finding, "sed sent everything to the head of the list in 9 of 9 runs, whoever that was: ns[0] in blocks 1, 4 and 7, ns[1] in blocks 2, 5 and 8 and ns[2] in",
		"dh sent everything to the 3rd place of the list in 9 of 9 runs.")
	expect(t, list, "confounded", "")
	expect(t, list, "same-backend", "")
	expect(t, list, "never-active", Finding, "sed sent each of 20 decisions a run to the list head, whoever that was, in 9 of 9 runs")
	list = Judge(turned(21))
	expect(t, list, "time-refused", "")
	expect(t, list, "time", Finding, "21 blocks")

	// Blocks that are no whole rotations lean to one backend.
	list = Judge(turned(22))
	expect(t, list, "time-refused", Refusal, "not list head equally often")

	// Two of three backends in turn: equally often, but the third one never.
	halves := turned(22)
	for i := range halves.Backends {
		b := &halves.Backends[i]
		b.Backend = fmt.Sprintf("backend.ns[%d]", (b.Position+halves.Runs[i/3].Block%2)%3)
	}
	expect(t, Judge(halves), "time-refused", Refusal, "not list head equally often")

	// The same rows without rotation asked for: three backends, no claim about places.
	in := turned(9)
	in.Facts.Controls = nil
	expect(t, Judge(in), "follows-list", "")

	// With rotation asked for and none made, what keeps to one backend is still pinned.
	s := newScene([]string{"rr", "sed", "dh"}, 9).sockets20()
	s.Controls = &Controls{Rotate: true}
	expect(t, Judge(s.build()), "confounded", Caution)
}
