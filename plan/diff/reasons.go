package diff

import (
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

// Who is behind a difference.
const (
	inTopology  = "changed in the topology"
	ofTheHost   = "changed with lvslab, its image or this machine"
	outside     = "changed outside lvslab"
	interrupted = "left by an update that failed or was interrupted"
)

// fixed is added where a difference is the cause of a replacement.
const fixed = ", cannot be changed in place"

// causes replaces each bare "changed" by what differs inside the attribute, and who
// is behind it: what is not any more as it was recorded was changed behind our
// back, or by an update that did not end.
func (c *computation) causes(r provider.Resource, have plan.Existing, s provider.Schema, p provider.Planned) []provider.Reason {
	var out []provider.Reason
	for _, reason := range p.Reasons {
		a, known := s.Attributes[reason.Attribute]
		if reason.Text != provider.Changed || !known {
			out = append(out, reason)
			continue
		}
		mine := inTopology
		if a.Host {
			mine = ofTheHost
		}
		more := c.differences(r, have, reason.Attribute, mine)
		for i := range more {
			if p.Action == provider.Replace && a.Replace {
				more[i].Text += fixed
			}
		}
		out = append(out, more...)
	}
	return out
}

// few is how many differences inside one attribute are named one by one; of more
// only the part that holds them all is.
const few = 3

// differences lists what differs inside one attribute; mine says why the wish for
// it can change.
func (c *computation) differences(r provider.Resource, have plan.Existing, name, mine string) []provider.Reason {
	want, now := inside(r.Attrs, name), inside(have.Value, name)
	recorded, known := c.Recorded[have.Addr]
	before, half := inside(recorded, name), inside(have.Half, name)
	var all []leaf
	for _, l := range now {
		if differs(now, want, l.path) {
			all = append(all, l)
		}
	}
	for _, l := range want {
		if _, had := now[l.path]; !had {
			all = append(all, l)
		}
	}
	every := slices.Clone(all)
	all = slices.DeleteFunc(all, func(l leaf) bool { return l.replaced(every) })
	slices.SortFunc(all, leaf.order) // no two are equal: the path decides in the end
	paths := map[string][]string{}
	var who []string
	for _, l := range all {
		text := mine
		switch {
		case have.Half != cty.NilVal && !differs(now, half, l.path):
			text = interrupted
		case known && differs(before, now, l.path):
			text = outside
		}
		if paths[text] == nil {
			who = append(who, text)
		}
		paths[text] = append(paths[text], l.path)
	}
	if len(all) == 0 { // of a kind that shows in no value: an empty list for none
		return []provider.Reason{{Attribute: name, Text: mine}}
	}
	var out []provider.Reason
	for _, text := range who {
		named := paths[text]
		if len(named) > few {
			named = []string{common(named, name)}
		}
		for _, path := range named {
			out = append(out, provider.Reason{Attribute: path, Text: text})
		}
	}
	return out
}

// inside flattens one attribute of an object.
func inside(obj cty.Value, name string) map[string]leaf {
	var out []leaf
	if v := attr(obj, name); !v.IsNull() {
		flatten(v, name, nil, &out)
	}
	return byPath(out)
}

func differs(a, b map[string]leaf, path string) bool {
	x, inA := a[path]
	y, inB := b[path]
	return inA != inB || x.text != y.text
}

// common is the longest part of a value that holds all of the paths.
func common(paths []string, root string) string {
	out := paths[0]
	for _, p := range paths {
		for !strings.HasPrefix(p, out) || len(p) > len(out) && !strings.ContainsAny(p[len(out):len(out)+1], ".[") {
			cut := strings.LastIndexAny(out, ".[")
			if cut < len(root) {
				return root
			}
			out = out[:cut]
		}
	}
	return out
}

// rootOf is the attribute that a path begins with.
func rootOf(path string) string {
	name, _, _ := strings.Cut(path, ".")
	name, _, _ = strings.Cut(name, "[")
	return name
}
