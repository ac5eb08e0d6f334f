package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/internal/picture"
	"github.com/lvslab/lvslab/plan/graph"
	"github.com/lvslab/lvslab/provider"
)

// The formats of [Graph].
const (
	GraphDot     = "dot"
	GraphMermaid = "mermaid"
)

// GraphOptions are graph's flags.
type GraphOptions struct {
	Format    string // GraphDot or GraphMermaid
	Resources bool   // resources instead of blocks
	Live      bool   // with what exists of them
	SVG       bool   // a picture of the network instead, see [picture.SVG]
}

// Graph prints who needs whom: the blocks of a topology, or all the resources
// that they become; with Live also what exists of them, as read just now. With SVG
// it draws the network; as JSON that comes with the graph of the blocks.
func Graph(ctx context.Context, s *Settings, path string, o GraphOptions) (Exit, error) {
	a, err := s.prepare(path, ApplyOptions{})
	if err != nil {
		return ExitError, err
	}
	var resources []provider.Resource
	if o.Resources || o.Live {
		if resources, err = lower.Resources(a.study.topology, a.study.layout, a.lowering()); err != nil {
			return ExitError, err
		}
	}
	var found map[addr.Resource]condition
	if o.Live {
		if found, err = a.conditions(ctx, resources); err != nil {
			return ExitError, err
		}
	}
	var text string
	var raw json.RawMessage
	if o.Resources {
		text, raw, err = draw(resourceGraph(resources), o.Format, found)
	} else {
		text, raw, err = draw(nounGraph(a.study.topology), o.Format, ofNouns(found))
	}
	if err != nil {
		return ExitError, err
	}
	if o.SVG {
		text = strings.TrimRight(picture.SVG(a.study.topology), "\n")
	}
	s.Events.Emit(ReportEvent{Kind: "graph", Text: a.study.redact(text), Data: json.RawMessage(a.study.redact(string(raw)))})
	return ExitDone, nil
}

func resourceGraph(resources []provider.Resource) *graph.Graph[addr.Resource] {
	g := graph.New[addr.Resource]()
	for _, r := range resources {
		g.Add(r.Addr)
		for _, d := range needsOf(r) {
			g.Connect(r.Addr, d)
		}
	}
	return g
}

func needsOf(r provider.Resource) []addr.Resource {
	out := append(append([]addr.Resource{}, r.DependsOn...), r.ReplacedBy...)
	if !r.Within.IsZero() {
		out = append(out, r.Within)
	}
	return out
}

// nounGraph draws which block refers to which, and which were told to wait.
func nounGraph(t *lang.Topology) *graph.Graph[addr.Noun] {
	g := graph.New[addr.Noun]()
	for _, n := range t.Networks {
		g.Add(n.Noun)
	}
	for _, z := range t.Zones {
		g.Add(z.Noun)
	}
	for _, m := range t.Machines {
		g.Add(m.Noun)
	}
	for _, edges := range []map[addr.Noun][]addr.Noun{t.Uses(), t.DependsOn} {
		for n, needs := range edges {
			for _, m := range needs {
				g.Connect(n, m)
			}
		}
	}
	return g
}

// draw writes a graph in a format, and as JSON. found is nil when nobody has looked.
func draw[K graph.Key[K]](g *graph.Graph[K], format string, found map[K]condition) (string, json.RawMessage, error) {
	for n := range found {
		g.Add(n) // what exists and is no longer asked for
	}
	var look func(K) graph.Look
	if found != nil {
		look = func(n K) graph.Look { return found[n].look() }
	}
	var b strings.Builder
	render := g.Dot
	if format == GraphMermaid {
		render = g.Mermaid
	}
	if err := render(&b, look); err != nil {
		return "", nil, fmt.Errorf("graph: %w", err)
	}
	type edge struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	nodes, edges := []string{}, []edge{}
	for _, n := range g.Nodes() {
		nodes = append(nodes, n.String())
		for _, m := range g.Needs(n) {
			edges = append(edges, edge{n.String(), m.String()})
		}
	}
	var live map[string]condition
	if found != nil {
		live = map[string]condition{}
		for n, c := range found {
			live[n.String()] = c
		}
	}
	raw, err := json.Marshal(struct {
		Nodes []string             `json:"nodes"`
		Edges []edge               `json:"edges"`
		Live  map[string]condition `json:"live,omitempty"`
	}{nodes, edges, live})
	return strings.TrimRight(b.String(), "\n"), raw, err
}
