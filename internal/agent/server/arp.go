package server

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerARP(s *Server) {
	Handle(s, proto.ARPAsk, arpAsk)
}

// Layout of an ARP packet for IPv4 on Ethernet (RFC 826).
const (
	arpSize               = 28
	arpRequest, arpReply  = 1, 2
	arpSenderMAC, arpSIP  = 8, 14
	arpTIP                = 24
	arpFence              = time.Second
	arpHardware, arpProto = 1, 0x0800
)

// arpAsk asks who has an address and returns everybody who says so.
//
// How long to wait for answers that may not come is told by the fences: a machine
// takes frames in the order in which they came, so its answer to an echo that was
// sent after the question comes after its answer to the question.
func arpAsk(ctx context.Context, spec proto.ARPAskSpec) (proto.ARPAnswers, error) {
	if !spec.Address.Is4() || !spec.From.Is4() {
		return proto.ARPAnswers{}, fail(proto.CodeInvalid, spec.Address.String(), "ARP is about IPv4 addresses")
	}
	ifi, err := net.InterfaceByName(spec.Dev)
	if err != nil {
		return proto.ARPAnswers{}, fail(proto.CodeNotFound, spec.Dev, "no device to ask on: %v", err)
	}
	fd, err := openARP(ifi.Index)
	if err != nil {
		return proto.ARPAnswers{}, fail(proto.CodeFailed, spec.Dev, "open an ARP socket: %v", err)
	}
	defer unix.Close(fd)
	all := &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ARP), Ifindex: ifi.Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	if err := unix.Sendto(fd, arpQuestion(ifi.HardwareAddr, spec.From, spec.Address), 0, all); err != nil {
		return proto.ARPAnswers{}, fail(proto.CodeFailed, spec.Dev, "send an ARP request: %v", err)
	}
	answers := proto.ARPAnswers{MACs: []string{}}
	for _, f := range spec.Fences {
		if _, err := ping(ctx, proto.PingSpec{Address: f, TimeoutMS: arpFence.Milliseconds()}); err != nil {
			answers.Silent = append(answers.Silent, f)
		}
	}
	return answers, readARP(fd, spec.Address, &answers)
}

// openARP receives the ARP packets of a device. It does not block: what has come
// is there when the fences have answered.
func openARP(index int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ARP), Ifindex: index}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func htons(v uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v)) }

func arpQuestion(own net.HardwareAddr, from, about netip.Addr) []byte {
	b := make([]byte, arpSize)
	binary.BigEndian.PutUint16(b[0:], arpHardware)
	binary.BigEndian.PutUint16(b[2:], arpProto)
	b[4], b[5] = 6, 4
	binary.BigEndian.PutUint16(b[6:], arpRequest)
	copy(b[arpSenderMAC:], own)
	copy(b[arpSIP:], from.AsSlice())
	copy(b[arpTIP:], about.AsSlice())
	return b
}

// readARP takes the answers that have come, each sender once.
func readARP(fd int, about netip.Addr, into *proto.ARPAnswers) error {
	buf := make([]byte, 128)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			slices.Sort(into.MACs)
			return nil
		case err != nil:
			return err
		default:
			if mac, ok := arpAnswer(buf[:n], about); ok && !slices.Contains(into.MACs, mac) {
				into.MACs = append(into.MACs, mac)
			}
		}
	}
}

// arpAnswer returns who says to have the address.
func arpAnswer(b []byte, about netip.Addr) (mac string, ok bool) {
	if len(b) < arpSize || b[4] != 6 || b[5] != 4 || binary.BigEndian.Uint16(b[6:]) != arpReply {
		return "", false
	}
	sender, _ := netip.AddrFromSlice(b[arpSIP : arpSIP+4])
	return net.HardwareAddr(b[arpSenderMAC : arpSenderMAC+6]).String(), sender == about
}
