package server

import (
	"context"

	"github.com/vishvananda/netlink"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerNeighbours(s *Server) {
	Handle(s, proto.NeighRead, neighRead)
}

// neighStates are the NUD_* names of <linux/neighbour.h>, as ip(8) prints them.
var neighStates = map[int]string{
	netlink.NUD_INCOMPLETE: "incomplete", netlink.NUD_REACHABLE: "reachable", netlink.NUD_STALE: "stale",
	netlink.NUD_DELAY: "delay", netlink.NUD_PROBE: "probe", netlink.NUD_FAILED: "failed",
	netlink.NUD_NOARP: "noarp", netlink.NUD_PERMANENT: "permanent",
}

func neighRead(_ context.Context, ref proto.NeighRef) (proto.Neigh, error) {
	index := 0
	if ref.Dev != "" {
		link, err := findLink(proto.LinkRef{Name: ref.Dev})
		if err != nil {
			return proto.Neigh{}, err
		}
		index = link.Attrs().Index
	}
	family := netlink.FAMILY_V4
	if ref.Address.Is6() {
		family = netlink.FAMILY_V6
	}
	list, err := dump(func() ([]netlink.Neigh, error) { return netlink.NeighList(index, family) })
	if err != nil {
		return proto.Neigh{}, err
	}
	for _, n := range list {
		if addrOf(n.IP) == ref.Address && len(n.HardwareAddr) > 0 {
			return proto.Neigh{Address: ref.Address, MAC: n.HardwareAddr.String(), State: neighStates[n.State]}, nil
		}
	}
	return proto.Neigh{}, fail(proto.CodeNotFound, ref.Address.String(), "no neighbour entry with a MAC")
}
