package topo

import (
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// Renames says by which address something that exists is known from now on.
type Renames map[addr.Noun]addr.Noun

// Of returns the address of today.
func (r Renames) Of(n addr.Noun) addr.Noun {
	if to, moved := r[n]; moved {
		return to
	}
	return n
}

// Follow finds the new addresses of what exists: by the moved blocks, in any
// order and any number of steps; by itself where a block has gained or lost its
// count, as backend.ns that becomes backend.ns[0]; and of the tunnels that are
// known by the address of a machine that moves. What would take the place of
// another thing that exists stays what it is, with a warning.
func Follow(sk *lang.Skeleton, exists []addr.Noun) (Renames, diag.Diagnostics) {
	f := follower{sk: sk, declared: map[addr.Noun]bool{}, modules: map[addr.Module]bool{}}
	for _, n := range sk.Nouns {
		f.declared[n] = true
		f.modules[n.Module] = true
	}
	exists = slices.SortedFunc(slices.Values(exists), addr.Noun.Compare)
	to := map[addr.Noun]addr.Noun{}
	stays := map[addr.Noun]bool{}
	for _, n := range exists {
		if to[n] = f.of(n); to[n] == n {
			stays[n] = true
		}
	}
	out := Renames{}
	var ds diag.Diagnostics
	taken := stays
	for _, n := range exists {
		m := to[n]
		if m == n || out[n] == m {
			continue
		}
		if taken[m] {
			ds = append(ds, diag.Warnf("Not moved", "Leave the moved block out once its name is free.",
				"%s would become %s, but that exists already.", n, m).For(n.String()))
			continue
		}
		taken[m], out[n] = true, m
	}
	return out, ds
}

type follower struct {
	sk       *lang.Skeleton
	declared map[addr.Noun]bool
	modules  map[addr.Module]bool // with something declared directly in them
}

// of follows one address to its end. Moves make no circles, so each is taken
// once at most.
func (f *follower) of(n addr.Noun) addr.Noun {
	for range len(f.sk.Moves) + 1 {
		moved := false
		for _, m := range f.sk.Moves {
			if next, ok := m.Apply(n); ok {
				n, moved = next, true
			}
		}
		if !moved {
			break
		}
	}
	n = f.countOf(n)
	if k, named := n.Key.AsName(); named && n.Kind == addr.Tunnel {
		if machine, err := addr.ParseNoun(k); err == nil && machine.Kind == addr.Backend {
			if now := n.At(addr.Name(f.of(machine).String())); f.declared[now] {
				n = now
			}
		}
	}
	return n
}

// countOf follows a block, or a module, that has gained or lost its count.
func (f *follower) countOf(n addr.Noun) addr.Noun {
	if f.declared[n] {
		return n
	}
	in := addr.Module("")
	for _, call := range n.Module.Calls() {
		next := in.Child(call.Label, call.Key)
		if other := in.Child(call.Label, toggled(call.Key)); !f.holds(next) && f.holds(other) {
			next = other
		}
		in = next
	}
	n = n.In(in)
	if other := n.At(toggled(n.Key)); !f.declared[n] && f.declared[other] && other.Key != n.Key {
		return other
	}
	return n
}

// holds reports whether something is declared inside a module.
func (f *follower) holds(m addr.Module) bool {
	for have := range f.modules {
		if m.Contains(have) {
			return true
		}
	}
	return false
}

// toggled is the key of the first instance of a block without count when it
// gets one, and the other way round; other keys stay.
func toggled(k addr.Key) addr.Key {
	switch {
	case k.IsNone():
		return addr.Index(0)
	case k == addr.Index(0):
		return addr.NoKey
	}
	return k
}

// Rename is one of them.
type Rename struct {
	From addr.Noun `json:"from"`
	To   addr.Noun `json:"to"`
}

// Sorted lists the renames by their old addresses.
func (r Renames) Sorted() []Rename {
	var out []Rename
	for from, to := range r {
		out = append(out, Rename{from, to})
	}
	slices.SortFunc(out, func(a, b Rename) int { return a.From.Compare(b.From) })
	return out
}
