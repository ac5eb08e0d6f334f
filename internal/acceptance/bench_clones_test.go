package acceptance

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// rounds is how often each way is measured; the medians are what is printed.
const rounds = 7

// BenchmarkClones measures the paper's lab with cached image and templates: clones
// in a row, as somebody has them who works with a lab, then clones and cold boots
// turn and turn about, so that what else the machine does meets both. In a row
// clones find the memory that the last lab has just given back; after a booted lab,
// of twice the size, a host that is itself virtual has to fetch it. Read the ratio;
// the seconds are this machine's.
func BenchmarkClones(b *testing.B) {
	needLab(b)
	for b.Loop() {
		s := benchSite(b)
		measureBirth(s, "restore") // makes what is missing in the cache
		var row, restored, cold []birth
		for range rounds {
			row = append(row, measureBirth(s, "restore"))
		}
		for range rounds {
			restored = append(restored, measureBirth(s, "restore"))
			cold = append(cold, measureBirth(s, "cold"))
		}
		line := func(name string, goal string, of func(birth) float64) float64 {
			r, c := median(restored, of), median(cold, of)
			fmt.Printf("%-44s %9.2f %9.2f %9.2f %7.2f   %s\n", name, median(row, of), r, c, r/c, goal)
			return r / c
		}
		fmt.Printf("\n%-44s %9s %9s %9s %7s   %s\n", fmt.Sprintf("medians of %d, seconds", rounds), "in a row", "in turns", "booted", "ratio", "goal")
		line("apply → five machines run", "≤ 1.5 s", func(t birth) float64 { return t.created })
		line("  → all have their identity", "", func(t birth) float64 { return t.enrolled })
		line("  → configured, read back", "", func(t birth) float64 { return t.configured })
		ratio := line("  → first answered query through LVS-TUN", "≤ 4 s, ≤ 0.35", func(t birth) float64 { return t.answer })
		line("  → all paths proved", "", func(t birth) float64 { return t.proved })
		line("destroyed and verified", "≤ 1 s", func(t birth) float64 { return t.destroyed })
		line("memory of the lab, MB", "< 1300", func(t birth) float64 { return t.memory })
		b.ReportMetric(ratio, "cloned/booted")
	}
}

// birth is what one apply took, seconds since its start, and its memory in MB.
type birth struct{ created, enrolled, configured, answer, proved, destroyed, memory float64 }

func median[T any](of []T, value func(T) float64) float64 {
	var all []float64
	for _, t := range of {
		all = append(all, value(t))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func measureBirth(s *site, boot string) birth {
	s.must(0, 5*time.Minute, "apply", "--keep", "--fresh", "--boot", boot, "-var", "iterations=1", "-var", "queries=20", "builtin:lvs-tun-dns")
	t := s.latest("lvs-tun-dns").Manifest().Timings
	out := birth{created: *t.CreatedS, enrolled: *t.EnrolledS, configured: *t.ConfiguredS, answer: *t.FirstAnswerS, proved: *t.ProvedS}
	out.memory = labMemory(s)
	out.destroyed = s.must(0, time.Minute, "destroy", "--auto-approve").took.Seconds()
	return out
}

var pssLine = regexp.MustCompile(`(?m)^Pss: +(\d+) kB$`)

// labMemory is what the lab's QEMU processes have of the host's memory, MB,
// shared pages divided among those who share them (proc(5), Pss).
func labMemory(s *site) float64 {
	kib := 0
	for pid, line := range s.processes() {
		if !strings.Contains(line, "qemu-system") {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			s.t.Fatal(err)
		}
		if m := pssLine.FindSubmatch(text); m != nil {
			n, _ := strconv.Atoi(string(m[1])) // digits
			kib += n
		}
	}
	return float64(kib) / 1024
}
