package ipvs

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Flags of a service (include/uapi/linux/ip_vs.h, IP_VS_SVC_F_*).
const (
	flagPersistent = 0x01
	flagHashed     = 0x02 // the kernel's own mark; always read back, never to be compared
	flagOnePacket  = 0x04
	flagSched1     = 0x08 // sh-fallback, mh-fallback
	flagSched2     = 0x10 // sh-port, mh-port
)

// Forwarding methods (IP_VS_CONN_F_*).
var forwards = map[uint32]string{0: "masquerade", 1: "local", 2: "tunnel", 3: "direct", 4: "bypass"}

// Tunnel types (IP_VS_CONN_F_TUNNEL_TYPE_*); "" stands for ipip.
var tunnelTypes = map[uint8]string{0: "", 1: "gue", 2: "gre"}

// Checksums of tunnels (IP_VS_TUNNEL_ENCAP_FLAG_*, since Linux 5.3).
var tunnelChecksums = map[uint16]string{0: "", 1: "full", 2: "remote"}

func forwardCode(name string) (uint32, error) {
	for code, n := range forwards {
		if n == name {
			return code, nil
		}
	}
	return 0, fmt.Errorf("%w: forward %q", ErrInvalid, name)
}

func tunnelCode(name string) (uint8, error) {
	for code, n := range tunnelTypes {
		if n == name {
			return code, nil
		}
	}
	return 0, fmt.Errorf("%w: tunnel type %q", ErrInvalid, name)
}

func checksumCode(name string) (uint16, error) {
	for code, n := range tunnelChecksums {
		if n == name {
			return code, nil
		}
	}
	return 0, fmt.Errorf("%w: tunnel checksum %q", ErrInvalid, name)
}

func protocolCode(name string) (uint16, error) {
	switch name {
	case "udp":
		return unix.IPPROTO_UDP, nil
	case "tcp":
		return unix.IPPROTO_TCP, nil
	case "sctp":
		return unix.IPPROTO_SCTP, nil
	}
	return 0, fmt.Errorf("%w: protocol %q", ErrInvalid, name)
}

func protocolName(code uint16) string {
	switch code {
	case 0:
		return "" // of a fwmark service
	case unix.IPPROTO_UDP:
		return "udp"
	case unix.IPPROTO_TCP:
		return "tcp"
	case unix.IPPROTO_SCTP:
		return "sctp"
	}
	return fmt.Sprintf("ip-%d", code)
}

// family returns AF_INET or AF_INET6 of a service.
func family(k proto.IPVSKey) uint16 {
	if k.FWMark != 0 {
		if k.IPv6 {
			return unix.AF_INET6
		}
		return unix.AF_INET
	}
	return addrFamily(k.VIP)
}

func addrFamily(a netip.Addr) uint16 {
	if a.Is6() && !a.Is4In6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// flagBits returns the service's flags as the kernel has them.
func flagBits(s proto.IPVSService) (uint32, error) {
	var f uint32
	if s.OnePacket {
		f |= flagOnePacket
	}
	if s.Persistence > 0 {
		f |= flagPersistent
	}
	for _, name := range s.Flags {
		switch name {
		case "sh-fallback", "mh-fallback":
			f |= flagSched1
		case "sh-port", "mh-port":
			f |= flagSched2
		default:
			return 0, fmt.Errorf("%w: flag %q (know sh-port, sh-fallback, mh-port, mh-fallback)", ErrInvalid, name)
		}
		if other := s.Scheduler; (other == "sh" || other == "mh") && !strings.HasPrefix(name, other+"-") {
			return 0, fmt.Errorf("%w: flag %q belongs to another scheduler than %s; the kernel would read it as %s%s",
				ErrInvalid, name, other, other, name[2:])
		}
	}
	return f, nil
}

// setFlags fills the service's fields from the kernel's flags.
func setFlags(s *proto.IPVSService, f uint32) {
	s.OnePacket = f&flagOnePacket != 0
	if f&flagPersistent == 0 {
		s.Persistence, s.Netmask = 0, 0
	}
	prefix := "sh-"
	if s.Scheduler == "mh" {
		prefix = "mh-"
	}
	s.Flags = nil
	if f&flagSched1 != 0 {
		s.Flags = append(s.Flags, prefix+"fallback")
	}
	if f&flagSched2 != 0 {
		s.Flags = append(s.Flags, prefix+"port")
	}
}

// netmaskCode returns what the kernel wants: for IPv4 the mask in network byte
// order inside a native integer (moby/ipvs writes native integers: 0xffffff00
// would become 0.255.255.255 on x86, measured EXP-D4), for IPv6 the prefix length.
// 0 would mean that all clients of the world share one template, so "not
// given" becomes the full length.
func netmaskCode(af uint16, prefix int) uint32 {
	if af == unix.AF_INET6 {
		if prefix == 0 {
			prefix = 128
		}
		return uint32(prefix)
	}
	if prefix == 0 {
		prefix = 32
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], ^uint32(0)<<(32-prefix))
	return binary.NativeEndian.Uint32(b[:])
}

// netmaskPrefix undoes [netmaskCode].
func netmaskPrefix(af uint16, code uint32) int {
	if af == unix.AF_INET6 {
		return int(code)
	}
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], code)
	return bits.LeadingZeros32(^binary.BigEndian.Uint32(b[:]))
}

// addrBytes returns the address as netlink carries it: 4 or 16 bytes.
func addrBytes(a netip.Addr) []byte { return a.Unmap().AsSlice() }

// addrFrom reads an address attribute; the kernel pads IPv4 to 16 bytes.
func addrFrom(b []byte, af uint16) (netip.Addr, error) {
	n := 4
	if af == unix.AF_INET6 {
		n = 16
	}
	if len(b) < n {
		return netip.Addr{}, fmt.Errorf("address attribute of %d bytes, want %d", len(b), n)
	}
	a, _ := netip.AddrFromSlice(b[:n])
	return a, nil
}

// Name returns the key as messages show it: udp 198.18.0.101:53, fwmark 7.
func Name(k proto.IPVSKey) string {
	if k.FWMark != 0 {
		if k.IPv6 {
			return fmt.Sprintf("fwmark %d (IPv6)", k.FWMark)
		}
		return fmt.Sprintf("fwmark %d", k.FWMark)
	}
	return k.Protocol + " " + netip.AddrPortFrom(k.VIP, k.Port).String()
}

func destName(d proto.IPVSDestination) string {
	return netip.AddrPortFrom(d.Address, d.Port).String()
}

func destNames(ds []proto.IPVSDestination) string {
	names := make([]string, len(ds))
	for i, d := range ds {
		names[i] = destName(d)
	}
	return "[" + strings.Join(names, " ") + "]"
}

func sameDest(a, b proto.IPVSDestination) bool { return a.Address == b.Address && a.Port == b.Port }

// normalise brings a wished service into the form in which it is read back.
func normalise(s proto.IPVSService) proto.IPVSService {
	if s.FWMark != 0 {
		s.Protocol, s.VIP, s.Port = "", netip.Addr{}, 0
	} else {
		s.VIP, s.IPv6 = s.VIP.Unmap(), false
	}
	if s.Persistence == 0 {
		s.Netmask = 0
	} else if s.Netmask == 0 {
		s.Netmask = netmaskPrefix(family(s.IPVSKey), netmaskCode(family(s.IPVSKey), 0))
	}
	s.Flags = slices.Sorted(slices.Values(s.Flags))
	s.Destinations = slices.Clone(s.Destinations)
	for i := range s.Destinations {
		d := &s.Destinations[i]
		d.Address = d.Address.Unmap()
		if d.TunnelType == "ipip" {
			d.TunnelType = ""
		}
		d.Active, d.Inactive, d.Persistent, d.Stats = 0, 0, 0, proto.IPVSCounters{}
	}
	return s
}
