package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// hashBuckets is the size of sh's table (IP_VS_SH_TAB_SIZE in ip_vs_sh.c).
const hashBuckets = 256

// bucketsOf is how many of sh's buckets each usable backend of a run has: the
// list is gone through over and over, each backend taking as many buckets in a
// row as its weight says, until all are taken (ip_vs_sh_reassign).
func bucketsOf(u []artifact.BackendRow) []float64 {
	out := make([]float64, len(u))
	for taken := 0; taken < hashBuckets; {
		for i, b := range u {
			for w := 0; w < b.Weight && taken < hashBuckets; w++ {
				out[i]++
				taken++
			}
		}
	}
	return out
}

// chance: sh with sh-port hashes address and port of the client, so random
// ports make its decisions independent draws. They are the only decisions here
// that a test of chance fits: everywhere else the kernel counts, and so do the
// rules above.
func chance(s *study) []Verdict {
	var out []Verdict
	for _, g := range s.groups {
		if g.Scheduler != "sh" || !slices.Contains(g.Flags, "sh-port") {
			continue
		}
		first := g.runs[0].usable()
		counts := make([]int, len(first))
		decided, same, turned := 0, len(first) > 1, g.turned()
		for _, r := range g.runs {
			u := r.usable()
			same = same && r.Decisions != nil && r.SourcePorts == *r.Decisions &&
				slices.EqualFunc(u, first, func(a, b artifact.BackendRow) bool { return spot(a, turned) == spot(b, turned) && a.Weight == b.Weight })
			if !same {
				break
			}
			for i, b := range u {
				counts[i] += int(b.IPVSConnsDelta)
				decided += int(b.IPVSConnsDelta)
			}
		}
		if !same || decided == 0 {
			continue
		}
		buckets := bucketsOf(first)
		res, err := stats.Multinomial(counts, buckets, resamples, resampleSeed)
		if err != nil {
			continue // counts of a kernel are whole and not negative
		}
		out = append(out, chanceVerdict(g, turned, first, counts, buckets, decided, res))
	}
	return out
}

func chanceVerdict(g group, turned bool, u []artifact.BackendRow, counts []int, buckets []float64, decided int, res stats.MultinomialResult) Verdict {
	var got, want, who []string
	for i, b := range u {
		got, want, who = append(got, Count(counts[i])), append(want, fmt.Sprint(buckets[i])), append(who, spot(b, turned))
	}
	how := "an exact multinomial test"
	if !res.Exact {
		how = "a multinomial test by resampling"
	}
	v := Verdict{ID: "spread-chance", Level: Finding, Title: "As uneven as chance makes it",
		Text: fmt.Sprintf("%s hashes the source port: its %s went %s to %s, against %s of %d buckets; %s gives p = %s.",
			g.label, some(decided, "decision"), strings.Join(got, "/"), names(who, "backend"), strings.Join(want, "/"), hashBuckets, how, probability(res.P)),
		Evidence: []Evidence{{artifact.BackendsFile, g.label, "ipvs_conns_delta", strings.Join(got, "/")}},
		Remedy:   "Use rr or wrr where the spread must be even; more source ports make the shares of sh-port more alike."}
	if res.P <= level {
		v.Level, v.Title = Caution, "More uneven than chance makes it"
		v.Text += " Random ports would seldom fall so: these were not random, or the hash does not spread them evenly."
		v.Remedy = "Look at the source ports in raw/<run_id>/queries.csv."
	}
	return v
}
