package proto

import "net/netip"

// Calls about the marks that a director puts on packets before IPVS looks for
// their service. Each write is read back before it returns.
var (
	MarkApply  = Call[MarkSpec, MarkSpec]{"mark.apply"}
	MarkRead   = Call[MarkRef, MarkSpec]{"mark.read"}
	MarkDelete = Call[MarkRef, None]{"mark.delete"} // one that is not there is no error
)

// MarkRef names a mark; IPv4 and IPv6 have each their own.
type MarkRef struct {
	Mark uint32 `json:"mark"` // not 0
	IPv6 bool   `json:"ipv6,omitempty"`
}

// MarkSpec is what gets a mark: exactly the packets to these targets.
type MarkSpec struct {
	MarkRef
	Targets []MarkTarget `json:"targets"`
}

// MarkTarget is where marked packets are sent to.
type MarkTarget struct {
	Protocol string         `json:"protocol"` // udp or tcp; "" for a rule that is not lvslab's
	At       netip.AddrPort `json:"at"`
	// Packets is how many were marked since the rule was made. Read-only.
	Packets uint64 `json:"packets,omitempty"`
}
