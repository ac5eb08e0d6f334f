package ipvsmodel

import (
	"net/netip"
	"time"
)

// Target is what a [Script] can be carried out on: the [Model], or a kernel.
type Target interface {
	AddService(Key, Service) error
	EditService(Key, Service) error
	DeleteService(Key) error
	Clear()
	AddDestination(Key, Destination) error
	EditDestination(Key, Destination) error
	DeleteDestination(Key, netip.AddrPort) error
	SetTimeouts(Timeouts)
	SetSysctl(name string, value int) error
	// Advance lets the time since the script's begin come.
	Advance(at time.Duration)
	Packet(at time.Duration, p *Packet) Decision
	Entries() []Entry
	Counts(Key) ([]Count, error)
}
