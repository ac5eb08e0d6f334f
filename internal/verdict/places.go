package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// List is the kernel's list of destinations as some blocks had it.
type List struct {
	Backends []string `json:"backends"` // head first
	Blocks   []int    `json:"blocks"`   // in which a run had this list
}

// Lists returns the lists that the valid runs through LVS had, in the order of
// their first block, when a treatment met more than one: then what it gave to a
// place of the list and what it gave to a backend are two things. Else nil.
func Lists(runs []artifact.Run, rows map[string][]artifact.BackendRow) []List {
	var out []List
	of := map[string]string{} // treatment → its list
	turned := false
	for _, r := range runs {
		if !r.Valid || r.PastLVS() || len(rows[r.RunID]) == 0 {
			continue
		}
		list := ListOf(rows[r.RunID])
		key := strings.Join(list, " ")
		if before, ok := of[r.TreatmentID]; ok && before != key {
			turned = true
		}
		of[r.TreatmentID] = key
		i := slices.IndexFunc(out, func(l List) bool { return slices.Equal(l.Backends, list) })
		if i < 0 {
			i = len(out)
			out = append(out, List{Backends: list})
		}
		if !slices.Contains(out[i].Blocks, r.Block) {
			out[i].Blocks = append(out[i].Blocks, r.Block)
		}
	}
	if !turned {
		return nil
	}
	for i := range out {
		slices.Sort(out[i].Blocks)
	}
	slices.SortStableFunc(out, func(a, b List) int { return cmp.Compare(a.Blocks[0], b.Blocks[0]) })
	return out
}

// ListOf are the backends of a run's rows, head first.
func ListOf(rows []artifact.BackendRow) []string {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b artifact.BackendRow) int { return cmp.Compare(a.Position, b.Position) })
	out := make([]string, len(sorted))
	for i, b := range sorted {
		out[i] = b.Backend
	}
	return out
}

// Place names a place of the list as tables do: head, 2nd, 3rd and so on.
func Place(position int) string {
	n := position + 1
	switch {
	case n == 1:
		return "head"
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	}
	return fmt.Sprintf("%dth", n)
}

// wherePlace names a place in a sentence.
func wherePlace(position int) string {
	if position == 0 {
		return "the head of the list"
	}
	return fmt.Sprintf("the %s place of the list", Place(position))
}

// BlocksText writes "block 3", "blocks 1 and 4", or how many when they are many.
func BlocksText(blocks []int) string {
	if n := len(blocks); n > 4 {
		return fmt.Sprintf("%s from %d to %d", some(n, "block"), blocks[0], blocks[n-1])
	}
	parts := make([]string, len(blocks))
	for i, b := range blocks {
		parts[i] = fmt.Sprint(b)
	}
	return plural(len(blocks), "block") + " " + names(parts, "block")
}

// manyLists is how many lists a sentence spells out.
const manyLists = 6

// standing says who stood at a place: "ns[0] in blocks 1 and 4, ns[1] in block 2".
func standing(lists []List, position int) string {
	var order []string
	blocks := map[string][]int{}
	for _, l := range lists {
		if position >= len(l.Backends) {
			continue
		}
		b := l.Backends[position]
		if blocks[b] == nil {
			order = append(order, b)
		}
		for _, n := range l.Blocks {
			if !slices.Contains(blocks[b], n) {
				blocks[b] = append(blocks[b], n)
			}
		}
	}
	if len(order) > manyLists {
		return some(len(order), "backend") + " in turn"
	}
	var parts []string
	for _, b := range order {
		slices.Sort(blocks[b])
		parts = append(parts, Short(b)+" in "+BlocksText(blocks[b]))
	}
	return names(parts, "backend")
}

// ListsText says who stood where: "ns[0], ns[1], ns[2] in blocks 1 and 4; …".
func ListsText(lists []List) string {
	if len(lists) > manyLists {
		return "another one in each block: position in " + artifact.BackendsFile + " says which"
	}
	var parts []string
	for _, l := range lists {
		var who []string
		for _, b := range l.Backends {
			who = append(who, Short(b))
		}
		parts = append(parts, strings.Join(who, ", ")+" in "+BlocksText(l.Blocks))
	}
	return strings.Join(parts, "; ")
}

// lists are those of the study's usable runs; see [Lists].
func (s *study) lists() []List {
	rows := map[string][]artifact.BackendRow{}
	var runs []artifact.Run
	for _, r := range s.valid {
		runs = append(runs, r.Run)
		rows[r.RunID] = r.rows
	}
	return Lists(runs, rows)
}

// turned reports whether a treatment's runs met more than one list.
func (g group) turned() bool {
	return slices.ContainsFunc(g.runs, func(r run) bool { return !slices.Equal(ListOf(r.rows), ListOf(g.runs[0].rows)) })
}

// spot is what a share belongs to: a backend, or where the list turns a place.
func spot(b artifact.BackendRow, turned bool) string {
	if turned {
		return Place(b.Position)
	}
	return Short(b.Backend)
}
