package picture

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// networks draws each network as a line across, with the lines up to its machines
// and a dot wherever two are joined: lines that only cross are not.
func (d *drawing) networks() {
	var labels []string
	for n, w := range d.t.Networks {
		y := d.bottom + busStep*(n+1)
		style := fmt.Sprintf(`stroke="%s" stroke-width="2" fill="none"`, colours[n%len(colours)])
		if dash := dashes[n%len(dashes)]; dash != "" {
			style += fmt.Sprintf(` stroke-dasharray="%s"`, dash)
		}
		text := w.Noun.Name() + " " + w.CIDR.String()
		if w.Impair != nil {
			text += ", " + impaired(*w.Impair)
		}
		left, right := margin, d.width-margin
		if at := d.trunks[n]; len(at) > 0 {
			left = at[0]
			right = max(at[len(at)-1], left+24)
		}
		d.add(`<g><title>%s</title><path d="M%d %dH%d" %s/>`, html.EscapeString(w.Noun.String()+" "+w.CIDR.String()), left, y, right, style)
		for _, column := range d.columns {
			d.joins(column, n, y, style)
		}
		d.add(`</g>`)
		x, above := d.room(n, left, right, wide(text))
		labels = append(labels, fmt.Sprintf(`<text x="%d" y="%d" stroke="#fff" stroke-width="4" paint-order="stroke">%s</text>`, x, y+4-above, html.EscapeString(text)))
	}
	for _, l := range labels { // over all lines
		d.add("%s", l)
	}
	d.bottom += busStep * len(d.t.Networks)
}

// room is where the label of a network has room: above its line between two lines
// that come down, else behind its end; else at its beginning, over what is there.
func (d *drawing) room(network, left, right, width int) (x, above int) {
	const raised = 10
	var down []int // by the networks that are not above this one
	for _, at := range d.trunks[network:] {
		for _, x := range at {
			if x >= left && x <= right {
				down = append(down, x)
			}
		}
	}
	slices.Sort(down)
	for i, x := range down {
		if i+1 < len(down) && x+8+width+4 <= down[i+1] {
			return x + 8, raised
		}
	}
	if right+8+width <= d.width {
		return right + 8, 0
	}
	return max(2, min(left+8, d.width-width-2)), raised
}

// joins draws the line of one column to a network at height y.
func (d *drawing) joins(column []*box, network, y int, style string) {
	first := true
	for _, b := range column {
		at, edge := d.trunk(b, network), b.x
		if at > b.x {
			edge = b.x + b.w
		}
		for i, r := range b.rows {
			if r.network != network {
				continue
			}
			stub := b.rowY(i) - 4
			colour := colours[network%len(colours)]
			if first { // the topmost card's line is that of all below it
				d.add(`<path d="M%d %dH%dV%d" %s/><circle cx="%d" cy="%d" r="3.5" fill="%s"/>`, edge, stub, at, y, style, at, y, colour)
				first = false
				continue
			}
			d.add(`<path d="M%d %dH%d" %s/><circle cx="%d" cy="%d" r="3.5" fill="%s"/>`, edge, stub, at, style, at, stub, colour)
		}
	}
}

// trunk is the x of the line by which a box reaches a network: the nearest on the
// left, for a backend the nearest on the right.
func (d *drawing) trunk(b *box, network int) int {
	out := b.x
	for _, x := range d.trunks[network] {
		switch {
		case b.noun.Kind == addr.Backend && x > b.x:
			return x
		case b.noun.Kind != addr.Backend && x < b.x:
			out = x
		}
	}
	return out
}

// fills are the grounds of the boxes.
var fills = map[addr.Kind]string{addr.Client: "#e8f1fc", addr.Router: "#f4f0e2", addr.Director: "#fdeadb", addr.Backend: "#e6f4e8"}

func (d *drawing) machines() {
	for _, column := range d.columns {
		heading := string(column[0].noun.Kind)
		if len(column) > 1 {
			heading += "s"
		}
		d.add(`<text x="%d" y="%d" fill="#444">%s</text>`, column[0].x, margin+4, heading)
		for _, b := range column {
			d.add(`<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="%s" stroke="#444"/>`,
				html.EscapeString(b.noun.String()), b.x, b.y, b.w, b.h, fills[b.noun.Kind])
			d.add(`<text x="%d" y="%d" font-weight="bold">%s</text>`, b.x+padding, b.rowY(-1), html.EscapeString(b.title))
			for i, r := range b.rows {
				d.add(`<text x="%d" y="%d">%s</text>`, b.x+padding, b.rowY(i), html.EscapeString(r.text))
			}
			d.add(`</g>`)
		}
	}
}

// way is how queries come from a director to a backend.
type way struct {
	from, to addr.Noun
	how      string // "ipip tunnel", "direct" or "masquerade"
}

// ways are all of them, each once, and the kinds that there are.
func ways(t *lang.Topology) (all []way, kinds []string) {
	add := func(w way) {
		if !slices.Contains(all, w) {
			all = append(all, w)
		}
		if !slices.Contains(kinds, w.how) {
			kinds = append(kinds, w.how)
		}
	}
	for _, u := range t.Tunnels {
		add(way{u.From, u.To, u.Type + " tunnel"})
	}
	for _, s := range t.Services {
		for _, r := range s.RealServers {
			add(way{s.Director, r.Backend, how(t, s, r)})
		}
	}
	return all, kinds
}

func how(t *lang.Topology, s lang.Service, r lang.RealServer) string {
	for _, u := range t.Tunnels {
		if u.Noun == r.Tunnel {
			return u.Type + " tunnel"
		}
	}
	return s.Forward
}

// arrowStyle is that of a kind of way.
func arrowStyle(kind int) string {
	style := `stroke="#9a3412" stroke-width="1.5" fill="none" marker-end="url(#lvslab-arrow)"`
	if dash := []string{"", "6 3", "2 3"}[kind%3]; dash != "" {
		style += fmt.Sprintf(` stroke-dasharray="%s"`, dash)
	}
	return style
}

func (d *drawing) arrows() {
	all, kinds := ways(d.t)
	for _, w := range all {
		from, to := d.boxes[w.from], d.boxes[w.to]
		if from == nil || to == nil {
			continue // no machine of this lab
		}
		kind := slices.Index(kinds, w.how)
		end := to.x - 1
		if to.x < from.x+from.w {
			end = to.x + to.w + 1
		}
		shift := 8 * kind // side by side where there are several
		d.add(`<g><title>%s</title><path d="M%d %dL%d %d" %s/></g>`, html.EscapeString(fmt.Sprintf("%s → %s, %s", w.from, w.to, w.how)),
			from.x+from.w, from.y+from.h/2+shift, end, to.y+padding+8+shift, arrowStyle(kind))
	}
}

// legend writes the services under the picture, each behind the arrow of its way.
func (d *drawing) legend() {
	const indent = 38
	_, kinds := ways(d.t)
	y := d.bottom + busStep
	for _, s := range d.t.Services {
		kind := slices.Index(kinds, way{how: hows(d.t, s)[0]}.how)
		d.add(`<path d="M%d %dH%d" %s/>`, margin, y-4, margin+indent-10, arrowStyle(kind))
		for _, line := range wrapped(service(d.t, s, s.Noun.Name()), d.width-2*margin-indent) {
			d.add(`<text x="%d" y="%d">%s</text>`, margin+indent, y, html.EscapeString(line))
			y += lineSpace
		}
	}
	d.bottom = y - lineSpace + margin
}

// wrapped breaks a text between words into lines of a width.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && wide(line+" "+word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
