package plan_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/labtest"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider/fake"
)

// neighbour is one of many labs on a host.
type neighbour struct {
	dir   string // of its state
	world fake.World
}

// bring makes the lab what the topology says, nothing when it is nil, and returns
// its lineage.
func (n neighbour) bring(top *labtest.Topology) (lineage string, err error) {
	ps, err := plan.NewProviders(labtest.Provider(n.world))
	if err != nil {
		return "", err
	}
	s, err := state.OpenOrCreate(context.Background(), n.dir, filepath.Base(n.dir), "", state.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	st := s.State()
	have, err := st.Existing(ps)
	if err != nil {
		return "", err
	}
	in := diff.Input{Providers: ps, Have: have}
	if top != nil {
		if in.Wanted, _, err = top.Lower(st.Lineage, nil); err != nil {
			return "", err
		}
	}
	p, err := diff.Compute(in)
	if err != nil {
		return "", err
	}
	if err := walk.Run(context.Background(), p, walk.Options{Providers: ps, Recorder: s.Recorder()}).Err(); err != nil {
		return "", err
	}
	return st.Lineage, nil
}

// at once runs the same for all of the labs and returns their lineages.
func atOnce(t *testing.T, labs []neighbour, top func(i int) *labtest.Topology) []string {
	t.Helper()
	lineages, errs := make([]string, len(labs)), make([]error, len(labs))
	var wg sync.WaitGroup
	for i, l := range labs {
		wg.Go(func() { lineages[i], errs[i] = l.bring(top(i)) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("lab %d: %v", i, err)
		}
	}
	return lineages
}

const small = `
lab "small" {
}
network "lan" {
  cidr = "198.18.0.0/24"
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
backend "ns" {
  serves = [zone.lab]
  nic {
    network = network.lan
  }
}
zone "lab" {
  name    = "lab.test"
  records = [{ name = "www", type = "A", values = ["192.0.2.1"] }]
}
tunnel "t" {
  from = director.lb
  to   = backend.ns
}
service "dns" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = "rr"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.t
  }
}
`

// Twenty labs of the same topology on one host at the same time, two of them in
// each of ten directories: started together, changed and taken down together.
// Names on the host follow from the lineage, so that nothing clashes, and nobody
// touches what is another's.
func TestTwentyLabsAtOnce(t *testing.T) {
	host, dir := fake.InMemory(), t.TempDir()
	var labs []neighbour
	for i := range 20 {
		name := filepath.Join(dir, fmt.Sprint("user", i/2), ".lvslab", []string{"lab", "other"}[i%2])
		labs = append(labs, neighbour{name, host.Lab(name)})
	}
	read := func(text string) *labtest.Topology {
		top, err := labtest.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	first, changed := read(small), read(strings.Replace(small, `"rr"`, `"lc"`, 1))
	lineages := atOnce(t, labs, func(int) *labtest.Topology { return first })
	seen := map[string]bool{}
	for _, l := range lineages {
		seen[l] = true
	}
	if len(seen) != len(labs) {
		t.Errorf("%d lineages of %d labs", len(seen), len(labs))
	}
	dumps := func() (out []string) {
		for i, l := range labs {
			text, err := l.world.Dump()
			if err != nil {
				t.Fatalf("lab %d: %v", i, err)
			}
			out = append(out, text)
		}
		return out
	}
	before := dumps()
	lines := strings.Count(before[0], "\n")
	for i, d := range before {
		if strings.Count(d, "\n") != lines || !strings.Contains(d, lineages[i]) || lines < 10 {
			t.Errorf("lab %d has\n%s", i, d)
		}
	}
	// Every other lab goes, the rest is changed, all at once.
	atOnce(t, labs, func(i int) *labtest.Topology {
		if i%2 == 0 {
			return nil
		}
		return changed
	})
	for i, d := range dumps() {
		want := ""
		if i%2 == 1 {
			want = strings.Replace(before[i], `"scheduler":"rr"`, `"scheduler":"lc"`, 1)
		}
		if d != want {
			t.Errorf("lab %d has\n%s\nwant\n%s", i, d, want)
		}
	}
}

// Two labs of one lineage would share their names on the host: the second is
// refused, and the first is left alone.
func TestOneLineageTwice(t *testing.T) {
	host, dir := fake.InMemory(), t.TempDir()
	top, err := labtest.Read(small)
	if err != nil {
		t.Fatal(err)
	}
	a, b := neighbour{filepath.Join(dir, "a"), host.Lab("a")}, neighbour{filepath.Join(dir, "b"), host.Lab("b")}
	lineage, err := a.bring(top)
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.OpenOrCreate(context.Background(), b.dir, "b", "", state.Options{Lineage: lineage})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := a.world.Dump()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.bring(top); err == nil {
		t.Error("two labs have the same names")
	}
	if _, err := b.bring(nil); err != nil {
		t.Fatal(err)
	}
	after, err := a.world.Dump()
	if err != nil || after != before {
		t.Errorf("the first lab was changed: %v\n%s", err, after)
	}
}
