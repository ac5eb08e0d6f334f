// Package picture draws the network of a topology as SVG: machines in columns by
// what they are, networks as lines below them, the ways from director to backend as
// arrows. The same topology gives the same bytes. The drawing has its own white
// ground, tells nothing by colour alone, and says in title and desc what it shows.
package picture

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// Measures in the units of the viewBox. A lab without routers is about 450 wide, so
// that its letters are about 10 px high on a screen of 390 px.
const (
	fontSize  = 12
	lineSpace = 16
	padding   = 8  // inside of a box
	margin    = 12 // around everything
	between   = 14 // boxes of a column, and a column and the gutter behind it
	trunkStep = 9  // lines of a gutter
	arrowGap  = 64 // director to backends
	busStep   = 28 // networks
	longest   = 24 // letters of a name, before it is cut
	vipsShown = 3  // in the box of a director
	narrowest = 320
)

// roles are the columns, from who asks to who answers.
var roles = []addr.Kind{addr.Client, addr.Router, addr.Director, addr.Backend}

// dashes tell networks apart in print; they repeat.
var dashes = []string{"", "7 3", "2 3", "10 3 2 3"}

// colours tell networks apart on a screen; they repeat.
var colours = []string{"#1d4ed8", "#047857", "#7e22ce", "#b45309"}

// row is one line of text in a box; network is that of the card it tells of, or -1.
type row struct {
	text    string
	network int
}

// box is a machine.
type box struct {
	noun       addr.Noun
	title      string
	rows       []row
	x, y, w, h int
}

// rowY is the base line of the i-th row under the title.
func (b box) rowY(i int) int { return b.y + padding + (i+2)*lineSpace - 5 }

// drawing is a picture on its way.
type drawing struct {
	strings.Builder
	t       *lang.Topology
	columns [][]*box
	boxes   map[addr.Noun]*box
	trunks  [][]int // x of the lines down to each network
	width   int
	bottom  int // of what is drawn so far
}

// SVG draws the network of a resolved topology; it ends with a newline.
func SVG(t *lang.Topology) string {
	d := &drawing{t: t, boxes: map[addr.Noun]*box{}, trunks: make([][]int, len(t.Networks))}
	d.place()
	d.networks()
	d.machines()
	d.arrows()
	d.legend()
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="%d" fill="#111">
<title>%s</title>
<desc>%s</desc>
<defs><marker id="lvslab-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#9a3412"/></marker></defs>
<rect width="100%%" height="100%%" fill="#fff"/>
`, d.width, d.bottom, d.width, d.bottom, fontSize, html.EscapeString("The network of lab "+t.Lab.Name), html.EscapeString(Describe(t)))
	return out.String() + d.String() + "</svg>\n"
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.Builder, format+"\n", args...) }

// wide is the width of a text.
func wide(s string) int { return (utf8.RuneCountInString(s)*fontSize*61 + 99) / 100 }

// cut shortens a name; the whole one is in the title of its box.
func cut(s string) string {
	if r := []rune(s); len(r) > longest {
		return string(r[:longest-1]) + "…"
	}
	return s
}

// box makes a machine's box without its place.
func (d *drawing) box(m lang.Machine) *box {
	b := &box{noun: m.Noun, title: cut(strings.TrimPrefix(m.Noun.String(), string(m.Noun.Kind)+"."))}
	for _, c := range m.NICs {
		text := c.Addresses[0].String()
		if more := len(c.Addresses) - 1; more > 0 {
			text += fmt.Sprintf(" +%d", more)
		}
		b.rows = append(b.rows, row{text, d.network(c.Network)})
		if n, _ := d.t.Network(c.Network); c.Impair != nil && (n.Impair == nil || *n.Impair != *c.Impair) {
			b.rows = append(b.rows, row{impaired(*c.Impair), -1})
		}
	}
	if !m.Masquerade.IsZero() {
		b.rows = append(b.rows, row{cut("NAT to " + m.Masquerade.Name()), -1})
	}
	for _, text := range append(d.vips(m.Noun), d.weights(m.Noun)...) {
		b.rows = append(b.rows, row{text, -1})
	}
	b.h = 2*padding + (1+len(b.rows))*lineSpace
	return b
}

func (d *drawing) network(n addr.Noun) int {
	return slices.IndexFunc(d.t.Networks, func(w lang.Network) bool { return w.Noun == n })
}

// vips are the virtual addresses that a director has.
func (d *drawing) vips(director addr.Noun) []string {
	var out []string
	for _, s := range d.t.Services {
		for _, v := range s.VIPs {
			if text := "VIP " + v.String(); s.Director == director && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	if more := len(out) - vipsShown; more > 0 {
		out = append(out[:vipsShown], fmt.Sprintf("+%d VIPs", more))
	}
	return out
}

// weights are those that a backend has in services, where it is not 1.
func (d *drawing) weights(backend addr.Noun) []string {
	var out []string
	for _, s := range d.t.Services {
		for _, r := range s.RealServers {
			if text := fmt.Sprintf("weight %d", r.Weight); r.Backend == backend && r.Weight != 1 && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// place gives each machine its place, and each column its lines to the networks:
// on the left, those of backends on the right, where no arrow comes in.
func (d *drawing) place() {
	x, top, height := margin, margin+lineSpace, 0
	for _, role := range roles {
		var column []*box
		used, w, h := map[int]bool{}, wide(string(role)+"s"), -between
		for _, m := range d.t.Machines {
			if m.Noun.Kind != role {
				continue
			}
			b := d.box(m)
			d.boxes[m.Noun] = b
			column = append(column, b)
			w, h = max(w, wide(b.title)+2*padding), h+b.h+between
			for _, r := range b.rows {
				w = max(w, wide(r.text)+2*padding)
				if r.network >= 0 {
					used[r.network] = true
				}
			}
		}
		if len(column) == 0 {
			continue
		}
		gutter := len(used) * trunkStep
		left := x + gutter
		if role == addr.Backend {
			left = x + arrowGap - between
		}
		k := 0
		for n := range d.t.Networks {
			if !used[n] {
				continue
			}
			k++
			at := left - k*trunkStep
			if role == addr.Backend {
				at = left + w + k*trunkStep
			}
			d.trunks[n] = append(d.trunks[n], at)
		}
		for _, b := range column {
			b.x, b.w, b.y = left, w, h // h until the tallest column is known
		}
		d.columns = append(d.columns, column)
		x, height = left+w+between, max(height, h)
		if role == addr.Backend {
			x += gutter
		}
	}
	d.width, d.bottom = max(narrowest, x-between+margin), top+max(0, height)
	for _, column := range d.columns {
		y := top + (height-column[0].y)/2
		for _, b := range column {
			b.y = y
			y += b.h + between
		}
	}
}
