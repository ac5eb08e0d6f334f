package ipvsmodel

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Protocol is the number of a transport protocol.
type Protocol uint8

// The protocols that the model knows.
const (
	TCP Protocol = 6
	UDP Protocol = 17
)

func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case 0: // of the template of a mark
		return "ip"
	}
	return "udp"
}

// Forward is how packets reach a destination. The model needs it because the
// director sees the answers of a masqueraded connection, and TCP's states are
// then walked by another table (ip_vs_proto_tcp.c).
type Forward uint8

// The forwarding methods.
const (
	Tunnel Forward = iota
	Direct
	Masquerade
)

// Kernel says which of the changing rules a kernel has.
type Kernel struct {
	// Before2026 is a kernel without the change "add totalconns" (Debian:
	// before 6.1.187-1 and 6.12.105-1). There the overhead that lc, wlc, lblc,
	// lblcr and twos compare is 256·active + inactive, now it is 256·active +
	// active + inactive; and thresholds were checked in another place.
	Before2026 bool
}

// Kernels are all that the rules of a kernel can be.
func Kernels() []Kernel { return []Kernel{{}, {Before2026: true}} }

// fixed is, by series, the first release of Debian's kernels with that change.
var fixed = map[string]int{"6.1": 187, "6.12": 105}

// KernelOf says which rules a kernel of Debian has, by the version of its package,
// 6.1.192-3. A version of another series says nothing: it gets the newest rules.
func KernelOf(version string) Kernel {
	upstream, _, _ := strings.Cut(version, "-")
	parts := strings.Split(upstream, ".")
	if len(parts) != 3 {
		return Kernel{}
	}
	first, known := fixed[parts[0]+"."+parts[1]]
	patch, err := strconv.Atoi(parts[2])
	return Kernel{Before2026: known && err == nil && patch < first}
}

// Key names a service: by protocol and address, or by the mark of a packet
// when Mark is not 0.
type Key struct {
	Protocol Protocol
	VIP      netip.AddrPort // IPv4
	Mark     uint32
}

// Service is what can be set of a service.
type Service struct {
	Scheduler string // one of [Schedulers]
	OnePacket bool   // UDP only: no entry outlives its packet
	// SHPort, SHFallback, MHPort and MHFallback are the schedulers' flags.
	SHPort, SHFallback, MHPort, MHFallback bool
	// Persistence is how long a client's template lives unused, 0 = none.
	Persistence time.Duration
	// Netmask groups clients for persistence, the zero value = each alone.
	Netmask netip.Addr
}

// Destination is a real server of a service.
type Destination struct {
	Address netip.AddrPort // IPv4
	Weight  int            // 0 = quiesced: no new connection
	// Upper and Lower are thresholds in entries, 0 = none. Without Lower the
	// kernel takes three quarters of Upper.
	Upper, Lower int
	Forward      Forward
}

// Timeouts are of the whole network namespace; 0 leaves one as it is.
type Timeouts struct{ TCP, TCPFin, UDP time.Duration }

// Flags are the flags of a TCP header that move the state of an entry.
type Flags uint8

// The flags.
const (
	SYN Flags = 1 << iota
	FIN
	RST
	ACK
)

// Packet is one packet of a client, or with Reply of a real server, which the
// director sees under [Masquerade] only. A reply carries the addresses of the
// packet it answers: Client is always the client.
type Packet struct {
	Client, VIP netip.AddrPort // IPv4
	Protocol    Protocol
	Mark        uint32
	Flags       Flags
	Reply       bool
}

// Why says what decided about a packet.
type Why uint8

// The reasons.
const (
	// ByEntry: an entry of an earlier packet holds the flow.
	ByEntry Why = iota
	// ByScheduler: the scheduler was asked and chose.
	ByScheduler
	// ByTemplate: a new entry, its destination that of the client's template.
	ByTemplate
	// NoDestination: the scheduler has nobody; the client gets an ICMP port
	// unreachable (ip_vs_core.c, ip_vs_leave).
	NoDestination
	// NoService: nothing of IPVS matches; the packet goes to the director itself.
	NoService
	// NotAStart: a TCP segment that is no SYN belongs to no entry; it goes to
	// the director itself, which resets the connection.
	NotAStart
	// Gone: the destination of the flow's entry was removed; dropped in silence.
	Gone
)

var whys = [...]string{"entry", "scheduler", "template", "no destination", "no service", "not a start", "gone"}

func (w Why) String() string { return whys[w] }

// Decision is what becomes of a packet. Backend names the destination as it was
// added, valid for [ByEntry], [ByScheduler] and [ByTemplate] only; the port that
// the packet has there is in its [Entry].
type Decision struct {
	Backend netip.AddrPort
	Why     Why
}

// The errors of control operations, as the kernel has them.
var (
	ErrExists  = errors.New("exists already")            // EEXIST
	ErrMissing = errors.New("does not exist")            // ESRCH, ENOENT
	ErrRange   = errors.New("is out of range")           // ERANGE
	ErrUnknown = errors.New("is not known to the model") // a scheduler, a sysctl, IPv6
)
