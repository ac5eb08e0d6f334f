package proto

import (
	"net/netip"
	"time"
)

// Calls about several clients that start together.
var (
	ClockRead     = Call[None, ClockNow]{"clock.read"}
	ArrivalsStart = Call[ArrivalsSpec, None]{"arrivals.start"}
	ArrivalsStop  = Call[ArrivalsRef, ArrivalsResult]{"arrivals.stop"}
)

// ClockNow is where the guest's clock stands. Whoever asks knows when it asked and
// when it had the answer by its own clock, and so the difference between the two, to
// half of the round trip (RFC 5905, 8).
type ClockNow struct {
	UnixNS int64 `json:"unix_ns"` // CLOCK_REALTIME
}

// ArrivalsSpec watches for the first packet of each source; the watch has begun when
// the call returns. It ends by itself once all sources were seen.
type ArrivalsSpec struct {
	ID       string       `json:"id"`
	Protocol string       `json:"protocol"` // udp or tcp
	Port     uint16       `json:"port"`     // destination port of the packets
	Sources  []netip.Addr `json:"sources"`
}

// ArrivalsRef names a watch.
type ArrivalsRef struct {
	ID string `json:"id"`
}

// Arrival is the first packet of a source.
type Arrival struct {
	Source netip.Addr `json:"source"`
	Time   time.Time  `json:"time"` // the kernel's stamp of the packet, CLOCK_REALTIME
}

// ArrivalsResult are the first packets, one for each source that was seen, in the order
// of their arrival. With packets dropped a first packet may be among them: times are
// then upper bounds.
type ArrivalsResult struct {
	First   []Arrival `json:"first"`
	Dropped uint64    `json:"dropped"` // packets that the kernel had no room for
}
