package operation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/conformance"
)

// conformanceReports are those of several kernels, one at least.
type conformanceReports []*conformanceReport

// data is what --json has: the report, or with several kernels a list of them.
func (all conformanceReports) data() any {
	if len(all) == 1 {
		return all[0]
	}
	return map[string]any{"kernels": all}
}

// text is the table kernel by case, then each difference with what shows it again.
func (all conformanceReports) text(o ConformanceOptions) string {
	var b strings.Builder
	all.table(&b)
	for _, r := range all {
		r.differences(&b, len(all) > 1)
	}
	for _, r := range all {
		fmt.Fprintf(&b, "\nLinux %s, IPVS %s: %d of %s replayed, %s.", r.Kernel, r.IPVS, r.Replayed, count(len(r.Cases), "case"), verdictOn(r.Differ))
		if r.Random != nil {
			fmt.Fprintf(&b, "\nRandom cases of seed %d: %d with %s, %s.", r.Random.Seed, r.Random.Cases, count(r.Random.Packets, "packet"), verdictOn(r.Random.Differ))
			if r.Random.Differ > 0 {
				fmt.Fprintf(&b, " The same again: lvslab conformance --fuzz %d --seed %d", o.Fuzz, o.Seed)
			}
		}
	}
	return b.String()
}

// resultWidth is the longest result's.
const resultWidth = len(conformance.LeftOut)

// table has a column for each kernel and a line for each case. Why a case was
// left out stands behind it, for each kernel where that differs.
func (all conformanceReports) table(b *strings.Builder) {
	b.WriteByte('\n')
	width := make([]int, len(all))
	for i, r := range all {
		title := "LINUX " + release(r.Kernel)
		width[i] = max(resultWidth, len(title))
		fmt.Fprintf(b, "%-*s  ", width[i], title)
	}
	fmt.Fprintf(b, "%-8s  CASE\n", "FROM")
	for i, c := range all[0].Cases {
		var why []string
		for k, r := range all {
			c := r.Cases[i]
			fmt.Fprintf(b, "%-*s  ", width[k], c.Result)
			if c.Result == conformance.LeftOut {
				why = append(why, c.Why)
			}
		}
		fmt.Fprintf(b, "%-8s  %s", c.Origin, c.Case)
		if why = slices.Compact(why); len(why) > 0 {
			fmt.Fprintf(b, " (%s)", strings.Join(why, "; "))
		}
		b.WriteByte('\n')
	}
}

// differences shows each case that differs.
func (r *conformanceReport) differences(b *strings.Builder, named bool) {
	var differ []conformance.Outcome
	for _, c := range r.Cases {
		if c.Result == conformance.Differs {
			differ = append(differ, c)
		}
	}
	if r.Random != nil {
		differ = append(differ, r.Random.First...)
	}
	on := ""
	if named {
		on = " on Linux " + release(r.Kernel)
	}
	for _, c := range differ {
		fmt.Fprintf(b, "\nDIFFERS%s: %s\n  %s\n  what shows it:\n", on, c.Case, c.Why)
		for _, l := range strings.Split(c.Script, "\n") {
			fmt.Fprintf(b, "    %s\n", l)
		}
	}
}

func verdictOn(differ int) string {
	switch differ {
	case 0:
		return "all agree"
	case 1:
		return "1 differs"
	}
	return fmt.Sprintf("%d differ", differ)
}

// release is a kernel's version without what the distribution adds.
func release(full string) string {
	head, _, _ := strings.Cut(full, "-")
	return head
}
