package server

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerRoutes(s *Server) {
	Handle(s, proto.RouteApply, routeApply)
	Handle(s, proto.RouteRead, routeRead)
	Handle(s, proto.RouteDelete, routeDelete)
}

func routeApply(ctx context.Context, spec proto.RouteSpec) (proto.RouteSpec, error) {
	r := &netlink.Route{Dst: ipNet(spec.To.Masked()), Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_STATIC}
	if spec.Via.IsValid() {
		r.Gw = net.IP(spec.Via.AsSlice())
	} else {
		r.Scope = netlink.SCOPE_LINK
	}
	if spec.Dev != "" {
		link, err := findLink(proto.LinkRef{Name: spec.Dev})
		if err != nil {
			return spec, err
		}
		r.LinkIndex = link.Attrs().Index
	}
	if err := netlink.RouteReplace(r); err != nil {
		return spec, fail(proto.CodeFailed, spec.To.String(), "set the route: %v", err)
	}
	have, err := routeRead(ctx, spec)
	if err != nil {
		return have, err
	}
	if have.Via != spec.Via || spec.Dev != "" && have.Dev != spec.Dev {
		return have, fail(proto.CodeMismatch, spec.To.String(), "the route is via %s dev %s, set to via %s dev %s",
			have.Via, have.Dev, spec.Via, spec.Dev)
	}
	return have, nil
}

// routeRead returns the route with that destination. The device is left out of
// the answer when it is left out of the question: the gateway decides it.
func routeRead(_ context.Context, spec proto.RouteSpec) (proto.RouteSpec, error) {
	r, err := findRoute(spec.To)
	if err != nil {
		return spec, err
	}
	have := proto.RouteSpec{To: spec.To}
	if len(r.Gw) > 0 {
		have.Via = addrOf(r.Gw)
	}
	if spec.Dev != "" {
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if err != nil {
			return have, err
		}
		have.Dev = link.Attrs().Name
	}
	return have, nil
}

func findRoute(to netip.Prefix) (netlink.Route, error) {
	family := netlink.FAMILY_V4
	if to.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	list, err := dump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return netlink.Route{}, err
	}
	for _, r := range list {
		dst, ok := prefixOf(r.Dst)
		if r.Dst == nil { // how a default route may be listed
			dst, ok = netip.PrefixFrom(zeroAddress(to), 0), true
		}
		if ok && dst == to.Masked() {
			return r, nil
		}
	}
	return netlink.Route{}, fail(proto.CodeNotFound, to.String(), "there is no such route")
}

func zeroAddress(like netip.Prefix) netip.Addr {
	if like.Addr().Is6() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

func routeDelete(_ context.Context, spec proto.RouteSpec) (proto.None, error) {
	r, err := findRoute(spec.To)
	if isNotFound(err) {
		return proto.None{}, nil
	}
	if err != nil {
		return proto.None{}, err
	}
	if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
		return proto.None{}, fail(proto.CodeFailed, spec.To.String(), "delete the route: %v", err)
	}
	return proto.None{}, nil
}
