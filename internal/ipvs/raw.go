package ipvs

import "github.com/lvslab/lvslab/internal/agent/proto"

// Raw is IPVS of the calling thread's network namespace without any policy:
// each method is one request, nothing is read back. It is for replaying events
// as they are; everything else goes through [Handle]. The caller stays on its
// thread.
type Raw struct{ k *linuxKernel }

// OpenRaw opens it; the modules are loaded already ([Preflight]).
func OpenRaw() (*Raw, error) {
	k, err := openLinux(nil)
	if err != nil {
		return nil, err
	}
	return &Raw{k}, nil
}

// Close gives the socket back.
func (r *Raw) Close() { r.k.close() }

// AddService makes a service; destinations in s are ignored.
func (r *Raw) AddService(s proto.IPVSService) error { return r.k.newService(s) }

// EditService replaces all settings of a service.
func (r *Raw) EditService(s proto.IPVSService) error { return r.k.setService(s) }

// DeleteService removes a service, or fails with [ErrNotFound].
func (r *Raw) DeleteService(k proto.IPVSKey) error { return r.k.delService(k) }

// Flush removes all services.
func (r *Raw) Flush() error { return r.k.flush() }

// AddDestination puts a destination at the list's head.
func (r *Raw) AddDestination(k proto.IPVSKey, d proto.IPVSDestination) error {
	return r.k.newDestination(k, d)
}

// EditDestination replaces all settings of a destination.
func (r *Raw) EditDestination(k proto.IPVSKey, d proto.IPVSDestination) error {
	return r.k.setDestination(k, d)
}

// DeleteDestination removes a destination.
func (r *Raw) DeleteDestination(k proto.IPVSKey, d proto.IPVSDestination) error {
	return r.k.delDestination(k, d)
}

// Destinations returns a service's, head first, with the live entry counts.
func (r *Raw) Destinations(k proto.IPVSKey) ([]proto.IPVSDestination, error) {
	return r.k.destinations(k)
}

// SetTimeouts sets those that are not 0.
func (r *Raw) SetTimeouts(t proto.IPVSTimeouts) error { return r.k.setTimeouts(t) }

// SetSysctl sets net.ipv4.vs.NAME.
func (r *Raw) SetSysctl(name, value string) error { return r.k.setSysctl(name, value) }

// Conns returns the connection table.
func (r *Raw) Conns() ([]proto.IPVSConn, error) { return r.k.conns() }
