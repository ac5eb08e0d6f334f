package load

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestRise(t *testing.T) {
	for _, c := range []struct {
		before, after uint64
		bits          int
		n             uint64
		back          bool
	}{
		{5, 12, 64, 7, false},
		{5, 5, 0, 0, false},
		{math.MaxUint32 - 2, 7, 32, 10, false}, // …fd, …fe, …ff, 0, … 7
		{math.MaxUint32, 0, 32, 1, false},
		{math.MaxUint32 - 2, 7, 64, 0, true}, // wide: it began anew
		{math.MaxUint32 - 2, 7, 0, 0, true},
		{math.MaxUint32 - 2, math.MaxUint32 + 3, 64, 5, false}, // past 2^32, and no wrap
		{1 << 40, 7, 32, 0, true},                              // was never one of 32 bits
	} {
		if n, back := Rise(c.before, c.after, c.bits); n != c.n || back != c.back {
			t.Errorf("%d → %d with %d bits: %d, %v", c.before, c.after, c.bits, n, back)
		}
	}
}

// However a 32-bit counter stood, what it rose by is found again.
func TestRiseUnwraps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, rose := rapid.Uint32().Draw(t, "before"), rapid.Uint32().Draw(t, "rose")
		if n, back := Rise(uint64(before), uint64(before+rose), 32); n != uint64(rose) || back {
			t.Fatalf("%d + %d: %d, %v", before, rose, n, back)
		}
	})
}
