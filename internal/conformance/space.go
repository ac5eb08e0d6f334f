package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// patience is how long a packet that has not left yet may take, before it counts
// as kept back. One that leaves does so within the system call that sent it, on
// a machine with one CPU, unless its softirq was put off to a thread.
const patience = 4 * time.Millisecond

// space is a network namespace of the calling thread with the two veth pairs.
type space struct {
	in, out  int // packet sockets: frames of clients, what IPVS sends
	from, to [6]byte
	exit     netlink.Link
	mark     uint32
	local    map[netip.Addr]bool
	backends map[netip.Addr]bool
}

// newSpace moves the thread into a new namespace; the thread is of no other use
// after that and has to end with its goroutine.
func newSpace() (*space, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	for name, value := range map[string]string{
		"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
		"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1",
	} {
		err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	s := &space{in: -1, out: -1, local: map[netip.Addr]bool{}, backends: map[netip.Addr]bool{}}
	return s, errors.Join(s.links(), s.sockets())
}

func (s *space) links() error {
	for _, pair := range [][2]string{{"client", "entry"}, {"exit", "wire"}} {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: pair[0]}, PeerName: pair[1]}); err != nil {
			return fmt.Errorf("adding %s: %w", pair[0], err)
		}
	}
	for _, name := range []string{"lo", "client", "entry", "exit", "wire"} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			return fmt.Errorf("setting %s up: %w", name, err)
		}
		switch name {
		case "client":
			copy(s.from[:], l.Attrs().HardwareAddr)
		case "entry":
			copy(s.to[:], l.Attrs().HardwareAddr)
		case "exit":
			s.exit = l
		}
	}
	// The outer source of tunnels, and the way to everybody.
	if err := netlink.AddrAdd(s.exit, &netlink.Addr{IPNet: host(netip.MustParseAddr("198.18.255.1"))}); err != nil {
		return err
	}
	all := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: s.exit.Attrs().Index, Dst: all, Scope: netlink.SCOPE_LINK})
}

func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(32, 32)}
}

func (s *space) sockets() (err error) {
	if s.in, err = packetSocket("client", 0); err != nil {
		return err
	}
	s.out, err = packetSocket("wire", unix.ETH_P_IP)
	return err
}

func packetSocket(link string, protocol uint16) (int, error) {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return -1, err
	}
	proto := protocol<<8 | protocol>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(proto))
	if err != nil {
		return -1, err
	}
	return fd, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: proto, Ifindex: l.Attrs().Index})
}

func (s *space) close() {
	_ = unix.Close(s.in)
	_ = unix.Close(s.out)
}

// know makes a destination's Ethernet address its own.
func (s *space) know(a netip.Addr) error {
	if s.backends[a] {
		return nil
	}
	s.backends[a] = true
	mac := hardware(a)
	return netlink.NeighSet(&netlink.Neigh{LinkIndex: s.exit.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac[:]})
}

func hardware(a netip.Addr) [6]byte {
	b := a.As4()
	return [6]byte{2, 0, b[0], b[1], b[2], b[3]}
}

// own makes the director the owner of a VIP.
func (s *space) own(a netip.Addr) error {
	if s.local[a] {
		return nil
	}
	s.local[a] = true
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.AddrAdd(lo, &netlink.Addr{IPNet: host(a)})
}

// pass sends a packet in and returns where it leaves for, if it does.
func (s *space) pass(p *ipvsmodel.Packet) (to netip.Addr, left bool, err error) {
	if err := s.own(p.VIP.Addr()); err != nil {
		return to, false, err
	}
	if p.Mark != s.mark {
		// A veth keeps a packet's mark when both ends are in one namespace.
		if err := unix.SetsockoptInt(s.in, unix.SOL_SOCKET, unix.SO_MARK, int(p.Mark)); err != nil {
			return to, false, err
		}
		s.mark = p.Mark
	}
	if _, err := unix.Write(s.in, frame(s.to, s.from, p)); err != nil {
		return to, false, fmt.Errorf("sending a frame: %w", err)
	}
	return s.look(time.Now().Add(patience))
}

func (s *space) look(until time.Time) (netip.Addr, bool, error) {
	var buf [2048]byte
	for {
		n, err := unix.Read(s.out, buf[:])
		switch {
		case err == nil && n >= 14 && bytes.Equal(buf[:2], []byte{2, 0}):
			if a := netip.AddrFrom4([4]byte(buf[2:6])); s.backends[a] {
				return a, true, nil
			}
		case errors.Is(err, unix.EAGAIN):
			left := time.Until(until)
			if left <= 0 {
				return netip.Addr{}, false, nil
			}
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(s.out), Events: unix.POLLIN}}, int(left/time.Millisecond)+1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return netip.Addr{}, false, err
			}
		case err != nil && !errors.Is(err, unix.EINTR):
			return netip.Addr{}, false, err
		}
	}
}
