package lang

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/lvslab/lvslab/internal/diag"
)

// problems collects diagnostics. One mistake may be met on several ways (an
// argument is read for its block and for whoever refers to it); it is told once.
type problems struct {
	list diag.Diagnostics
	seen map[string]bool
}

func (p *problems) add(ds ...diag.Diagnostic) {
	for _, d := range ds {
		where := ""
		if d.Subject != nil {
			where = fmt.Sprintf("%s:%d-%d", d.Subject.Filename, d.Subject.Start.Byte, d.Subject.End.Byte)
		}
		key := fmt.Sprint(where, "\x00", d.Summary, "\x00", d.Detail)
		if p.seen[key] {
			continue
		}
		if p.seen == nil {
			p.seen = map[string]bool{}
		}
		p.seen[key] = true
		p.list = append(p.list, d)
	}
}

// sorted returns the messages in the order of the source.
func (p *problems) sorted() diag.Diagnostics {
	p.list.Sort()
	return p.list
}

// nearest returns the candidate that word was most likely meant to be, or "".
// A third of the letters may differ, so that short words do not match anything.
func nearest(word string, candidates []string) string {
	best, bestDistance := "", 1+len(word)/3
	if len(word) <= 2 {
		bestDistance = 1
	}
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	for _, c := range candidates {
		if d := levenshtein.Distance(fold(word), fold(c), nil); d < bestDistance || d == bestDistance && best == "" && d < len(word) {
			best, bestDistance = c, d
		}
	}
	return best
}

// suggest makes the remedy for an unknown name: the nearest one, else all.
func suggest(word string, candidates []string, all string) string {
	if s := nearest(word, candidates); s != "" {
		return fmt.Sprintf("Did you mean %q?", s)
	}
	if len(candidates) == 0 {
		return all
	}
	return all + " " + enumerate(candidates, "or") + "."
}

// enumerate joins names for a sentence: a, b or c.
func enumerate(names []string, conjunction string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " " + conjunction + " " + names[len(names)-1]
}

// article puts a or an before a word.
func article(word string) string {
	if word != "" && strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// capital makes the first letter of a sentence large.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// count says a number with its noun: 1 machine, 3 machines.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
