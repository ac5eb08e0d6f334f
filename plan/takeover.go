package plan

import (
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/provider"
)

// Takeover says that a resource takes a name that another one has until it is
// changed or deleted: a virtual address moves from one service to the other.
type Takeover struct {
	Name     string
	By, From addr.Resource
}

// Takeovers lists the takeovers of a plan's changes, in their order.
func Takeovers(changes []Change, ps *Providers) []Takeover {
	type place struct {
		holder addr.Resource
		name   string
	}
	owners := map[place]addr.Resource{}
	for _, c := range changes {
		for _, name := range released(c, ps) {
			owners[place{c.Have.Within, name}] = c.Addr
		}
	}
	if len(owners) == 0 {
		return nil
	}
	var out []Takeover
	for _, c := range changes {
		if c.Want == nil || c.Action == provider.NoOp {
			continue
		}
		for _, name := range ps.claims(c.Type, c.Want.Attrs) {
			if from, ok := owners[place{c.Want.Within, name}]; ok && from != c.Addr {
				out = append(out, Takeover{name, c.Addr, from})
			}
		}
	}
	return out
}

// released lists the names that a change gives up, if only to take them again.
func released(c Change, ps *Providers) []string {
	if c.Have == nil || c.Action == provider.NoOp {
		return nil
	}
	had := append(ps.claims(c.Have.Type, c.Have.Value), ps.claims(c.Have.Type, c.Have.Half)...)
	if c.Action != provider.Update {
		return had
	}
	kept := map[string]bool{}
	for _, name := range ps.claims(c.Type, c.Want.Attrs) {
		kept[name] = true
	}
	var out []string
	for _, name := range had {
		if !kept[name] {
			out = append(out, name)
		}
	}
	return out
}
