package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Dot writes the graph in Graphviz's language; an arrow points to what is needed.
func (g *Graph[K]) Dot(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "digraph lvslab {")
	fmt.Fprintln(b, "  rankdir = \"RL\"")
	fmt.Fprintln(b, "  node [shape = \"box\"]")
	for _, n := range g.Nodes() {
		fmt.Fprintf(b, "  %s\n", dotID(n.String()))
	}
	for _, n := range g.Nodes() {
		for _, m := range g.Needs(n) {
			fmt.Fprintf(b, "  %s -> %s\n", dotID(n.String()), dotID(m.String()))
		}
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

// dotID quotes a name. Backslashes are doubled too: Graphviz's lexer would take
// one before the closing quote for an escape, and labels print two as one.
func dotID(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Mermaid writes the graph as a Mermaid flowchart; an arrow points to what is
// needed. Nodes are numbered, as Mermaid's identifiers take no brackets.
func (g *Graph[K]) Mermaid(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "flowchart RL")
	ids := map[K]int{}
	for i, n := range g.Nodes() {
		ids[n] = i
		fmt.Fprintf(b, "  n%d[\"%s\"]\n", i, mermaidText.Replace(n.String()))
	}
	for _, n := range g.Nodes() {
		for _, m := range g.Needs(n) {
			fmt.Fprintf(b, "  n%d --> n%d\n", ids[n], ids[m])
		}
	}
	return b.Flush()
}

// mermaidText escapes what would end a quoted label or start an entity in it.
var mermaidText = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;")
