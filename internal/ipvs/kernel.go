package ipvs

import (
	"context"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// kernel is the running IPVS in the terms of package proto, without any policy:
// each method is one request. The real one is [linuxKernel]; tests use a model
// that adds at the head of the list, keeps removed destinations in a trash and
// lets its counters lag, as the real one does.
type kernel interface {
	services() ([]proto.IPVSService, error) // without destinations
	destinations(proto.IPVSKey) ([]proto.IPVSDestination, error)
	newService(proto.IPVSService) error
	setService(proto.IPVSService) error // replaces all settings
	delService(proto.IPVSKey) error
	flush() error
	newDestination(proto.IPVSKey, proto.IPVSDestination) error
	setDestination(proto.IPVSKey, proto.IPVSDestination) error
	delDestination(proto.IPVSKey, proto.IPVSDestination) error
	timeouts() (proto.IPVSTimeouts, error)
	setTimeouts(proto.IPVSTimeouts) error // 0 = unchanged
	conns() ([]proto.IPVSConn, error)
	totals() (proto.IPVSTotals, error)
	sysctls() (map[string]string, error) // net.ipv4.vs.name → value
	setSysctl(name, value string) error
	loadScheduler(ctx context.Context, name string) error
	close()
}
