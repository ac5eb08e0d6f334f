package proto

import "net/netip"

// Calls about IPVS on a director. All of them are carried out through package
// internal/ipvs, which reads back every write.
var (
	IPVSPreflight = Call[IPVSNeeds, IPVSInfo]{"ipvs.preflight"}
	IPVSApply     = Call[IPVSService, IPVSService]{"ipvs.apply"} // converges one service; list order rebuilt when it differs
	IPVSRead      = Call[None, []IPVSService]{"ipvs.read"}       // destinations in the kernel's list order
	IPVSDelete    = Call[IPVSKey, None]{"ipvs.delete"}
	IPVSFresh     = Call[IPVSFreshSpec, IPVSFreshState]{"ipvs.fresh"} // steps 2 to 6 of the run contract
	IPVSSettled   = Call[IPVSSettleSpec, IPVSStats]{"ipvs.settled"}
	IPVSConns     = Call[None, []IPVSConn]{"ipvs.conns"}
)

// IPVSNeeds names what a study will use; missing modules are an Error with
// CodeUnsupported and the module as subject.
type IPVSNeeds struct {
	Schedulers []string `json:"schedulers"`
	Tunnels    []string `json:"tunnels,omitempty"` // gue, gre
}

// IPVSInfo is the running IPVS.
type IPVSInfo struct {
	Version     string   `json:"version"`       // 1.2.1
	ConnTabSize int      `json:"conn_tab_size"` // rows
	Schedulers  []string `json:"schedulers"`    // usable ones of those asked for
}

// IPVSKey identifies a service: protocol, VIP and port, or FWMark.
type IPVSKey struct {
	Protocol string     `json:"protocol,omitempty"` // udp, tcp
	VIP      netip.Addr `json:"vip,omitzero"`
	Port     uint16     `json:"port,omitempty"`
	FWMark   uint32     `json:"fwmark,omitempty"`
	IPv6     bool       `json:"ipv6,omitempty"` // of a FWMark service
}

// IPVSService is a service with its destinations in list order, first = head.
type IPVSService struct {
	IPVSKey
	Scheduler    string            `json:"scheduler"`
	OnePacket    bool              `json:"one_packet,omitempty"`
	Flags        []string          `json:"flags,omitempty"` // sh-port, sh-fallback, mh-port, mh-fallback; sorted
	Persistence  int               `json:"persistence_s,omitempty"`
	Netmask      int               `json:"netmask,omitempty"` // prefix length, of persistence
	Timeouts     IPVSTimeouts      `json:"timeouts,omitzero"` // of the network namespace
	Destinations []IPVSDestination `json:"destinations"`
	// Stats are the service's own counters. Read-only.
	Stats IPVSCounters `json:"stats,omitzero"`
}

// IPVSTimeouts are whole seconds; in a request 0 leaves a value unchanged.
type IPVSTimeouts struct {
	TCP    int `json:"tcp,omitempty"`
	TCPFin int `json:"tcp_fin,omitempty"`
	UDP    int `json:"udp,omitempty"`
}

// IPVSDestination is one real server.
type IPVSDestination struct {
	Address    netip.Addr `json:"address"`
	Port       uint16     `json:"port"`
	Forward    string     `json:"forward"` // tunnel, direct, masquerade
	Weight     int        `json:"weight"`
	Upper      int        `json:"upper,omitempty"`
	Lower      int        `json:"lower,omitempty"`
	TunnelType string     `json:"tunnel_type,omitempty"` // ipip, gre, gue; "" = ipip
	TunnelPort uint16     `json:"tunnel_port,omitempty"`
	// TunnelChecksum is full, remote (gue) or empty, which is none.
	TunnelChecksum string `json:"tunnel_checksum,omitempty"`
	// Read-only.
	Active     int          `json:"active,omitempty"`
	Inactive   int          `json:"inactive,omitempty"`
	Persistent int          `json:"persistent,omitempty"`
	Stats      IPVSCounters `json:"stats,omitzero"`
}

// IPVSCounters are IPVS's own counters, 64 bit. InBytes are bytes of the inner
// IP packet. They lag up to 2 s behind (the estimator), see IPVSSettled.
type IPVSCounters struct {
	Conns      uint64 `json:"conns"`
	InPackets  uint64 `json:"in_packets"`
	InBytes    uint64 `json:"in_bytes"`
	OutPackets uint64 `json:"out_packets"`
	OutBytes   uint64 `json:"out_bytes"`
}

// IPVSFreshSpec asks for a clean table and a clean scheduler: the services of
// the director that the study owns are deleted with expire_nodest_conn=1, the
// table is awaited empty, the sysctls given are set, the services are created
// with their destinations added in reverse order and read back.
type IPVSFreshSpec struct {
	Services []IPVSService     `json:"services"`
	Sysctl   map[string]string `json:"sysctl"`
	// EmptyWithinMS bounds the wait for the empty table.
	EmptyWithinMS int64 `json:"empty_within_ms"`
}

// IPVSFreshState is the proof: what was read back, and the baseline.
type IPVSFreshState struct {
	Services  []IPVSService     `json:"services"`
	Sysctl    map[string]string `json:"sysctl"`     // the whole net/ipv4/vs tree
	RowsFound int               `json:"rows_found"` // table rows before the deletion
	WaitedMS  int64             `json:"waited_ms"`
	Baseline  IPVSTotals        `json:"baseline"`
}

// IPVSTotals are the live totals of /proc/net/ip_vs_stats_percpu, summed over
// the CPUs. They survive the deletion of a service: compare increases.
type IPVSTotals struct {
	Conns     uint64 `json:"conns"`
	InPackets uint64 `json:"in_packets"`
	InBytes   uint64 `json:"in_bytes"`
}

// IPVSSettleSpec waits until the sums over the services and over their
// destinations equal the totals' increase since Baseline (1.23 s on average)
// and no packet came while they were read. WithinMS 0 means 5 s.
type IPVSSettleSpec struct {
	Baseline IPVSTotals `json:"baseline"`
	WithinMS int64      `json:"within_ms"`
}

// IPVSStats is a settled reading. Settled is false when the time was up.
type IPVSStats struct {
	Services []IPVSService `json:"services"`
	Totals   IPVSTotals    `json:"totals"` // increase since the baseline
	Settled  bool          `json:"settled"`
	WaitedMS int64         `json:"waited_ms"`
	Conns    []IPVSConn    `json:"conns"` // the connection table, templates included
}

// IPVSConn is one row of /proc/net/ip_vs_conn.
type IPVSConn struct {
	Protocol string         `json:"protocol"`
	Client   netip.AddrPort `json:"client"` // port 0 = persistence template
	Virtual  netip.AddrPort `json:"virtual"`
	Dest     netip.AddrPort `json:"dest"`
	State    string         `json:"state"`
	Expires  int            `json:"expires"` // seconds left
}
