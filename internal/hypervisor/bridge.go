package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Bridges are made here and not by libvirt: for each network of its own it
// runs iptables, also when there is nothing to filter, and the one mode that
// does not wants an address on the bridge, which would take part in the lab.

// netlinkTimeout bounds each request; the kernel answers at once or not at all.
const netlinkTimeout = 5 * time.Second

// inNetwork runs fn with a netlink connection to the lab's network namespace.
// Only the socket is made inside: no thread of this process stays there.
func (h *Holder) inNetwork(fn func(*netlink.Handle) error) error {
	ns, err := netns.GetFromPath(fmt.Sprintf("/proc/%d/ns/net", h.PID))
	if err != nil {
		return fmt.Errorf("network namespace of lab %s: %w", h.Lab, err)
	}
	defer ns.Close()
	// Checked after the open: the number may belong to another process by now.
	if lives, err := h.Alive(); err != nil {
		return err
	} else if !lives {
		return h.Died()
	}
	nl, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("network namespace of lab %s: %w", h.Lab, err)
	}
	defer nl.Close()
	if err := nl.SetSocketTimeout(netlinkTimeout); err != nil {
		return err
	}
	return fn(nl)
}

// AddBridge makes a bridge without addresses in the lab's network namespace and
// brings it up. One of that name that exists already is set right. mtu is in
// bytes, 0 leaves the kernel's.
func (h *Holder) AddBridge(_ context.Context, name string, mtu int) error {
	return h.inNetwork(func(nl *netlink.Handle) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = name, mtu
		// Snooping would make the bridge learn and forget multicast groups; a
		// segment of a lab is a plain one.
		snooping := false
		err := nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping})
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make bridge %s: %w", name, err)
		}
		link, err := nl.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find bridge %s: %w", name, err)
		}
		if link.Type() != "bridge" {
			return fmt.Errorf("link %s exists and is a %s", name, link.Type())
		}
		if mtu != 0 && link.Attrs().MTU != mtu {
			if err := nl.LinkSetMTU(link, mtu); err != nil {
				return fmt.Errorf("set MTU %d of bridge %s: %w", mtu, name, err)
			}
		}
		if err := nl.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring bridge %s up: %w", name, err)
		}
		return nil
	})
}

// DeleteBridge removes a bridge. One that does not exist is no error.
func (h *Holder) DeleteBridge(_ context.Context, name string) error {
	return h.inNetwork(func(nl *netlink.Handle) error {
		link, err := nl.LinkByName(name)
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			return nil
		}
		if err == nil {
			err = nl.LinkDel(link)
		}
		if err != nil {
			return fmt.Errorf("remove bridge %s: %w", name, err)
		}
		return nil
	})
}

// BridgeMTU returns a bridge's MTU in bytes. The error wraps fs.ErrNotExist
// when there is no such bridge.
func (h *Holder) BridgeMTU(_ context.Context, name string) (int, error) {
	mtu := 0
	err := h.inNetwork(func(nl *netlink.Handle) error {
		link, err := nl.LinkByName(name)
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			return fmt.Errorf("bridge %s: %w", name, fs.ErrNotExist)
		}
		if err != nil {
			return fmt.Errorf("look at bridge %s: %w", name, err)
		}
		mtu = link.Attrs().MTU
		return nil
	})
	return mtu, err
}
