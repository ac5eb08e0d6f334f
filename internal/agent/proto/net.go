package proto

import (
	"net/netip"
	"slices"
)

// Calls about the guest's network. Each write is read back before it returns.
var (
	LinkApply    = Call[LinkSpec, LinkState]{"link.apply"}
	LinkRead     = Call[LinkRef, LinkState]{"link.read"}
	LinkDelete   = Call[LinkRef, None]{"link.delete"} // takes addresses away and sets a NIC down
	TunnelApply  = Call[TunnelSpec, TunnelState]{"tunnel.apply"}
	TunnelRead   = Call[LinkRef, TunnelState]{"tunnel.read"}
	TunnelDelete = Call[LinkRef, None]{"tunnel.delete"}
	RouteApply   = Call[RouteSpec, RouteSpec]{"route.apply"}
	RouteRead    = Call[RouteSpec, RouteSpec]{"route.read"}
	RouteDelete  = Call[RouteSpec, None]{"route.delete"}
	SysctlApply  = Call[map[string]string, map[string]string]{"sysctl.apply"}
	SysctlRead   = Call[[]string, map[string]string]{"sysctl.read"} // a missing one is left out
	NetemApply   = Call[NetemSpec, NetemSpec]{"netem.apply"}
	NetemRead    = Call[LinkRef, NetemSpec]{"netem.read"}
	NeighRead    = Call[NeighRef, Neigh]{"neigh.read"}
	ARPAsk       = Call[ARPAskSpec, ARPAnswers]{"arp.ask"} // who says to have an address
	Ping         = Call[PingSpec, PingResult]{"ping"}      // ICMP echo: primes ARP without touching a service
)

// LinkRef names a device by name or, when Name is empty, by MAC.
type LinkRef struct {
	Name string `json:"name,omitempty"`
	MAC  string `json:"mac,omitempty"`
}

// LinkSpec is a NIC: found by MAC (waiting up to 5 s, hot-plugged NICs appear
// late), renamed, given exactly these addresses and no other, set up.
type LinkSpec struct {
	MAC       string         `json:"mac"`
	Name      string         `json:"name"`
	MTU       int            `json:"mtu"`
	Addresses []netip.Prefix `json:"addresses"` // order kept: the first is primary
}

// LinkState is a device as it is. Counters are the kernel's 64-bit ones.
type LinkState struct {
	Name      string         `json:"name"`
	MAC       string         `json:"mac,omitempty"`
	MTU       int            `json:"mtu"`
	Up        bool           `json:"up"`
	Addresses []netip.Prefix `json:"addresses"`
	Counters  LinkCounters   `json:"counters"`
}

// LinkCounters are a device's counters since it was made.
type LinkCounters struct {
	// Index is the device's, 0 = not said: another one is another device of the
	// same name.
	Index     int    `json:"index,omitempty"`
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
	RxDropped uint64 `json:"rx_dropped"`
	TxDropped uint64 `json:"tx_dropped"`
	RxErrors  uint64 `json:"rx_errors"`
}

// TunnelSpec is a tunnel device with both ends named, never the fallback
// device: with tunl0 down a wrong end fails loudly (measured, EXP-D7). The
// agent loads the module, keeps the fallback device down, and sets
// net.ipv4.conf.<name>.rp_filter=0 on the device that it made.
type TunnelSpec struct {
	Name   string     `json:"name"`
	Type   string     `json:"type"` // ipip, gre, gue
	Local  netip.Addr `json:"local"`
	Remote netip.Addr `json:"remote"`
	Port   uint16     `json:"port,omitempty"` // gue
	// Checksum is full, remote (gue) or empty, which is none: what packets that come
	// in carry. GRE drops those that have one where none is expected, and the
	// other way round (net/ipv4/ip_tunnel.c, ip_tunnel_rcv).
	Checksum  string         `json:"checksum,omitempty"`
	Addresses []netip.Prefix `json:"addresses"` // the VIPs, /32
}

// TunnelState is a tunnel device as it is.
type TunnelState struct {
	TunnelSpec
	MTU        int          `json:"mtu"`
	Up         bool         `json:"up"`
	FallbackUp bool         `json:"fallback_up"` // tunl0 is up: mis-wiring would be hidden
	Counters   LinkCounters `json:"counters"`
}

// RouteSpec is a route of the main table. Via is invalid for a device route.
type RouteSpec struct {
	To  netip.Prefix `json:"to"`
	Via netip.Addr   `json:"via,omitzero"`
	Dev string       `json:"dev,omitempty"`
}

// NetemSpec is the impairment of a device's egress; the zero values mean none.
type NetemSpec struct {
	Dev         string  `json:"dev"`
	DelayUS     int64   `json:"delay_us,omitempty"`
	JitterUS    int64   `json:"jitter_us,omitempty"`
	LossPct     float64 `json:"loss_pct,omitempty"`
	DuplicatPct float64 `json:"duplicate_pct,omitempty"`
	ReorderPct  float64 `json:"reorder_pct,omitempty"`
	RateBits    int64   `json:"rate_bits,omitempty"`
	Limit       int     `json:"limit,omitempty"`
}

// NeighRef asks for the neighbour entry of an address.
type NeighRef struct {
	Address netip.Addr `json:"address"`
	Dev     string     `json:"dev,omitempty"`
}

// Neigh is a neighbour entry; MAC is lower case with colons.
type Neigh struct {
	Address netip.Addr `json:"address"`
	MAC     string     `json:"mac"`
	State   string     `json:"state"` // reachable, stale, …
}

// ARPAskSpec is a question to everybody on a device's network: who has the
// address? Fences are addresses of machines that are waited for: each is sent an
// echo after the question, so that its own answer to the question has come when the
// echo's has.
type ARPAskSpec struct {
	Dev     string       `json:"dev"`
	From    netip.Addr   `json:"from"` // of the device: whom to answer
	Address netip.Addr   `json:"address"`
	Fences  []netip.Addr `json:"fences"`
}

// ARPAnswers are the machines that say to have the address, sorted. Silent are the
// fences that did not answer within a second: of them nothing is known.
type ARPAnswers struct {
	MACs   []string     `json:"macs"`
	Silent []netip.Addr `json:"silent,omitempty"`
}

// PingSpec asks for ICMP echoes until one is answered or time is up.
// With a Count it is a series: so many echoes, one a millisecond, and how many of
// them were answered.
type PingSpec struct {
	Count     int        `json:"count,omitempty"`
	Address   netip.Addr `json:"address"`
	From      netip.Addr `json:"from,omitzero"`
	TimeoutMS int64      `json:"timeout_ms"`
}

// PingResult says how many echoes it took and the last round trip.
// Of a series it is how many were answered, and the shortest one.
type PingResult struct {
	Sent     int   `json:"sent"`
	Received int   `json:"received,omitempty"` // of a series
	RTTUS    int64 `json:"rtt_us"`
}

// KernelOrder returns addresses in the order in which the kernel lists them
// when they are added as declared: IPv4 first, of these the first of each
// subnet (the primary ones) before the others (net/ipv4/devinet.c,
// __inet_insert_ifa), then IPv6, whose order has no meaning, sorted. Two lists
// mean the same when their KernelOrder is the same.
func KernelOrder(declared []netip.Prefix) []netip.Prefix {
	var primary, secondary, six []netip.Prefix
	subnets := map[netip.Prefix]bool{}
	for _, p := range declared {
		switch subnet := p.Masked(); {
		case p.Addr().Is6():
			six = append(six, p)
		case subnets[subnet]:
			secondary = append(secondary, p)
		default:
			subnets[subnet] = true
			primary = append(primary, p)
		}
	}
	slices.SortFunc(six, netip.Prefix.Compare)
	return slices.Concat(primary, secondary, six)
}
