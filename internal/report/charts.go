package report

import (
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lvslab/lvslab/internal/verdict"
)

// Charts are plain SVG without size: the page's style sheet gives them width
// and colours (classes s0…s7 by backend, sx for runs that used several), so
// they follow light, dark and print. Each mark has a title with its numbers,
// and each backend a shape of its own beside the colour.

// colours is the number of backend colours before they repeat.
const colours = 8

// placeShades is the number of shades for places of the list before they repeat.
const placeShades = 4

const (
	chartWidth = 760.0
	rowHeight  = 26.0
)

// svg collects the elements of a chart.
type svg struct {
	strings.Builder
	height float64
}

func (s *svg) add(format string, args ...any) { fmt.Fprintf(&s.Builder, format+"\n", args...) }

// done closes the chart; label is what it shows, for those who do not see it.
func (s *svg) done(label string) string {
	return fmt.Sprintf("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n%s</svg>\n", chartWidth, s.height, html.EscapeString(label), s.String())
}

func (s *svg) text(x, y float64, class, anchor, text string) {
	s.add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(text))
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	s.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// mark draws the shape of a backend, i < 0 for several.
func (s *svg) mark(i int, x, y float64, title string) {
	t := "<title>" + html.EscapeString(title) + "</title>"
	switch {
	case i < 0:
		s.add(`<path d="M%.1f %.1fh9M%.1f %.1fv9" class="cross">%s</path>`, x-4.5, y, x, y-4.5, t)
	case i%4 == 0:
		s.add(`<circle cx="%.1f" cy="%.1f" r="4.2" class="mark s%d">%s</circle>`, x, y, i%colours, t)
	case i%4 == 1:
		s.add(`<rect x="%.1f" y="%.1f" width="7.6" height="7.6" class="mark s%d">%s</rect>`, x-3.8, y-3.8, i%colours, t)
	case i%4 == 2:
		s.add(`<path d="M%.1f %.1fl5 5l-5 5l-5 -5z" class="mark s%d">%s</path>`, x, y-5, i%colours, t)
	default:
		s.add(`<path d="M%.1f %.1fl5 8.6h-10z" class="mark s%d">%s</path>`, x, y-5, i%colours, t)
	}
}

// legend names the backends' shapes; several says whether crosses occur.
func (s *svg) legend(backends []string, several bool, y float64) {
	x := 8.0
	put := func(i int, name string) {
		s.mark(i, x, y, name)
		s.text(x+10, y+4, "small", "start", name)
		x += 34 + 7*float64(utf8.RuneCountInString(name))
	}
	for i, b := range backends {
		if x > chartWidth-120 {
			s.text(x, y+4, "small", "start", "…")
			return
		}
		put(i, verdict.Short(b))
	}
	if several {
		put(-1, "several backends")
	}
}

// gutter is the room that labels need, and the labels cut to it.
func gutter(list []Treatment) (float64, []string) {
	longest := 0
	labels := make([]string, len(list))
	for i, t := range list {
		labels[i] = cut(t.Label, 30)
		longest = max(longest, utf8.RuneCountInString(labels[i]))
	}
	return 20 + 7.4*float64(longest), labels
}

func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// placesLegend names the shades of the places of the list.
func (s *svg) placesLegend(names []string, y float64) {
	x := 8.0
	for i, name := range names {
		if x > chartWidth-120 {
			s.text(x, y+4, "small", "start", "…")
			return
		}
		s.add(`<rect x="%.1f" y="%.1f" width="11" height="11" class="p%d"><title>%s</title></rect>`, x-4, y-6, i%placeShades, html.EscapeString(name))
		s.text(x+12, y+4, "small", "start", name)
		x += 38 + 7*float64(utf8.RuneCountInString(name))
	}
}

// sharesChart shows which backend the accepted answers came from, or where the
// list turned which place of it: in shades then, since a colour is a backend.
func sharesChart(e Experiment) string {
	s := &svg{}
	class, shades := "s", colours
	if e.byPlace() {
		class, shades = "p", placeShades
		s.placesLegend(e.columns(), 12)
	} else {
		s.legend(e.Backends, false, 12)
	}
	list := e.listed()
	left, labels := gutter(list)
	width := chartWidth - left - 8
	y := 32.0
	for i, t := range list {
		s.text(left-8, y+15, "label", "end", labels[i])
		x := left
		if len(t.Shares) == 0 {
			s.text(left, y+15, "small", "start", "no accepted answer")
		}
		for _, share := range e.slices(t) {
			w := width * share.Mean
			if w <= 0 {
				continue
			}
			text := share.name + " " + shareText(share.Share)
			shade := share.at % shades
			s.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="20" class="bar %s%d"><title>%s</title></rect>`, x, y, math.Max(w, 1), class, shade,
				html.EscapeString(t.Label+": "+text))
			if w > 7*float64(utf8.RuneCountInString(text)) {
				ink := "i"
				if e.byPlace() {
					ink = "j"
				}
				s.text(x+w/2, y+14.5, fmt.Sprintf("in %s%d", ink, shade), "middle", text)
			}
			x += w
		}
		y += rowHeight
	}
	s.height = y + 4
	by := "backend"
	if e.byPlace() {
		by = "place of the list"
	}
	return s.done("Share of accepted answers by " + by + " for each treatment")
}

// timesChart shows batch_s of every run, in the colour of the backend used.
func timesChart(e Experiment) string {
	var most float64
	several := false
	for _, t := range e.Treatments {
		for _, p := range t.Points {
			if p.Valid && p.BatchS != nil {
				most = math.Max(most, *p.BatchS)
				several = several || p.Backend == ""
			}
		}
	}
	if most == 0 {
		return ""
	}
	s := &svg{}
	s.legend(e.Backends, several, 12)
	left, labels := gutter(e.Treatments)
	top, step := axis(most, 6)
	scale := (chartWidth - left - 24) / top
	bottom := 30 + rowHeight*float64(len(e.Treatments))
	for i := 0; float64(i)*step <= top*1.0001; i++ {
		v := float64(i) * step
		x := left + v*scale
		s.line(x, 26, x, bottom, "grid")
		s.text(x, bottom+16, "small", "middle", tick(v, step))
	}
	s.text(chartWidth-24, bottom+32, "small", "end", "batch_s, seconds; bar = median")
	for i, t := range e.Treatments {
		y := 30 + rowHeight*(float64(i)+0.5)
		s.text(left-8, y+4, "label", "end", labels[i])
		if t.BatchS != nil {
			x := left + t.BatchS.Median*scale
			s.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="median"><title>%s</title></line>`, x, y-9, x, y+9,
				html.EscapeString(fmt.Sprintf("%s: median %s s of %d runs", t.Label, seconds(t.BatchS.Median), t.BatchS.N)))
		}
		for _, p := range t.Points {
			if p.Valid && p.BatchS != nil {
				s.mark(indexOf(e.Backends, p.Backend), left+*p.BatchS*scale, y, pointTitle(t, p))
			}
		}
	}
	s.height = bottom + 38
	return s.done("batch_s of each run by treatment")
}

// courseChart shows batch_s in the order of the runs: a drift of the machine
// would be seen here.
func courseChart(e Experiment) string {
	var most float64
	first, last := math.MaxInt, 0
	several := false
	for _, t := range e.Treatments {
		for _, p := range t.Points {
			if p.Valid && p.BatchS != nil {
				most = math.Max(most, *p.BatchS)
				first, last = min(first, p.Order), max(last, p.Order)
				several = several || p.Backend == ""
			}
		}
	}
	if most == 0 || last == first {
		return ""
	}
	s := &svg{}
	s.legend(e.Backends, several, 12)
	const left, height, y0 = 52.0, 180.0, 34.0
	top, step := axis(most, 4)
	y := func(v float64) float64 { return y0 + height*(1-v/top) }
	x := func(order int) float64 {
		return left + 14 + (chartWidth-left-38)*float64(order-first)/float64(last-first)
	}
	for i := 0; float64(i)*step <= top*1.0001; i++ {
		v := float64(i) * step
		s.line(left, y(v), chartWidth-10, y(v), "grid")
		s.text(left-6, y(v)+4, "small", "end", tick(v, step))
	}
	s.blockLines(e, x, y0, y0+height)
	for _, t := range e.Treatments {
		for _, p := range t.Points {
			if p.Valid && p.BatchS != nil {
				s.mark(indexOf(e.Backends, p.Backend), x(p.Order), y(*p.BatchS), pointTitle(t, p))
			}
		}
	}
	s.text(chartWidth-10, y0+height+32, "small", "end", "batch_s in seconds, by order of the runs")
	s.height = y0 + height + 38
	return s.done("batch_s of each run in the order in which they were made")
}

// blockLines separates the blocks; their numbers are left out when they would
// not fit.
func (s *svg) blockLines(e Experiment, x func(int) float64, top, bottom float64) {
	low, high := map[int]int{}, map[int]int{}
	for _, t := range e.Treatments {
		for _, p := range t.Points {
			if v, ok := low[p.Block]; !ok || p.Order < v {
				low[p.Block] = p.Order
			}
			high[p.Block] = max(high[p.Block], p.Order)
		}
	}
	for _, b := range slices.Sorted(maps.Keys(low)) {
		from := low[b]
		if prev, ok := high[b-1]; ok {
			at := (x(from) + x(prev)) / 2
			s.line(at, top, at, bottom, "block")
		}
		if len(low) <= 24 {
			s.text((x(from)+x(high[b]))/2, bottom+16, "small", "middle", fmt.Sprintf("block %d", b))
		}
	}
}

func pointTitle(t Treatment, p Point) string {
	where := "several backends"
	if p.Backend != "" {
		where = verdict.Short(p.Backend)
	}
	return fmt.Sprintf("%s: %s, block %d, %s s, %s", p.RunID, t.Label, p.Block, seconds(*p.BatchS), where)
}

// ladderChart shows the independent counts from the client and back.
func ladderChart(e Experiment) string {
	var most int64
	for _, st := range e.Ladder {
		most = max(most, st.Count)
	}
	if most == 0 {
		return ""
	}
	s := &svg{}
	y := 6.0
	const left = 150.0
	width := chartWidth - left - 190
	for _, st := range e.Ladder {
		w := width * float64(st.Count) / float64(most)
		s.text(left-8, y+15, "label", "end", st.Name)
		s.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="20" class="step"><title>%s</title></rect>`, left, y, math.Max(w, 1),
			html.EscapeString(st.From))
		text := verdict.Count(st.Count) + " " + st.Unit
		if d := st.Count - e.Ladder[0].Count; d != 0 {
			text += fmt.Sprintf(" (%+d)", d)
		}
		s.text(left+w+8, y+15, "small", "start", text)
		y += rowHeight
	}
	s.height = y
	return s.done("Counts from the client through IPVS, tunnels and named back to the client")
}

// axis returns the end of an axis from 0 and the distance of its ticks: 1, 2 or
// 5 times a power of ten, about n of them.
func axis(most float64, n int) (top, step float64) {
	raw := most / float64(n)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step = 10 * power
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*power {
			step = m * power
			break
		}
	}
	return step * math.Ceil(most/step-1e-9), step
}

// tick writes a value with the places that its step needs.
func tick(v, step float64) string {
	places := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	return fmt.Sprintf("%.*f", places, v)
}

func indexOf(list []string, name string) int {
	for i, v := range list {
		if v == name {
			return i
		}
	}
	return -1
}
