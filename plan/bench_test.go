package plan_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/labtest"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/fake"
)

// planEnv makes the test binary a process that makes one plan, "machines dir", and
// prints how long it took and the most memory that it needed.
const planEnv = "LVSLAB_TEST_PLAN"

// most is how many machines a block can make; see count in docs/language.md.
const most = 250

// large is a lab of that many machines: a client, a director, and backends with a
// tunnel, a zone and a place in the service each.
func large(machines int) string {
	var b, reals strings.Builder
	b.WriteString(`
lab "large" {
}
network "lan" {
  cidr = "198.18.0.0/16"
}
client "c" {
  nic {
    network = network.lan
  }
}
director "lb" {
  nic {
    network = network.lan
  }
}
zone "lab" {
  name    = "lab.test"
  records = [for i in range(20) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
}
`)
	for left, g := machines-2, 0; left > 0; left, g = left-most, g+1 {
		fmt.Fprintf(&b, `
backend "ns%[1]d" {
  count  = %[2]d
  serves = [zone.lab]
  nic {
    network = network.lan
  }
}
tunnel "to%[1]d" {
  from = director.lb
  to   = backend.ns%[1]d
}
`, g, min(left, most))
		fmt.Fprintf(&reals, "  real_server {\n    backends = backend.ns%[1]d\n    tunnel = tunnel.to%[1]d\n  }\n", g)
	}
	fmt.Fprintf(&b, "service \"dns\" {\n  director = director.lb\n  vip = \"198.18.200.1\"\n%s}\n", &reals)
	return b.String()
}

// planned is what one plan took: by the clock, of the processors (the process's
// beginning included), and of memory.
type planned struct {
	seconds, processor, megabytes float64
	resources                     int
}

// makePlan does what lvslab plan does between reading the topology and showing the
// changes; what exists is taken from the state.
func makePlan(text, dir string) (planned, error) {
	begun := time.Now()
	top, err := labtest.Read(text)
	if err != nil {
		return planned{}, err
	}
	ps, err := plan.NewProviders(labtest.Provider(fake.InMemory()))
	if err != nil {
		return planned{}, err
	}
	st, err := state.Read(dir)
	if errors.Is(err, state.ErrNone) {
		st.Lineage = state.NewLineage()
	} else if err != nil {
		return planned{}, err
	}
	have, err := st.Existing(ps)
	if err != nil {
		return planned{}, err
	}
	wanted, _, err := top.Lower(st.Lineage, st.Addresses)
	if err != nil {
		return planned{}, err
	}
	recorded := map[addr.Resource]cty.Value{}
	for _, e := range have {
		recorded[e.Addr] = e.Value
	}
	p, err := diff.Compute(diff.Input{Providers: ps, Wanted: wanted, Have: have, Recorded: recorded})
	if err != nil {
		return planned{}, err
	}
	if err := diff.Render(io.Discard, p); err != nil {
		return planned{}, err
	}
	if made := p.Totals(); len(have) > 0 && !p.Empty() || len(have) == 0 && made.Create != len(wanted) {
		return planned{}, fmt.Errorf("planned %+v", made)
	}
	took := time.Since(begun).Seconds()
	peak, err := peakMemory()
	return planned{seconds: took, megabytes: peak, resources: len(wanted)}, err
}

// peakMemory is the most that this process has had in memory, in MB (VmHWM,
// proc(5)).
func peakMemory() (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kib float64
		if n, _ := fmt.Sscanf(s.Text(), "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024, nil
		}
	}
	return 0, errors.New("no VmHWM")
}

func planChild(args string) error {
	machines, dir, _ := strings.Cut(args, " ")
	var n int
	if _, err := fmt.Sscan(machines, &n); err != nil {
		return err
	}
	p, err := makePlan(large(n), dir)
	if err != nil {
		return err
	}
	_, err = fmt.Println(p.seconds, p.megabytes, p.resources)
	return err
}

// inChild makes one plan in a process of its own.
func inChild(b *testing.B, machines int, dir string) planned {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", planEnv, machines, dir))
	out, err := cmd.CombinedOutput()
	var p planned
	if err == nil {
		_, err = fmt.Sscan(string(out), &p.seconds, &p.megabytes, &p.resources)
	}
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	p.processor = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return p
}

// stateOf writes the state of a lab that is up.
func stateOf(machines int, dir string) error {
	top, err := labtest.Read(large(machines))
	if err != nil {
		return err
	}
	s, err := state.OpenOrCreate(context.Background(), dir, "large", "", state.Options{})
	if err != nil {
		return err
	}
	wanted, addresses, err := top.Lower(s.State().Lineage, nil)
	if err != nil {
		return err
	}
	err = s.Update(func(st *state.State) error {
		st.Addresses = addresses
		for _, r := range wanted {
			r.DependsOn = append(r.DependsOn, r.ReplacedBy...)
			rec, err := state.NewResource(r, r.Attrs, state.OK)
			if err != nil {
				return err
			}
			st.Put(rec)
		}
		return nil
	})
	return errors.Join(err, s.Close())
}

// BenchmarkPlan plans labs of 10, 100 and 1,000 machines, from nothing and of what
// is up. The slope is that of the logarithms of processor time and machines: 1 is
// linear growth, 2 is square. The clock tells little where others work, too.
func BenchmarkPlan(b *testing.B) {
	sizes := []int{10, 100, 1000}
	dirs := map[int]string{}
	for _, n := range sizes {
		dirs[n] = filepath.Join(b.TempDir(), "up")
		if err := stateOf(n, dirs[n]); err != nil {
			b.Fatal(err)
		}
	}
	none := filepath.Join(b.TempDir(), "none")
	for b.Loop() {
		for _, up := range []bool{false, true} {
			kind := map[bool]string{false: "from nothing", true: "of what is up"}[up]
			fmt.Printf("\n%-24s %9s %9s %9s %9s   %s\n", "plan "+kind, "resources", "seconds", "CPU s", "MB", "goal")
			var took []planned
			for _, n := range sizes {
				dir := none
				if up {
					dir = dirs[n]
				}
				p := inChild(b, n, dir)
				took = append(took, p)
				goal := ""
				if n == 1000 {
					goal = "≤ 1 s, ≤ 200 MB"
				}
				fmt.Printf("%-24s %9d %9.3f %9.3f %9.1f   %s\n", fmt.Sprintf("%d machines", n), p.resources, p.seconds, p.processor, p.megabytes, goal)
			}
			last := took[len(took)-1]
			slope := math.Log10(last.processor / took[len(took)-2].processor)
			fmt.Printf("%-24s %39.2f   %s\n", "slope from 100 to 1000", slope, "1 = linear")
			unit := strings.ReplaceAll(kind, " ", "-")
			b.ReportMetric(last.seconds, "s/1000-"+unit)
			b.ReportMetric(slope, "slope-"+unit)
			b.ReportMetric(last.megabytes, "MB-"+unit)
		}
	}
}

// Ten times the machines must not take a hundred times the work. What is counted
// is what is allocated: it is the same on every machine, busy or not.
func TestPlanGrowsWithTheLab(t *testing.T) {
	allocated := func(n int) float64 {
		dir := filepath.Join(t.TempDir(), "up")
		if err := stateOf(n, dir); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := makePlan(large(n), dir); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	small, big := allocated(40), allocated(400)
	t.Logf("40 machines: %.1f MB, 400: %.1f MB", small/1e6, big/1e6)
	if big > 15*small {
		t.Errorf("ten times the machines take %.1f times the memory", big/small)
	}
}
