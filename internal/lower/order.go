package lower

import (
	"maps"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// order makes resources wait as depends_on says: everything of a block for
// everything of the blocks that it names.
//
// What a block begins with (its machine, network, device, service) waits in any
// case. Of the rest a wait is left out that would close a circle: a tunnel that
// depends on its backend waits for the machine, but not for the name server
// there, which itself waits for the tunnel.
func (b *builder) order() {
	parts := map[addr.Noun][]int{}
	for i, r := range b.out {
		parts[r.Addr.Noun] = append(parts[r.Addr.Noun], i)
	}
	at := map[addr.Resource]int{}
	for i, r := range b.out {
		at[r.Addr] = i
	}
	for _, firsts := range []bool{true, false} {
		for _, n := range slices.SortedFunc(maps.Keys(b.t.DependsOn), addr.Noun.Compare) {
			for _, needed := range b.t.DependsOn[n] {
				b.waits(parts[n], parts[needed], at, firsts)
			}
		}
	}
	for i := range b.out {
		slices.SortFunc(b.out[i].DependsOn, addr.Resource.Compare)
		b.out[i].DependsOn = slices.Compact(b.out[i].DependsOn)
	}
}

// waits connects resources by their indexes: those that blocks begin with, or
// all others.
func (b *builder) waits(who, what []int, at map[addr.Resource]int, firsts bool) {
	for _, i := range who {
		for _, j := range what {
			both := begins(b.out[i]) && begins(b.out[j])
			if firsts && !both || !firsts && !both && b.reaches(j, i, at) {
				continue
			}
			b.wait(i, b.out[j].Addr)
			if firsts {
				continue
			}
			for _, later := range b.out[j].NotAwaited { // it stands once these do
				if k, ok := at[later]; ok && !b.reaches(k, i, at) {
					b.wait(i, later)
				}
			}
		}
	}
}

// wait makes a resource wait for another.
func (b *builder) wait(i int, needed addr.Resource) {
	r := &b.out[i]
	r.DependsOn = append(r.DependsOn, needed)
	r.NotAwaited = slices.DeleteFunc(slices.Clone(r.NotAwaited), func(a addr.Resource) bool { return a == needed })
}

// begins reports whether a resource is what its block begins with.
func begins(r provider.Resource) bool {
	switch r.Type {
	case schema.TypeDomain, schema.TypeNetwork, schema.TypeTunnel, schema.TypeIPVS:
		return true
	}
	return false
}

// reaches reports whether a resource waits for another, directly or through others.
func (b *builder) reaches(from, to int, at map[addr.Resource]int) bool {
	seen := map[int]bool{}
	stack := []int{from}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if i == to {
			return true
		}
		if seen[i] {
			continue
		}
		seen[i] = true
		r := b.out[i]
		for _, d := range slices.Concat(r.DependsOn, r.ReplacedBy, []addr.Resource{r.Within}) {
			if j, ok := at[d]; ok {
				stack = append(stack, j)
			}
		}
	}
	return false
}
