package diff

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

// Sign marks a line of a rendered plan.
type Sign string

// The signs. None is for comments and braces.
const (
	None     Sign = ""
	Adds     Sign = "+"
	Changes  Sign = "~"
	Replaces Sign = "-/+"
	Removes  Sign = "-"
)

// Line is one line of a rendered change; who shows it may colour it by its sign.
type Line struct {
	Sign   Sign
	Indent int // steps of four columns
	Text   string
}

// String returns the line with its sign before the text, as in Terraform.
func (l Line) String() string {
	if l.Text == "" {
		return ""
	}
	return fmt.Sprintf("%s%3s %s", strings.Repeat("    ", l.Indent), l.Sign, l.Text)
}

// Render writes the plan as plain text.
func Render(w io.Writer, p plan.Plan) error {
	b := bufio.NewWriter(w)
	for _, c := range p.Changes {
		lines := Lines(c)
		for _, l := range lines {
			fmt.Fprintln(b, strings.TrimRight(l.String(), " "))
		}
		if len(lines) > 0 {
			fmt.Fprintln(b)
		}
	}
	for _, d := range p.Warnings {
		fmt.Fprintf(b, "Warning: %s\n\n", d)
	}
	fmt.Fprintln(b, Summary(p.Totals()))
	return b.Flush()
}

// Summary returns the last line of a plan.
func Summary(t plan.Totals) string {
	if t.Create+t.Update+t.Replace+t.Delete == 0 {
		return "No changes: what exists is what the topology asks for."
	}
	return fmt.Sprintf("Plan: %d to create, %d to change, %d to replace, %d to delete.", t.Create, t.Update, t.Replace, t.Delete)
}

var signs = map[provider.Action]struct {
	sign Sign
	verb string
}{
	provider.Create:  {Adds, "will be created"},
	provider.Update:  {Changes, "will be changed in place"},
	provider.Replace: {Replaces, "will be replaced"},
	provider.Delete:  {Removes, "will be deleted"},
}

// Lines renders one change, nothing for one without an action. Computed
// attributes are left out: nobody asked for them.
func Lines(c plan.Change) []Line {
	s, acts := signs[c.Action]
	if !acts {
		return nil
	}
	lines := []Line{{Text: fmt.Sprintf("# %s %s%s", c.Addr, s.verb, summary(c.Reasons))}}
	for _, r := range c.Reasons {
		if r.Attribute != "" {
			lines = append(lines, Line{Text: fmt.Sprintf("#   %s: %s", r.Attribute, r.Text)})
		}
	}
	head := Line{Sign: s.sign, Text: c.Noun + " " + c.Addr.String()}
	if c.Action == provider.Delete {
		return append(lines, head)
	}
	head.Text += " {"
	body := attributes(c)
	lines = append(lines, head)
	lines = append(lines, body...)
	return append(lines, Line{Text: "}"})
}

// summary joins the reasons that concern the whole resource.
func summary(reasons []provider.Reason) string {
	var texts []string
	for _, r := range reasons {
		if r.Attribute == "" {
			texts = append(texts, r.Text)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return ": " + strings.Join(texts, ", ")
}

// attributes shows what a creation sets to something, and what differs otherwise.
func attributes(c plan.Change) []Line {
	after := leaves(c.After())
	if c.Action == provider.Create {
		return column(Adds, slices.DeleteFunc(after, leaf.empty))
	}
	before := leaves(c.Before())
	had, now := byPath(before), byPath(after)
	var out []leaf
	signOf := map[string]Sign{}
	same := 0
	for _, l := range after {
		old, existed := had[l.path]
		switch {
		case existed && old.text == l.text:
			same++
			continue
		case existed:
			l.text, signOf[l.path] = change(old, l), Changes
		default:
			signOf[l.path] = Adds
		}
		out = append(out, l)
	}
	for _, l := range before {
		if _, still := now[l.path]; !still && !computed(c, l.path) {
			signOf[l.path] = Removes
			out = append(out, l)
		}
	}
	every := slices.Clone(out)
	out = slices.DeleteFunc(out, func(l leaf) bool { return l.replaced(every) })
	slices.SortStableFunc(out, func(a, b leaf) int { return a.order(b) })
	lines := column(None, out)
	for i, l := range out {
		lines[i].Sign = signOf[l.path]
	}
	if same > 0 {
		lines = append(lines, Line{Indent: 1, Text: fmt.Sprintf("# (%d unchanged hidden)", same)})
	}
	return lines
}

// computed reports whether a path belongs to an attribute that the provider
// sets: what is wanted leaves those null, and no reason speaks of them.
func computed(c plan.Change, path string) bool {
	name := rootOf(path)
	return attr(c.After(), name).IsNull() &&
		!slices.ContainsFunc(c.Reasons, func(r provider.Reason) bool { return rootOf(r.Attribute) == name })
}

func column(sign Sign, ls []leaf) []Line {
	width := 0
	for _, l := range ls {
		width = max(width, len(l.path))
	}
	var out []Line
	for _, l := range ls {
		out = append(out, Line{Sign: sign, Indent: 1, Text: fmt.Sprintf("%-*s = %s", width, l.path, l.text)})
	}
	return out
}
