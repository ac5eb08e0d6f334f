package proto

import (
	"net/netip"
	"time"
)

// Calls about seeing on every card where packets pass.
var (
	SightingsStart = Call[SightingsSpec, None]{"sightings.start"}
	SightingsStop  = Call[SightingsRef, SightingsResult]{"sightings.stop"}
)

// SightingsSpec watches all Ethernet cards of a machine; the watch has begun when the
// call returns. One of the same name that goes on is given up.
type SightingsSpec struct {
	ID string `json:"id"`
	// Addresses: frames are kept when one of them stands anywhere in their beginning,
	// so under whatever headers.
	Addresses []netip.Addr `json:"addresses"`
	// Most is how many frames are kept; those beyond count as dropped.
	Most int `json:"most"`
}

// SightingsRef names a watch.
type SightingsRef struct {
	ID string `json:"id"`
}

// SightingSnap is how much of a frame is kept, bytes: room for four IP headers and
// what is between them.
const SightingSnap = 256

// Sighting is one frame on one card.
type Sighting struct {
	Device string    `json:"device"`
	Out    bool      `json:"out,omitempty"` // the machine sent it
	Time   time.Time `json:"time"`          // the kernel's stamp, CLOCK_REALTIME
	Length int       `json:"length"`        // of the frame, bytes
	Frame  []byte    `json:"frame"`         // its first [SightingSnap] bytes
}

// SightingsResult is what was seen, in the order in which it was.
type SightingsResult struct {
	Frames  []Sighting `json:"frames"`
	Dropped uint64     `json:"dropped"` // that the kernel had no room for, or beyond Most
}
