package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerTunnels(s *Server) {
	Handle(s, proto.TunnelApply, tunnelApply)
	Handle(s, proto.TunnelRead, tunnelRead)
	Handle(s, proto.TunnelDelete, tunnelDelete)
}

// tunnelKind is what a tunnel type needs: its modules, and the fallback device
// that comes with them and takes every packet that no named device wants.
type tunnelKind struct {
	modules  []string
	fallback string
}

var tunnelKinds = map[string]tunnelKind{
	"ipip": {[]string{"ipip"}, "tunl0"},
	"gre":  {[]string{"ip_gre"}, "gre0"},
	"gue":  {[]string{"fou", "ipip"}, "tunl0"}, // the fou receiver hands IPIP packets on
	// What "ipip" is when one of the two headers is IPv6's.
	"sit":    {[]string{"sit"}, "sit0"},
	"ip6tnl": {[]string{"ip6_tunnel"}, "ip6tnl0"},
}

// deviceOf is the kind of device that receives a tunnel: that of an IPv4 header in
// an IPv4 one takes neither IPv6 inside nor outside.
func deviceOf(spec proto.TunnelSpec) string {
	switch {
	case spec.Type != "ipip":
		return spec.Type
	case spec.Local.Is6():
		return "ip6tnl"
	case slices.ContainsFunc(spec.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() }):
		return "sit"
	}
	return spec.Type
}

func tunnelApply(ctx context.Context, spec proto.TunnelSpec) (proto.TunnelState, error) {
	kind, ok := tunnelKinds[deviceOf(spec)]
	if !ok {
		return proto.TunnelState{}, fail(proto.CodeInvalid, spec.Name, "unknown tunnel type %q", spec.Type)
	}
	for _, m := range kind.modules {
		if err := loadModule(ctx, m); err != nil {
			return proto.TunnelState{}, err
		}
	}
	if err := setFallbackDown(kind.fallback); err != nil {
		return proto.TunnelState{}, err
	}
	link, err := makeTunnel(ctx, spec)
	if err != nil {
		return proto.TunnelState{}, err
	}
	// The effective value is the larger of all's and the device's, and the device
	// inherits default's (Documentation/networking/ip-sysctl.rst): strict here
	// drops every packet that comes out of the tunnel.
	if err := writeSysctl("net.ipv4.conf."+spec.Name+".rp_filter", "0"); err != nil {
		return proto.TunnelState{}, err
	}
	// With IPv6 a device of GRE asks for routers as soon as it is up, through the tunnel
	// and at the director, which has no receiver for it (measured on 6.1).
	if err := writeSysctl("net.ipv6.conf."+spec.Name+".router_solicitations", "0"); err != nil && !isNotFound(err) {
		return proto.TunnelState{}, err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return proto.TunnelState{}, linkError(spec.Name, "set up", err)
	}
	if err := setAddresses(link, spec.Addresses); err != nil {
		return proto.TunnelState{}, err
	}
	return confirmTunnel(ctx, spec)
}

func confirmTunnel(ctx context.Context, spec proto.TunnelSpec) (proto.TunnelState, error) {
	state, err := tunnelRead(ctx, proto.LinkRef{Name: spec.Name})
	switch {
	case err != nil:
		return state, err
	case !sameTunnel(state.TunnelSpec, spec):
		return state, fail(proto.CodeMismatch, spec.Name, "the tunnel is %s %s to %s, set to %s %s to %s",
			state.Type, state.Local, state.Remote, spec.Type, spec.Local, spec.Remote)
	case !state.Up:
		return state, fail(proto.CodeMismatch, spec.Name, "the device is down")
	case state.FallbackUp:
		return state, fail(proto.CodeMismatch, spec.Name, "the fallback device is up: it would hide a wrong tunnel end")
	}
	state.Addresses, err = asDeclared(spec.Name, state.Addresses, spec.Addresses)
	return state, err
}

func sameTunnel(a, b proto.TunnelSpec) bool {
	return a.Name == b.Name && a.Type == b.Type && a.Local == b.Local && a.Remote == b.Remote && a.Port == b.Port &&
		(a.Type != "gre" || a.Checksum == b.Checksum) // a GUE port takes what comes
}

func setFallbackDown(name string) error {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) { // net.core.fb_tunnels_only_for_init_net may say so
		return nil
	}
	if err == nil {
		err = netlink.LinkSetDown(link)
	}
	if err != nil {
		return linkError(name, "set down", err)
	}
	return nil
}

// makeTunnel returns the device, made anew when it is missing or other.
func makeTunnel(ctx context.Context, spec proto.TunnelSpec) (netlink.Link, error) {
	if !spec.Local.IsValid() || spec.Local.Is6() != spec.Remote.Is6() || spec.Local.Is6() && spec.Type != "ipip" {
		return nil, fail(proto.CodeInvalid, spec.Name, "a tunnel of type %s from %s to %s", spec.Type, spec.Remote, spec.Local)
	}
	old, err := tunnelRead(ctx, proto.LinkRef{Name: spec.Name})
	if link, found := netlink.LinkByName(spec.Name); err == nil && found == nil && sameTunnel(old.TunnelSpec, spec) &&
		(spec.Type != "ipip" || link.Type() == deviceOf(spec)) {
		return link, nil
	}
	if err != nil && !isNotFound(err) {
		return nil, err
	}
	if err == nil {
		if _, err := tunnelDelete(ctx, proto.LinkRef{Name: spec.Name}); err != nil {
			return nil, err
		}
	}
	if spec.Type == "gue" {
		if err := openGUE(spec.Port); err != nil {
			return nil, fail(proto.CodeFailed, spec.Name, "open UDP port %d for GUE: %v", spec.Port, err)
		}
	}
	if err := netlink.LinkAdd(newTunnel(spec)); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return nil, fail(proto.CodeInvalid, spec.Name, "another device has the same two ends, or the name")
		}
		return nil, linkError(spec.Name, "create "+spec.Type+" device", err)
	}
	return netlink.LinkByName(spec.Name)
}

func newTunnel(spec proto.TunnelSpec) netlink.Link {
	at := netlink.NewLinkAttrs()
	at.Name = spec.Name
	local, remote := net.IP(spec.Local.AsSlice()), net.IP(spec.Remote.AsSlice())
	if spec.Type == "gre" {
		gre := &netlink.Gretun{LinkAttrs: at, Local: local, Remote: remote, PMtuDisc: 1}
		if spec.Checksum != "" {
			gre.IFlags = nl.GRE_CSUM
		}
		return gre
	}
	switch deviceOf(spec) { // without a protocol they take both families
	case "sit":
		return &netlink.Sittun{LinkAttrs: at, Local: local, Remote: remote, PMtuDisc: 1}
	case "ip6tnl":
		return &netlink.Ip6tnl{LinkAttrs: at, Local: local, Remote: remote}
	}
	t := &netlink.Iptun{LinkAttrs: at, Local: local, Remote: remote, PMtuDisc: 1, Proto: unix.IPPROTO_IPIP}
	if spec.Type == "gue" {
		t.EncapType, t.EncapSport, t.EncapDport = uint16(netlink.FOU_ENCAP_GUE), spec.Port, spec.Port
	}
	return t
}

func tunnelRead(_ context.Context, ref proto.LinkRef) (proto.TunnelState, error) {
	link, err := findLink(proto.LinkRef{Name: ref.Name})
	if err != nil {
		return proto.TunnelState{}, err
	}
	at := link.Attrs()
	state := proto.TunnelState{MTU: at.MTU, Up: at.Flags&net.FlagUp != 0, Counters: counters(at.Statistics)}
	state.Name = at.Name
	switch t := link.(type) {
	case *netlink.Iptun:
		state.Type, state.Local, state.Remote = "ipip", addrOf(t.Local), addrOf(t.Remote)
		if t.EncapType == uint16(netlink.FOU_ENCAP_GUE) {
			state.Type, state.Port = "gue", t.EncapDport
		}
	case *netlink.Sittun:
		state.Type, state.Local, state.Remote = "ipip", addrOf(t.Local), addrOf(t.Remote)
	case *netlink.Ip6tnl:
		state.Type, state.Local, state.Remote = "ipip", addrOf(t.Local), addrOf(t.Remote)
	case *netlink.Gretun:
		state.Type, state.Local, state.Remote = "gre", addrOf(t.Local), addrOf(t.Remote)
		if t.IFlags&nl.GRE_CSUM != 0 {
			state.Checksum = "full"
		}
	default:
		return state, fail(proto.CodeInvalid, at.Name, "the device is of type %s and no tunnel of ours", link.Type())
	}
	if state.Addresses, err = readAddresses(link); err != nil {
		return state, err
	}
	kind := state.Type
	if kind == "ipip" {
		kind = link.Type() // ipip, sit or ip6tnl
	}
	state.FallbackUp = isUp(tunnelKinds[kind].fallback)
	return state, nil
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

func isUp(name string) bool {
	link, err := netlink.LinkByName(name)
	return err == nil && link.Attrs().Flags&net.FlagUp != 0
}

func tunnelDelete(_ context.Context, ref proto.LinkRef) (proto.None, error) {
	state, err := tunnelRead(context.Background(), ref)
	if isNotFound(err) {
		return proto.None{}, nil
	}
	if err != nil {
		return proto.None{}, err
	}
	link, err := netlink.LinkByName(ref.Name)
	if err != nil {
		return proto.None{}, err
	}
	if err := netlink.LinkDel(link); err != nil {
		return proto.None{}, linkError(ref.Name, "delete", err)
	}
	if state.Type == "gue" {
		if err := closeGUE(state.Port); err != nil {
			return proto.None{}, fail(proto.CodeFailed, ref.Name, "close UDP port %d of GUE: %v", state.Port, err)
		}
	}
	return proto.None{}, nil
}
