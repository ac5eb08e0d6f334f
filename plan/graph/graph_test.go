package graph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/diag"
)

type name string

func (n name) String() string     { return string(n) }
func (n name) Compare(o name) int { return cmp.Compare(n, o) }
func build(edges string) *Graph[name] {
	g := New[name]()
	for _, e := range strings.Fields(edges) {
		from, to, found := strings.Cut(e, ">")
		if g.Add(name(from)); found {
			g.Connect(name(from), name(to))
		}
	}
	return g
}

func TestLevels(t *testing.T) {
	cases := []struct{ edges, want string }{
		{"", "[]"},
		{"b a", "[[a b]]"},
		{"vm>net link>vm ipvs>link ipvs>dns dns>vm2 vm2>net", "[[net] [vm vm2] [dns link] [ipvs]]"},
		{"a>b a>c b>d c>d", "[[d] [b c] [a]]"},
	}
	for _, c := range cases {
		levels, err := build(c.edges).Levels()
		if err != nil || fmt.Sprint(levels) != c.want {
			t.Errorf("%q: %v, %v; want %s", c.edges, levels, err, c.want)
		}
	}
}

func TestCycleIsNamed(t *testing.T) {
	cases := []struct{ edges, want string }{
		{"a>a", "a needs a"},
		{"x>c c>b b>a a>c y>x", "a needs c needs b needs a"},
	}
	for _, c := range cases {
		_, err := build(c.edges).Order()
		var cycle *CycleError
		if !errors.As(err, &cycle) {
			t.Fatalf("%q: %v is no cycle error", c.edges, err)
		}
		if cycle.Error() != c.want {
			t.Errorf("%q: %q, want %q", c.edges, cycle.Error(), c.want)
		}
		if d := diag.From(err)[0]; d.Remedy == "" || !strings.Contains(d.Detail, c.want) {
			t.Errorf("%q: diagnostic %q", c.edges, d)
		}
	}
}

func TestClosureAndReverse(t *testing.T) {
	g := build("a>b b>c d>c e")
	if got := g.Closure("a", "nowhere"); len(got) != 3 || !got["a"] || !got["b"] || !got["c"] {
		t.Errorf("closure %v", got)
	}
	if got := g.Reverse().Closure("c"); len(got) != 4 || got["e"] {
		t.Errorf("what needs c: %v", got)
	}
	if got := fmt.Sprint(g.Needs("a"), g.NeededBy("c"), g.Reverse().Len()); got != "[b] [b d] 5" {
		t.Error(got)
	}
}

func TestDraw(t *testing.T) {
	g := build(`t["x"]>vm vm>net`)
	var dot, mermaid strings.Builder
	if err := errors.Join(g.Dot(&dot, nil), g.Mermaid(&mermaid, nil)); err != nil {
		t.Fatal(err)
	}
	wantDot := `digraph lvslab {
  rankdir = "RL"
  node [shape = "box"]
  "net"
  "t[\"x\"]"
  "vm"
  "t[\"x\"]" -> "vm"
  "vm" -> "net"
}
`
	wantMermaid := `flowchart RL
  n0["net"]
  n1["t[#quot;x#quot;]"]
  n2["vm"]
  n1 --> n2
  n2 --> n0
`
	if dot.String() != wantDot {
		t.Errorf("dot:\n%s", dot.String())
	}
	if mermaid.String() != wantMermaid {
		t.Errorf("mermaid:\n%s", mermaid.String())
	}
}

func TestDrawWithLooks(t *testing.T) {
	g := build(`a>"b"`)
	look := func(n name) Look {
		if n == "a" {
			return Look{}
		}
		return Look{Note: `gone: "x"`, Color: "red", Dashed: true}
	}
	var dot, mermaid strings.Builder
	if err := errors.Join(g.Dot(&dot, look), g.Mermaid(&mermaid, look)); err != nil {
		t.Fatal(err)
	}
	wantDot := `digraph lvslab {
  rankdir = "RL"
  node [shape = "box"]
  "\"b\"" [label = "\"b\"\ngone: \"x\"", color = "red", style = "dashed"]
  "a"
  "a" -> "\"b\""
}
`
	wantMermaid := `flowchart RL
  n0["#quot;b#quot;<br>gone: #quot;x#quot;"]
  n1["a"]
  style n0 stroke:red,stroke-dasharray:4
  n1 --> n0
`
	if dot.String() != wantDot {
		t.Errorf("dot:\n%s", dot.String())
	}
	if mermaid.String() != wantMermaid {
		t.Errorf("mermaid:\n%s", mermaid.String())
	}
}

// Any graph is either ordered, and then rightly, or has a cycle that really is one.
func TestOrderOrCycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New[name]()
		n := rapid.IntRange(1, 9).Draw(t, "nodes")
		at := rapid.IntRange(0, n-1)
		for i := range n {
			g.Add(name(rune('a' + i)))
		}
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			g.Connect(name(rune('a'+at.Draw(t, "from"))), name(rune('a'+at.Draw(t, "to"))))
		}
		order, err := g.Order()
		cycle := g.Cycle()
		if (err == nil) != (cycle == nil) {
			t.Fatalf("order says %v, cycle is %v", err, cycle)
		}
		for i, c := range cycle {
			if next := cycle[(i+1)%len(cycle)]; !slices.Contains(g.Needs(c), next) {
				t.Fatalf("cycle %v: %s does not need %s", cycle, c, next)
			}
		}
		if err == nil && len(order) != n {
			t.Fatalf("order %v of %d nodes", order, n)
		}
		for i, node := range order {
			for _, m := range g.Needs(node) {
				if slices.Index(order, m) > i {
					t.Fatalf("%s comes before %s, which it needs: %v", node, m, order)
				}
			}
		}
	})
}
