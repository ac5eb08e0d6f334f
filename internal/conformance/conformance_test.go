package conformance

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/guesttest"
	"github.com/lvslab/lvslab/internal/ipvs"
)

// TestAccConformance replays the cases, and random ones.
func TestAccConformance(t *testing.T) { guesttest.Run(t, "^TestGuest") }

func load(t *testing.T) {
	t.Helper()
	guesttest.Inside(t)
	if _, err := ipvs.Preflight(context.Background(), nil, proto.IPVSNeeds{Schedulers: Schedulers}); err != nil {
		t.Fatal(err)
	}
}

func TestGuestCases(t *testing.T) {
	load(t)
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	replayed := 0
	for _, c := range cases {
		origin := "derived"
		if c.Measured {
			origin = "measured"
		}
		if why := Unfit(c.Script, Schedulers); why != "" {
			t.Logf("%-8s  left out (%s)  %s", origin, why, c.Name)
			continue
		}
		replayed++
		wrong, err := Replay(c)
		if err != nil || len(wrong) > 0 {
			t.Errorf("%-8s  DIFFERS  %s: %v %s", origin, c.Name, err, strings.Join(wrong, "; "))
			continue
		}
		t.Logf("%-8s  same  %s", origin, c.Name)
	}
	t.Logf("%d of %d cases replayed", replayed, len(cases))
	if replayed < len(cases)/2 {
		t.Errorf("only %d of %d cases can be replayed", replayed, len(cases))
	}
}

// A replayer that finds everything right would prove nothing.
func TestGuestReplayCanFail(t *testing.T) {
	load(t)
	for _, text := range []string{
		"service udp 10.0.0.100:53 rr\nadd udp 10.0.0.100:53 10.0.0.3:53\nsend udp 10.0.0.1:1 10.0.0.100:53 -> no-destination",
		"service udp 10.0.0.100:53 rr\nsend udp 10.0.0.1:1 10.0.0.100:53 -> 10.0.0.3:53",
		"service udp 10.0.0.100:53 rr\nadd udp 10.0.0.100:53 10.0.0.3:53\nsend udp 10.0.0.1:1 10.0.0.100:53\nrows 2",
	} {
		if wrong, err := Replay(Case{Script: parse(t, text)}); err != nil || len(wrong) != 1 {
			t.Errorf("%q: %q, %v, want one difference", text, wrong, err)
		}
	}
}

func number(name string, other uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return other
}

// TestGuestRandom: LVSLAB_FUZZ is how many cases, LVSLAB_SEED which.
func TestGuestRandom(t *testing.T) {
	load(t)
	count, seed := number("LVSLAB_FUZZ", 100), number("LVSLAB_SEED", 1)
	began, differ, packets := time.Now(), 0, 0
	for n := range count {
		lines := Generate(seed, n)
		found, err := Difference(strings.Join(lines, "\n"))
		if err != nil {
			t.Fatalf("seed %d case %d: %v", seed, n, err)
		}
		packets += sends(lines)
		if found == "" {
			continue
		}
		if differ++; differ > 3 {
			continue // counted only
		}
		small := Minimise(slices.Clone(lines), func(l []string) bool {
			d, err := Difference(strings.Join(l, "\n"))
			return err == nil && d != ""
		})
		found, _ = Difference(strings.Join(small, "\n"))
		t.Errorf("seed %d case %d: %s\n%s", seed, n, found, strings.Join(small, "\n"))
	}
	t.Logf("seed %d: %d random cases, %d lines that send, %d differ, in %v", seed, count, packets, differ, time.Since(began).Round(time.Second))
}

func sends(lines []string) (n int) {
	for _, l := range lines {
		if strings.HasPrefix(l, "send") {
			n++
		}
	}
	return n
}
