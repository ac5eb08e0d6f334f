package diff

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// leaf is one value inside an attribute with the path to it:
// services[0].destinations[1].weight.
type leaf struct {
	path string
	text string
	long string // the value itself when text only describes it
	pos  []int  // where it stands, for sorting
}

func (l leaf) empty() bool { return l.text == `""` || l.text == "[]" }

// replaced says of an empty list that it only gets or loses elements, which are
// among the others.
func (l leaf) replaced(others []leaf) bool {
	return l.text == "[]" && slices.ContainsFunc(others, func(o leaf) bool { return strings.HasPrefix(o.path, l.path+"[") })
}

func (l leaf) order(o leaf) int {
	for i := range min(len(l.pos), len(o.pos)) {
		if c := cmp.Compare(l.pos[i], o.pos[i]); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(l.pos), len(o.pos)), cmp.Compare(l.path, o.path))
}

// leaves flattens an object. Null values are left out, empty lists and maps
// are leaves themselves.
func leaves(v cty.Value) []leaf {
	var out []leaf
	flatten(v, "", nil, &out)
	return out
}

func flatten(v cty.Value, path string, pos []int, out *[]leaf) {
	switch t := v.Type(); {
	case v.IsNull():
		return
	case t.IsPrimitiveType():
		text, long := scalar(v)
		*out = append(*out, leaf{path, text, long, pos})
	case v.LengthInt() == 0:
		*out = append(*out, leaf{path: path, text: "[]", pos: pos})
	default:
		i := 0
		for it := v.ElementIterator(); it.Next(); i++ {
			key, elem := it.Element()
			at := path + step(t, key)
			if path == "" {
				at = key.AsString()
			}
			flatten(elem, at, append(pos[:len(pos):len(pos)], i), out)
		}
	}
}

func step(t cty.Type, key cty.Value) string {
	switch {
	case t.IsObjectType():
		return "." + key.AsString()
	case t.IsMapType():
		return "[" + strconv.Quote(key.AsString()) + "]"
	}
	return "[" + key.AsBigFloat().Text('f', -1) + "]"
}

func scalar(v cty.Value) (text, long string) {
	switch v.Type() {
	case cty.Number:
		return v.AsBigFloat().Text('f', -1), ""
	case cty.Bool:
		return strconv.FormatBool(v.True()), ""
	}
	s := v.AsString()
	if !strings.Contains(s, "\n") {
		return strconv.Quote(s), ""
	}
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("(%d lines, sha256 %x)", len(lines(s)), sum[:4]), s
}

// change renders a value that differs. Of long texts the lines are counted.
func change(old, now leaf) string {
	text := old.text + " -> " + now.text
	if old.long == "" || now.long == "" {
		return text
	}
	count := map[string]int{}
	for _, l := range lines(now.long) {
		count[l]++
	}
	removed := 0
	for _, l := range lines(old.long) {
		if count[l]--; count[l] < 0 {
			removed++
		}
	}
	added := len(lines(now.long)) - len(lines(old.long)) + removed
	return fmt.Sprintf("%s, %d lines added, %d removed", text, added, removed)
}

func lines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }

// byPath makes leaves easy to find.
func byPath(ls []leaf) map[string]leaf {
	out := make(map[string]leaf, len(ls))
	for _, l := range ls {
		out[l.path] = l
	}
	return out
}
