package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Look is how a node is drawn beyond its name. The zero Look is a plain box.
type Look struct {
	Note   string // a second line
	Color  string // of the frame: a colour name that Graphviz and CSS share
	Dashed bool
}

// looks asks for a node's look; a nil function makes them all plain.
func looks[K Key[K]](look func(K) Look, n K) Look {
	if look == nil {
		return Look{}
	}
	return look(n)
}

// Dot writes the graph in Graphviz's language; an arrow points to what is
// needed. look may be nil.
func (g *Graph[K]) Dot(w io.Writer, look func(K) Look) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "digraph lvslab {")
	fmt.Fprintln(b, "  rankdir = \"RL\"")
	fmt.Fprintln(b, "  node [shape = \"box\"]")
	for _, n := range g.Nodes() {
		fmt.Fprintf(b, "  %s%s\n", dotID(n.String()), dotLook(n.String(), looks(look, n)))
	}
	for _, n := range g.Nodes() {
		for _, m := range g.Needs(n) {
			fmt.Fprintf(b, "  %s -> %s\n", dotID(n.String()), dotID(m.String()))
		}
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

// dotLook writes a node's attributes, in the order label, color, style.
func dotLook(name string, l Look) string {
	var attrs []string
	if l.Note != "" {
		// \n is Graphviz's line break, so it goes in after the quoting.
		attrs = append(attrs, "label = "+strings.TrimSuffix(dotID(name), `"`)+`\n`+strings.TrimPrefix(dotID(l.Note), `"`))
	}
	if l.Color != "" {
		attrs = append(attrs, "color = "+dotID(l.Color))
	}
	if l.Dashed {
		attrs = append(attrs, `style = "dashed"`)
	}
	if len(attrs) == 0 {
		return ""
	}
	return " [" + strings.Join(attrs, ", ") + "]"
}

// dotID quotes a name. Backslashes are doubled too: Graphviz's lexer would take
// one before the closing quote for an escape, and labels print two as one.
func dotID(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Mermaid writes the graph as a Mermaid flowchart; an arrow points to what is
// needed. Nodes are numbered, as Mermaid's identifiers take no brackets. look may
// be nil.
func (g *Graph[K]) Mermaid(w io.Writer, look func(K) Look) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "flowchart RL")
	ids := map[K]int{}
	for i, n := range g.Nodes() {
		ids[n] = i
		text := mermaidText.Replace(n.String())
		if note := looks(look, n).Note; note != "" {
			text += "<br>" + mermaidText.Replace(note)
		}
		fmt.Fprintf(b, "  n%d[\"%s\"]\n", i, text)
	}
	for _, n := range g.Nodes() {
		if l := looks(look, n); l.Color != "" || l.Dashed {
			fmt.Fprintf(b, "  style n%d %s\n", ids[n], mermaidStyle(l))
		}
	}
	for _, n := range g.Nodes() {
		for _, m := range g.Needs(n) {
			fmt.Fprintf(b, "  n%d --> n%d\n", ids[n], ids[m])
		}
	}
	return b.Flush()
}

func mermaidStyle(l Look) string {
	var parts []string
	if l.Color != "" {
		parts = append(parts, "stroke:"+l.Color)
	}
	if l.Dashed {
		parts = append(parts, "stroke-dasharray:4")
	}
	return strings.Join(parts, ",")
}

// mermaidText escapes what would end a quoted label or start an entity in it.
var mermaidText = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;")
