package topo

import (
	"fmt"
	"maps"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// identify decides from which address each noun's identities derive: from its
// own, except where it had another when it was made. A noun whose address
// serves another one that has moved away gets a label that is free.
func identify(t *lang.Topology, had map[addr.Noun]addr.Noun) map[addr.Noun]addr.Noun {
	if len(had) == 0 {
		return nil
	}
	var all []addr.Noun
	for _, n := range t.Networks {
		all = append(all, n.Noun)
	}
	for _, m := range t.Machines {
		all = append(all, m.Noun)
	}
	for _, tun := range t.Tunnels {
		all = append(all, tun.Noun)
	}
	used, out := map[addr.Noun]bool{}, maps.Clone(had) // what is on its way out has one, too
	for _, id := range had {
		used[id] = true
	}
	for _, n := range all {
		if out[n] != (addr.Noun{}) || !used[n] {
			continue
		}
		free := n
		for i := 2; used[free] || contains(all, free); i++ {
			free.Label = fmt.Sprintf("%s-%d", n.Label, i)
		}
		out[n], used[free] = free, true
	}
	return out
}

func contains(list []addr.Noun, n addr.Noun) bool {
	for _, m := range list {
		if m == n {
			return true
		}
	}
	return false
}
