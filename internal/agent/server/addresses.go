package server

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// readAddresses returns a device's addresses in the kernel's order, without
// IPv6 link-local ones and without the loopback device's own.
func readAddresses(link netlink.Link) ([]netip.Prefix, error) {
	list, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, linkError(link.Attrs().Name, "list addresses", err)
	}
	addresses := []netip.Prefix{}
	for _, a := range list {
		p, ok := prefixOf(a.IPNet)
		if ok && !p.Addr().IsLinkLocalUnicast() && !p.Addr().IsLoopback() {
			addresses = append(addresses, p)
		}
	}
	return addresses, nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	ip, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(ip.Unmap(), ones), true
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// setAddresses gives a device exactly these addresses. What is right stays
// untouched up to the first difference: deleting a primary address takes its
// secondary ones along, so everything from there on is made anew.
func setAddresses(link netlink.Link, want []netip.Prefix) error {
	have, err := readAddresses(link)
	if err != nil {
		return err
	}
	if slices.Equal(proto.KernelOrder(have), proto.KernelOrder(want)) {
		return nil
	}
	keep := 0
	for keep < len(have) && keep < len(want) && have[keep] == want[keep] {
		keep++
	}
	if keep < len(have) {
		keep = 0 // addresses can only be appended in order
		if err := dropAddresses(link, have); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(want, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		for _, of := range []string{loopback, link.Attrs().Name} { // a machine's own addresses are reached by lo
			if err := switchIPv6(of, true); err != nil {
				return err
			}
		}
	}
	for _, p := range want[keep:] {
		a := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD // usable at once; nobody else is on the segment
			if p.IsSingleIP() {
				// A shared address is never a source by itself (RFC 6724, rule 3); with its
				// whole length as prefix it would match most destinations best (rule 8).
				a.ValidLft, a.PreferedLft = math.MaxUint32, 0
			}
		}
		if err := netlink.AddrAdd(link, a); err != nil && !errors.Is(err, unix.EEXIST) {
			return linkError(link.Attrs().Name, "add address "+p.String(), err)
		}
	}
	return nil
}

func dropAddresses(link netlink.Link, have []netip.Prefix) error {
	for _, p := range have {
		err := netlink.AddrDel(link, &netlink.Addr{IPNet: ipNet(p)})
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) { // gone along with its primary
			return linkError(link.Attrs().Name, "delete address "+p.String(), err)
		}
	}
	return nil
}

// switchIPv6 turns IPv6 on or off: of a device, of all that there are, of those
// to come ("default"). A kernel without IPv6 has it off.
func switchIPv6(of string, on bool) error {
	value := "1"
	if on {
		value = "0"
	}
	err := writeSysctl("net.ipv6.conf."+of+".disable_ipv6", value)
	if !on && isNotFound(err) {
		return nil
	}
	return err
}
