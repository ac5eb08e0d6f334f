package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/stats"
)

// weighs reports whether a scheduler uses weights as more than 0 or not 0.
func weighs(scheduler string) bool { return !slices.Contains([]string{"rr", "lc"}, scheduler) }

// quantised reports whether each backend's decisions are its part of all
// decisions to less than one: no division of whole decisions is nearer.
func quantised(scheduler string, r run) bool {
	u := r.usable()
	if r.Decisions == nil || len(u) == 0 {
		return false
	}
	var weights, total float64
	for _, b := range u {
		if !weighs(scheduler) {
			b.Weight = 1
		}
		weights += float64(b.Weight)
		total += float64(b.IPVSConnsDelta)
	}
	for _, b := range u {
		if !weighs(scheduler) {
			b.Weight = 1
		}
		if math.Abs(float64(b.IPVSConnsDelta)-total*float64(b.Weight)/weights) >= 1 {
			return false
		}
	}
	return total == float64(*r.Decisions)
}

func connsOf(b artifact.BackendRow) int64   { return b.IPVSConnsDelta }
func answersOf(b artifact.BackendRow) int64 { return int64(b.AnswersOK) }

// pattern writes the counts of the usable backends, largest first, when all
// runs of the group have the same: "350/350/300"; else "".
func pattern(g group, value func(artifact.BackendRow) int64) string {
	var first string
	for i, r := range g.runs {
		var n []int64
		for _, b := range r.usable() {
			n = append(n, value(b))
		}
		slices.Sort(n)
		slices.Reverse(n)
		var parts []string
		for _, v := range n {
			parts = append(parts, fmt.Sprint(v))
		}
		p := strings.Join(parts, "/")
		if i == 0 {
			first = p
		} else if p != first {
			return ""
		}
	}
	return first
}

// evenly says that treatments divided the load as well as it can be divided,
// and why the answers are nevertheless not equal when they are not.
func evenly(groups []group, split, answers string) Verdict {
	n := runsOf(groups)
	low, high := spanGroups(groups, func(r run) int { return *r.Decisions })
	backends, _ := spanGroups(groups, func(r run) int { return len(r.usable()) })
	text := fmt.Sprintf("%s spread %s over %s backends as evenly as whole decisions allow in %s", names(labels(groups), "treatment"),
		decided(low, high), Count(backends), of(n, n, "run"))
	if split != "" && len(split) <= 40 {
		text += " (" + split + ")"
	}
	value := "each within 1 of its part"
	if answers != "" && answers != split {
		text += fmt.Sprintf("; the accepted answers were %s", answers)
		value += "; answers_ok " + answers
	}
	text += "."
	if j, ok := bestJain(groups); ok && low == high && j < 0.99995 {
		text += fmt.Sprintf(" With %s Jain's index cannot exceed %.4f.", decided(low, high), j)
	}
	return Verdict{ID: "spread-even", Level: Finding, Title: "Spread as evenly as possible", Text: text,
		Evidence: []Evidence{{artifact.BackendsFile, names(labels(groups), "treatment"), "ipvs_conns_delta", value}}}
}

// bestJain is the index of the most even division of the decisions over
// backends of equal weight; not defined for different weights.
func bestJain(groups []group) (float64, bool) {
	r := groups[0].runs[0]
	u := r.usable()
	for _, b := range u {
		if weighs(groups[0].Scheduler) && b.Weight != u[0].Weight {
			return 0, false
		}
	}
	d, n := *r.Decisions, len(u)
	part := make([]float64, n)
	for i := range part {
		part[i] = float64(d / n)
		if i < d%n {
			part[i]++
		}
	}
	return stats.Jain(part)
}

// sharesOf writes each backend's smallest and largest share of the accepted
// answers over the runs, in the order of the backends' names; where the list
// turned and they keep to its places more closely, those of the places.
func sharesOf(g group) string {
	text, wide := sharesBy(g, false)
	if g.turned() {
		if byPlace, narrow := sharesBy(g, true); narrow < wide {
			return byPlace
		}
	}
	return text
}

// sharesBy is that by place or by name, and how far the shares range in all.
func sharesBy(g group, turned bool) (text string, wide float64) {
	low, high := map[string]float64{}, map[string]float64{}
	var order []string
	for _, r := range g.runs {
		total := 0
		for _, b := range r.rows {
			total += b.AnswersOK
		}
		if total == 0 {
			continue
		}
		for _, b := range r.rows {
			share := float64(b.AnswersOK) / float64(total)
			who := spot(b, turned)
			if _, ok := low[who]; !ok {
				order = append(order, who)
				low[who], high[who] = share, share
			}
			low[who], high[who] = min(low[who], share), max(high[who], share)
		}
	}
	if !turned { // places come head first
		slices.Sort(order)
	}
	var parts []string
	for _, b := range order {
		parts = append(parts, b+" "+percentBetween(low[b], high[b]))
		wide += high[b] - low[b]
	}
	return strings.Join(parts, ", "), wide
}
