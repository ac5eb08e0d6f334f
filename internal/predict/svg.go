package predict

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// The picture: a bar for each treatment, a part of it for each backend.
const (
	pictureWidth = 900
	labelWidth   = 300
	labelRunes   = 44
	barWidth     = 460
	barHeight    = 16
	rowHeight    = 24
	headHeight   = 62
)

// fills are Okabe and Ito's colours, which people of all kinds of sight can
// tell apart; they repeat after eight backends.
var fills = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000"}

// SVG draws predictions one below the other, a whole file.
func SVG(all []Prediction) string {
	var b strings.Builder
	height := 8
	for _, p := range all {
		height += p.height()
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12">`+"\n", pictureWidth, height)
	b.WriteString("<title>Predicted shares of the backends</title>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", pictureWidth, height)
	y := 0
	for _, p := range all {
		p.draw(&b, y)
		y += p.height()
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p Prediction) height() int {
	h := 0
	for _, s := range p.sections() {
		h += headHeight + rowHeight*len(s.rows)
	}
	return h
}

func (p Prediction) draw(b *strings.Builder, y int) {
	for _, s := range p.sections() {
		title := p.Experiment + " on " + p.Service
		if s.title != "" {
			title += ". " + strings.TrimSuffix(s.title, ":")
		}
		text(b, 8, y+20, "", `font-weight="bold"`, title)
		s.draw(b, y)
		y += headHeight + rowHeight*len(s.rows)
	}
}

func (s section) draw(b *strings.Builder, y int) {
	x := 8
	for i, n := range s.columns {
		if x > pictureWidth-120 {
			text(b, x, y+42, "", "", "…")
			break
		}
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/>`+"\n", x, y+33, fills[i%len(fills)])
		text(b, x+14, y+42, "", "", n)
		x += 30 + 7*len(n)
	}
	for i, r := range s.rows {
		r.draw(b, s.columns, y+headHeight-8+i*rowHeight)
	}
}

func (r row) draw(b *strings.Builder, columns []string, y int) {
	label, room := r.cell.Treatment, labelRunes-utf8.RuneCountInString(r.head)
	if runes := []rune(label); len(runes) > room {
		label = string(runes[:max(0, room-1)]) + "…"
	}
	text(b, labelWidth-8, y+12, "end", "", label+r.head)
	at := float64(labelWidth)
	for i, s := range r.shares {
		w := s.Share * barWidth
		if w > 0 {
			fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s</title></rect>`+"\n",
				at, y, w, barHeight, fills[i%len(fills)], html.EscapeString(fmt.Sprintf("%s%s, %s: %.1f %%", r.cell.Treatment, r.where, columns[i], 100*s.Share)))
		}
		at += w
	}
	note := count(r.decisions, "decision")
	if r.cell.Kind != Exact {
		note += ", " + string(r.cell.Kind)
	}
	text(b, labelWidth+barWidth+8, y+12, "", "", note)
}

func text(b *strings.Builder, x, y int, anchor, more, s string) {
	if anchor != "" {
		more += ` text-anchor="` + anchor + `"`
	}
	if more != "" {
		more = " " + strings.TrimSpace(more)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d"%s>%s</text>`+"\n", x, y, more, html.EscapeString(s))
}
