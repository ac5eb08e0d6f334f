package verdict

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// near is a study of three treatments on hardware: rr and lc alike to some
// thousandths, wlc by a factor apart.
func near(within, shift float64) *scene {
	s := newScene([]string{"rr", "lc", "wlc"}, 20).sockets20().profile()
	s.EqualWithin = within
	s.batch = func(scheduler string, block int) float64 {
		v := 0.01 * (1 + float64(block*13%7)/100)
		v *= 1 + float64((block*5+int(scheduler[0]))%4)/1000
		if scheduler == "wlc" {
			v *= shift
		}
		return v
	}
	return s
}

func TestEqualityIsShownWithinTheStatedFactor(t *testing.T) {
	list := Judge(near(1.05, 1).build())
	expect(t, list, "equivalent", Finding, "Within the factor of 1.05", "3 of 3 pairs are shown to be equal", "lc and rr (90 % interval ")
	if v, _ := find(list, "equivalent"); strings.Contains(v.Text, "Not shown") {
		t.Errorf("all are equal: %+v", v)
	}
	expect(t, list, "time", Finding, "0 of 3 pairs differ")

	list = Judge(near(1.05, 1.2).build())
	expect(t, list, "equivalent", Finding, "1 of 3 pairs are shown to be equal", "lc and rr (90 % interval ", "p = below 0.0001)",
		"Not shown is it of wlc and rr (90 % interval 1.199 to 1.201, p = 1)", "Not shown to be equal is not shown to be different")

	// None within a factor that the spread drowns: refused, with what it could show.
	noisy := near(1.01, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	noisy.batch = func(string, int) float64 { return 0.01 * math.Exp(0.2*rng.NormFloat64()) }
	list = Judge(noisy.build())
	expect(t, list, "equivalent", "")
	expect(t, list, "not-equivalent", Refusal, "0 of 3 pairs are shown to be equal", "Not shown to be equal is not shown to be different")
	if v, _ := find(list, "not-equivalent"); !strings.Contains(v.Remedy, "20 blocks can show two equal treatments to be equal within 1.") {
		t.Errorf("remedy: %s", v.Remedy)
	}

	// Nobody asked.
	list = Judge(near(0, 1).build())
	expect(t, list, "equivalent", "")
	expect(t, list, "not-equivalent", "")
}

// Where times may not be compared, equality is refused with them.
func TestEqualityIsRefusedWhereTimesAre(t *testing.T) {
	emulated := near(1.05, 1)
	emulated.Accelerator = "tcg"
	few := near(1.05, 1).build()
	for i := range few.Runs {
		few.Runs[i].Valid = few.Runs[i].Block <= 4
	}
	for name, in := range map[string]Input{"emulation": emulated.build(), "four blocks": few} {
		list := Judge(in)
		expect(t, list, "equivalent", "")
		expect(t, list, "not-equivalent", "")
		v, _ := find(list, "time-refused")
		if !strings.HasPrefix(v.Text, "Neither differences in batch_s, qps and latency are claimed nor equality within the factor of 1.05: ") {
			t.Errorf("%s: %s", name, v.Text)
		}
	}
}

// Of studies whose two treatments lie apart by just the factor stated, at most 5 %
// may end with equality, apart from the error of counting; of such as are equal most
// do, since 20 blocks of this spread are enough.
func TestStudiesOfEquality(t *testing.T) {
	const n = 400
	rng := rand.New(rand.NewPCG(2026, 12))
	shown := func(ratio float64) int {
		count := 0
		for range n {
			s := newScene([]string{"rr", "lc"}, 20).sockets20().profile()
			s.EqualWithin = 1.1
			s.batch = func(scheduler string, _ int) float64 {
				v := 0.01 * math.Exp(0.08*rng.NormFloat64())
				if scheduler == "lc" {
					v *= ratio
				}
				return v
			}
			for _, v := range equivalence(newStudy(s.build())) {
				if v.ID == "equivalent" {
					count++
				}
			}
		}
		return count
	}
	limit := level*n + 3*math.Sqrt(n*level*(1-level))
	apart, same := shown(1.1), shown(1)
	if float64(apart) > limit || same < 9*n/10 {
		t.Errorf("equality in %d of %d studies with the stated difference (at most %.0f), in %d of %d without one", apart, n, limit, same, n)
	}
	t.Logf("%d with the stated difference, %d without one", apart, same)
}
