package lower

import (
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// routes makes a machine's ways to the networks that it is not on.
func (b *builder) routes(m lang.Machine) {
	for _, r := range b.ways[m.Noun] {
		b.add(provider.Resource{
			Addr: routeOf(m.Noun, r), Type: schema.TypeRoute, Range: &m.Range, Within: domainOf(m.Noun),
			DependsOn: []addr.Resource{b.linkOf(m.Noun, r.NIC)},
			Attrs: schema.Route{
				Node: m.Noun.String(), To: r.To.String(), Via: r.Via.String(), Dev: b.l.Machines[m.Noun].NICs[r.NIC].Device,
			}.Value(),
		})
	}
}

// routeOf names a route by its destination; networks do not overlap.
func routeOf(n addr.Noun, r lang.Route) addr.Resource {
	if r.To.Bits() == 0 {
		return part(n, schema.TypeRoute+".default")
	}
	return part(n, schema.TypeRoute+"."+r.To.Addr().String())
}

func (b *builder) routesOf(n addr.Noun) []addr.Resource {
	var out []addr.Resource
	for _, r := range b.ways[n] {
		out = append(out, routeOf(n, r))
	}
	return out
}

// masquerade makes a router give what it sends on by a device that device's address.
// It is there before the router forwards anything, so that nothing leaves with an
// address that nobody outside has a way to.
func (b *builder) masquerade(m lang.Machine) []addr.Resource {
	for i, nic := range m.NICs {
		if m.Masquerade.IsZero() || nic.Network != m.Masquerade {
			continue
		}
		at := part(m.Noun, schema.TypeMasquerade)
		b.add(provider.Resource{
			Addr: at, Type: schema.TypeMasquerade, Range: &m.Range, Within: domainOf(m.Noun), DependsOn: []addr.Resource{b.linkOf(m.Noun, i)},
			Attrs: schema.Masquerade{Node: m.Noun.String(), Dev: b.l.Machines[m.Noun].NICs[i].Device}.Value(),
		})
		return []addr.Resource{at}
	}
	return nil
}
