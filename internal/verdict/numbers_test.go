package verdict

import (
	"math"
	"math/rand/v2"
	"testing"
)

// shaken is a study of two equal treatments on hardware, with random times.
func shaken(blocks int, rng *rand.Rand) Input {
	s := newScene([]string{"rr", "lc"}, blocks).sockets20()
	s.Accelerator = "kvm"
	level := map[int]float64{}
	s.batch = func(_ string, block int) float64 {
		if _, ok := level[block]; !ok {
			level[block] = 0.2 * rng.NormFloat64()
		}
		return 0.01 * math.Exp(level[block]+0.1*rng.NormFloat64())
	}
	return s.build()
}

// TestThousandStudiesOfNothing: of a thousand studies of one treatment under two
// names at most 5 % may end with a claim, apart from the error of counting.
func TestThousandStudiesOfNothing(t *testing.T) {
	const n = 1000
	rng := rand.New(rand.NewPCG(2026, 5))
	claims, drifts := 0, 0
	for range n {
		s := newStudy(shaken(6, rng))
		matrix, blocks := s.matrix(s.measure())
		if v := claim(s, matrix, blocks); v.ID != "time" {
			t.Fatalf("not judged: %+v", v)
		}
		if comparePairs(s, matrix)[0].adjusted <= level {
			claims++
		}
		if drift(s)[0].ID == "drift" {
			drifts++
		}
	}
	limit := level*n + 3*math.Sqrt(n*level*(1-level))
	if float64(claims) > limit || float64(drifts) > limit {
		t.Errorf("%d claims of a difference and %d of a drift in %d studies, at most %.0f may", claims, drifts, n, limit)
	}
	t.Logf("%d claims of a difference, %d of a drift", claims, drifts)
}

func TestDrift(t *testing.T) {
	s := newScene([]string{"rr", "lc"}, 6).sockets20()
	s.batch = func(_ string, block int) float64 { return 0.02 - 0.001*float64(block) }
	expect(t, Judge(s.build()), "drift", Caution, "batch_s falls over 6 blocks", "-1.00", "0.0028")
	s = newScene([]string{"rr", "lc"}, 6).sockets20()
	s.batch = func(_ string, block int) float64 { return 0.02 + 0.001*float64(block*5%7) }
	list := Judge(s.build())
	expect(t, list, "drift", "")
	expect(t, list, "no-drift", OK, "6 blocks")
}

func TestChanceIsTestedWhereTheKernelHashesPorts(t *testing.T) {
	scene := func(give ...int) Input {
		s := newScene([]string{"sh"}, 1)
		s.ports, s.decisions = 60, 60
		s.Treatments[0].Flags = []string{"sh-port"}
		s.give = func(string, int) []int { return give }
		return s.build()
	}
	expect(t, Judge(scene(23, 21, 16)), "spread-chance", Finding, "60 decisions went 23/21/16", "86/85/85 of 256 buckets", "exact multinomial")
	expect(t, Judge(scene(40, 10, 10)), "spread-chance", Caution, "40/10/10", "below 0.0001")
	in := scene(23, 21, 16)
	in.Facts.Treatments[0].Flags = nil
	expect(t, Judge(in), "spread-chance", "")
	in = scene(23, 21, 16)
	in.Runs[0].SourcePorts = 30 // more decisions than ports: not independent draws
	expect(t, Judge(in), "spread-chance", "")
}
