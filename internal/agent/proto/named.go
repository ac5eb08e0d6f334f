package proto

import "net/netip"

// Calls about the guest's name server and about asking it. They are called after
// BIND's, which is the default; the others do the same.
var (
	NamedApply = Call[NamedSpec, NamedState]{"named.apply"} // writes, checks, starts or reloads, waits until it answers
	NamedRead  = Call[None, NamedState]{"named.read"}
	NamedStop  = Call[None, None]{"named.stop"}
	NamedStats = Call[None, NamedCounters]{"named.stats"}
	Query      = Call[QuerySpec, QueryAnswer]{"query"}
)

// The name servers that a guest may have.
const (
	ServerBIND    = ""
	ServerNSD     = "nsd"
	ServerKnot    = "knot"
	ServerUnbound = "unbound"
)

// ServerProgram is the program of a name server.
func ServerProgram(server string) string {
	switch server {
	case ServerBIND:
		return "named"
	case ServerKnot:
		return "knotd"
	}
	return server
}

// NamedSpec is an authoritative name server: no recursion, no validation, no rate
// limits, the zones given, its own identity in id.server, hostname.bind and NSID.
type NamedSpec struct {
	// Server is one of the Server constants.
	Server   string     `json:"server,omitempty"`
	ServerID string     `json:"server_id"` // backend.ns[0]
	Zones    []ZoneFile `json:"zones"`
	// Listen are the addresses that must answer before apply returns.
	Listen []netip.Addr `json:"listen"`
}

// ZoneFile is one zone as the text of its master file.
type ZoneFile struct {
	Name string `json:"name"` // without final dot
	Text string `json:"text"`
}

// NamedState is a name server as it runs, with the files that it has. Hashes are
// SHA-256 of the zone texts on disk, hex; of a zone that is served with another
// serial than apply has loaded it is no text's hash. A zone that is not served is
// missing.
type NamedState struct {
	Server   string            `json:"server,omitempty"`
	Running  bool              `json:"running"`
	PID      int               `json:"pid,omitempty"`
	Version  string            `json:"version,omitempty"` // 9.18.49
	ServerID string            `json:"server_id,omitempty"`
	Zones    map[string]string `json:"zones,omitempty"`   // name → hash
	Serials  map[string]uint32 `json:"serials,omitempty"` // as answered
	Listen   []netip.Addr      `json:"listen,omitempty"`  // addresses with an open socket on port 53
	// Rewritten says that its configuration is not as apply has written it.
	Rewritten bool `json:"rewritten,omitempty"`
}

// NamedCounters come from the name server's own statistics; they are right at
// once. Behind each stands what it is of BIND's, then of nsd's, knotd's and
// unbound's.
type NamedCounters struct {
	Requests     uint64            `json:"requests"`          // Requestv4 + Requestv6; num.queries; request-protocol; total.num.queries
	RequestsTCP  uint64            `json:"requests_tcp"`      // ReqTCP; num.tcp + num.tcp6; request-protocol[tcp…]; num.query.tcp
	Responses    uint64            `json:"responses"`         // Response; the sum of the rcodes with the three others
	Truncated    uint64            `json:"truncated"`         // TruncatedResp; num.truncated; flag-presence[TC]; unbound does not count them
	Queries      uint64            `json:"queries"`           // opcode QUERY
	UDPRcvErrors uint64            `json:"udp_rcvbuf_errors"` // of the guest: Udp RcvbufErrors
	Rcodes       map[string]uint64 `json:"rcodes"`
	// Started is the name server's own start (boot-time of named's statistics):
	// another one means that its counters began anew.
	Started string `json:"started,omitempty"`
}

// QuerySpec is one DNS query from inside the guest.
type QuerySpec struct {
	Server    netip.Addr `json:"server"`
	Port      uint16     `json:"port"` // 0 = 53
	From      netip.Addr `json:"from,omitzero"`
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Class     string     `json:"class,omitempty"` // IN or CH
	TCP       bool       `json:"tcp,omitempty"`
	NSID      bool       `json:"nsid,omitempty"`
	TimeoutMS int64      `json:"timeout_ms"`
}

// QueryAnswer is what came back. Refused says that an ICMP error did.
type QueryAnswer struct {
	Rcode     string     `json:"rcode"`
	Answers   []string   `json:"answers"` // rdata in presentation form
	NSID      string     `json:"nsid,omitempty"`
	Source    netip.Addr `json:"source"`
	LocalPort uint16     `json:"local_port"`
	RTTUS     int64      `json:"rtt_us"`
	Refused   bool       `json:"refused,omitempty"`
}
