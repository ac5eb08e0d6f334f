package server

import "github.com/vishvananda/netlink"

// LoopbackUp sets the loopback device up, which the kernel leaves down.
func LoopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
