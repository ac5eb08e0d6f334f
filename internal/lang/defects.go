package lang

import (
	"maps"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
)

// defects remembers what was reported already, so that later rules do not
// stumble over it: a rule keeps silent when a value that it would look at is
// not the one that the user meant.
type defects struct {
	nouns map[addr.Noun]bool
	args  map[string]bool // keyed as Topology.Places
}

func newDefects() defects {
	return defects{nouns: map[addr.Noun]bool{}, args: map[string]bool{}}
}

// noun reports whether anything about a noun, or about its whole block, is wrong.
func (d defects) noun(n addr.Noun) bool { return d.nouns[n] || d.nouns[n.Block()] }

// spread adds the machines of networks that have no cidr, since theirs was wrong: it
// is not known what they reach.
func (d defects) spread(t *Topology) defects {
	out := defects{nouns: map[addr.Noun]bool{}, args: d.args}
	maps.Copy(out.nouns, d.nouns)
	for _, m := range t.Machines {
		for _, nic := range m.NICs {
			if n, ok := t.Network(nic.Network); ok && !n.CIDR.IsValid() {
				out.nouns[m.Noun] = true
			}
		}
	}
	return out
}

// arg reports whether one of these arguments is wrong.
func (d defects) arg(n addr.Noun, names ...string) bool {
	for _, name := range names {
		if d.args[n.String()+"/"+name] {
			return true
		}
	}
	return false
}

// inside reports whether any argument of nested blocks of that type is wrong.
func (d defects) inside(n addr.Noun, block string) bool {
	prefix := n.String() + "/" + block + "["
	for place := range d.args {
		if strings.HasPrefix(place, prefix) {
			return true
		}
	}
	return d.arg(n, block)
}
