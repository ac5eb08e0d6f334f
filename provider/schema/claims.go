package schema

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
)

// What the objects of each type have for themselves, see provider.Schema.Claims.
// A value that is read here may lack attributes: it may come from an older state
// or from a call that did not end.

func domainClaims(v cty.Value) []string {
	d, err := DomainFrom(v)
	if err != nil {
		return nil
	}
	names := claimed("domain", d.Name, "uuid", d.UUID)
	for _, n := range d.NICs {
		names = append(names, claimed("mac", n.MAC)...)
	}
	return names
}

func networkClaims(v cty.Value) []string {
	n, err := NetworkFrom(v)
	if err != nil {
		return nil
	}
	return claimed("network", n.Name, "network uuid", n.UUID, "bridge", n.Bridge)
}

func linkClaims(v cty.Value) []string {
	l, err := LinkFrom(v)
	if err != nil {
		return nil
	}
	return claimed("device", l.Name, "mac", l.MAC)
}

// tunnelClaims: the kernel refuses a second device of the same kind between the
// same ends; gue is ipip in UDP, so both are one kind (net/ipv4/ip_tunnel.c,
// ip_tunnel_find).
func tunnelClaims(v cty.Value) []string {
	t, err := TunnelFrom(v)
	if err != nil {
		return nil
	}
	kind := t.Type
	if kind == "gue" {
		kind = "ipip"
	}
	names := claimed("device", t.Name)
	if t.Local != "" {
		names = append(names, fmt.Sprintf("%s tunnel from %s to %s", kind, t.Remote, t.Local))
	}
	return names
}

func routeClaims(v cty.Value) []string {
	r, err := RouteFrom(v)
	if err != nil {
		return nil
	}
	return claimed("route to", r.To)
}

func dnsClaims(cty.Value) []string { return []string{"named"} }

func ipvsClaims(v cty.Value) []string {
	i, err := IPVSFrom(v)
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range i.Services {
		names = append(names, s.Claim())
	}
	return names
}

// Claim is the name by which the kernel knows a virtual service.
func (s IPVSService) Claim() string {
	switch {
	case s.FWMark != 0 && s.IPv6:
		return fmt.Sprintf("IPv6 firewall mark %d", s.FWMark)
	case s.FWMark != 0:
		return fmt.Sprintf("firewall mark %d", s.FWMark)
	}
	return fmt.Sprintf("%s %s port %d", s.Protocol, s.VIP, s.Port)
}

// claimed joins kinds and names, leaving out names that are not given.
func claimed(pairs ...string) []string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, pairs[i]+" "+pairs[i+1])
		}
	}
	return out
}
