package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// folds are the addresses that stand for others in the model: folded → real.
type folds map[netip.Addr]netip.Addr

// fold returns the input with the addresses that the model holds in the place of
// those of IPv6, and refuses one in which two would become one.
func fold(in Input) (Input, folds, error) {
	f := folds{}
	seen := ipvsmodel.Folds(f)
	var clash error
	addr := func(a netip.Addr) netip.Addr {
		to, err := seen.Fold(a)
		if err != nil {
			clash = err
		}
		return to
	}
	port := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(addr(a.Addr()), a.Port()) }
	services := func(list []proto.IPVSService) []proto.IPVSService {
		list = slices.Clone(list)
		for i := range list {
			s := &list[i]
			if s.Persistence > 0 && s.Netmask > 32 && s.Netmask < 128 || s.Persistence > 0 && s.VIP.Is6() && s.Netmask > 0 && s.Netmask < 128 {
				clash = fmt.Errorf("persistence by a network of IPv6: %w", ipvsmodel.ErrUnknown)
			}
			if s.VIP.IsValid() {
				s.VIP = addr(s.VIP)
			}
			s.Destinations = slices.Clone(s.Destinations)
			for k := range s.Destinations {
				s.Destinations[k].Address = addr(s.Destinations[k].Address)
			}
		}
		return list
	}
	if !sixes(in) {
		return in, nil, nil
	}
	in.Before, in.After = services(in.Before), services(in.After)
	in.Packets = slices.Clone(in.Packets)
	for i := range in.Packets {
		p := &in.Packets[i]
		p.Client, p.VIP = port(p.Client), port(p.VIP)
	}
	in.Conns = slices.Clone(in.Conns)
	for i := range in.Conns {
		c := &in.Conns[i]
		c.Client, c.Virtual, c.Dest = port(c.Client), port(c.Virtual), port(c.Dest)
	}
	names := map[netip.Addr]string{}
	for a, name := range in.Names {
		if to := ipvsmodel.Fold(a); f[to] == a { // a backend's other family is nobody's here
			names[to] = name
		}
	}
	in.Names = names
	return in, f, clash
}

// sixes reports whether a run has anything of IPv6.
func sixes(in Input) bool {
	return slices.ContainsFunc(in.Before, func(s proto.IPVSService) bool {
		return s.IPv6 || s.VIP.Is6() || slices.ContainsFunc(s.Destinations, func(d proto.IPVSDestination) bool { return d.Address.Is6() })
	})
}

// unfold puts the real addresses back. The script keeps the model's: it is for the
// model.
func (f folds) unfold(r Result) Result {
	if len(f) == 0 {
		return r
	}
	if r.Backends != nil {
		real := make(map[netip.Addr]Count, len(r.Backends))
		for a, c := range r.Backends {
			real[f[a]] = c
		}
		r.Backends = real
	}
	var pairs []string
	var known []netip.Addr
	for a := range f {
		known = append(known, a)
	}
	// The longest first: one may begin another.
	slices.SortFunc(known, func(a, b netip.Addr) int {
		if by := len(b.String()) - len(a.String()); by != 0 {
			return by
		}
		return a.Compare(b)
	})
	for _, a := range known {
		if f[a].Is6() {
			pairs = append(pairs, a.String()+":", "["+f[a].String()+"]:", a.String(), f[a].String())
		}
	}
	r.Differs = strings.NewReplacer(pairs...).Replace(r.Differs)
	return r
}
