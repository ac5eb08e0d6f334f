package server

import (
	"encoding/binary"
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// openGUE makes the kernel receive GUE on a UDP port; a port that is open
// already is no error. netlink.FouAdd can't be used: it always sends an IP
// protocol of 0, which kernels since the generated policy of net/ipv4/fou
// (6.1.y too) refuse with ERANGE.
func openGUE(port uint16) error {
	err := fouRequest(netlink.FOU_CMD_ADD, port, nl.NewRtAttr(netlink.FOU_ATTR_TYPE, []byte{netlink.FOU_ENCAP_GUE}))
	if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EALREADY) {
		return nil
	}
	return err
}

// closeGUE ends that; a port that is not open is no error (the kernel says EINVAL).
func closeGUE(port uint16) error {
	err := fouRequest(netlink.FOU_CMD_DEL, port)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func fouRequest(command uint8, port uint16, more ...*nl.RtAttr) error {
	family, err := netlink.FouFamilyId()
	if err != nil {
		return err
	}
	const version = 1
	body := []byte{command, version, 0, 0} // struct genlmsghdr
	attrs := append([]*nl.RtAttr{
		nl.NewRtAttr(netlink.FOU_ATTR_PORT, binary.BigEndian.AppendUint16(nil, port)),
		nl.NewRtAttr(netlink.FOU_ATTR_AF, []byte{unix.AF_INET}),
	}, more...)
	for _, a := range attrs {
		body = append(body, a.Serialize()...)
	}
	req := nl.NewNetlinkRequest(family, unix.NLM_F_ACK)
	req.AddRawData(body)
	_, err = req.Execute(unix.NETLINK_GENERIC, 0)
	return err
}
