package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerLinks(s *Server) {
	Handle(s, proto.LinkApply, linkApply)
	Handle(s, proto.LinkRead, linkRead)
	Handle(s, proto.LinkDelete, linkDelete)
}

// loopback is the device that is found by name, keeps its own addresses and is
// never set down.
const loopback = "lo"

// BeginNetwork sets the loopback device up, which the kernel leaves down, and
// turns IPv6 off on every device until one gets an IPv6 address: what a guest
// says by itself there (multicast listener reports, router solicitations, for
// 10 s after a card comes up) is noise on the measured wires.
func BeginNetwork() error {
	for _, of := range []string{"all", "default"} {
		if err := switchIPv6(of, false); err != nil {
			return err
		}
	}
	lo, err := netlink.LinkByName(loopback)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// A hot-plugged NIC is there 0.2 to 0.4 s after the hypervisor has plugged it.
const (
	linkWithin = 5 * time.Second
	linkEvery  = 20 * time.Millisecond
)

func linkApply(ctx context.Context, spec proto.LinkSpec) (proto.LinkState, error) {
	ref := proto.LinkRef{MAC: spec.MAC}
	if spec.MAC == "" {
		if spec.Name != loopback {
			return proto.LinkState{}, fail(proto.CodeInvalid, spec.Name, "a device without a MAC can only be %s", loopback)
		}
		ref = proto.LinkRef{Name: loopback}
	}
	link, err := waitForLink(ctx, ref)
	if err != nil {
		return proto.LinkState{}, err
	}
	if err := shapeLink(link, spec); err != nil {
		return proto.LinkState{}, err
	}
	state, err := linkRead(ctx, ref)
	if err != nil {
		return proto.LinkState{}, err
	}
	switch {
	case state.Name != spec.Name:
		return state, fail(proto.CodeMismatch, spec.Name, "the device is called %s after renaming", state.Name)
	case spec.MTU > 0 && state.MTU != spec.MTU:
		return state, fail(proto.CodeMismatch, spec.Name, "MTU is %d, set to %d", state.MTU, spec.MTU)
	case !state.Up:
		return state, fail(proto.CodeMismatch, spec.Name, "the device is down")
	}
	state.Addresses, err = asDeclared(spec.Name, state.Addresses, spec.Addresses)
	return state, err
}

// asDeclared returns the declared list when the read one means the same.
func asDeclared(dev string, read, declared []netip.Prefix) ([]netip.Prefix, error) {
	if !slices.Equal(proto.KernelOrder(read), proto.KernelOrder(declared)) {
		return read, fail(proto.CodeMismatch, dev, "addresses are %v, set to %v", read, declared)
	}
	return declared, nil
}

func shapeLink(link netlink.Link, spec proto.LinkSpec) error {
	at := link.Attrs()
	if at.Name != spec.Name {
		// A device that is up can't be renamed in this kernel.
		if at.Flags&net.FlagUp != 0 {
			if err := netlink.LinkSetDown(link); err != nil {
				return linkError(spec.Name, "set down", err)
			}
		}
		if err := netlink.LinkSetName(link, spec.Name); err != nil {
			return linkError(spec.Name, "rename "+at.Name, err)
		}
		at.Name = spec.Name
	}
	if spec.MTU > 0 && at.MTU != spec.MTU {
		if err := netlink.LinkSetMTU(link, spec.MTU); err != nil {
			return linkError(spec.Name, "set MTU", err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return linkError(spec.Name, "set up", err)
	}
	return setAddresses(link, spec.Addresses)
}

func linkError(dev, what string, err error) error {
	return fail(proto.CodeFailed, dev, "%s: %v", what, err)
}

func waitForLink(ctx context.Context, ref proto.LinkRef) (netlink.Link, error) {
	for end := time.Now().Add(linkWithin); ; {
		link, err := findLink(ref)
		if err == nil || !isNotFound(err) || time.Now().After(end) {
			return link, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(linkEvery):
		}
	}
}

func findLink(ref proto.LinkRef) (netlink.Link, error) {
	if ref.MAC == "" {
		link, err := netlink.LinkByName(ref.Name)
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			return nil, fail(proto.CodeNotFound, ref.Name, "there is no such device")
		}
		return link, err
	}
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if strings.EqualFold(l.Attrs().HardwareAddr.String(), ref.MAC) {
			return l, nil
		}
	}
	return nil, fail(proto.CodeNotFound, ref.MAC, "no device has this MAC")
}

func isNotFound(err error) bool {
	var e *proto.Error
	return errors.As(err, &e) && e.Code == proto.CodeNotFound
}

func linkRead(_ context.Context, ref proto.LinkRef) (proto.LinkState, error) {
	link, err := findLink(ref)
	if err != nil {
		return proto.LinkState{}, err
	}
	addresses, err := readAddresses(link)
	if err != nil {
		return proto.LinkState{}, err
	}
	at := link.Attrs()
	return proto.LinkState{
		Name: at.Name, MAC: at.HardwareAddr.String(), MTU: at.MTU, Up: at.Flags&net.FlagUp != 0,
		Addresses: addresses, Counters: counters(at.Statistics),
	}, nil
}

func counters(st *netlink.LinkStatistics) proto.LinkCounters {
	if st == nil {
		return proto.LinkCounters{}
	}
	return proto.LinkCounters{
		RxPackets: st.RxPackets, TxPackets: st.TxPackets, RxBytes: st.RxBytes, TxBytes: st.TxBytes,
		RxDropped: st.RxDropped, TxDropped: st.TxDropped, RxErrors: st.RxErrors,
	}
}

// linkDelete leaves a NIC as it was found: down and without addresses. A NIC
// that is gone needs nothing.
func linkDelete(_ context.Context, ref proto.LinkRef) (proto.None, error) {
	link, err := findLink(ref)
	if isNotFound(err) {
		return proto.None{}, nil
	}
	if err != nil {
		return proto.None{}, err
	}
	name := link.Attrs().Name
	if err := setAddresses(link, nil); err != nil {
		return proto.None{}, err
	}
	if name == loopback {
		return proto.None{}, nil
	}
	if err := netlink.LinkSetDown(link); err != nil {
		return proto.None{}, linkError(name, "set down", err)
	}
	return proto.None{}, nil
}
