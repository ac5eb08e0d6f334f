package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// networkXML defines an isolated segment without addresses, DHCP and DNS, of the
// lab in that directory.
// Where the bridge has been made already (ready), the network only names it.
func networkXML(n schema.Network, dir string, ready bool) (string, error) {
	def := libvirtxml.Network{
		Name: n.Name, UUID: n.UUID,
		Metadata: &libvirtxml.NetworkMetadata{XML: mark{Lineage: n.Lineage, Address: n.Address}.encode()},
		Bridge:   &libvirtxml.NetworkBridge{Name: n.Bridge},
	}
	if ready {
		def.Forward = &libvirtxml.NetworkForward{Mode: "bridge"}
		return def.Marshal()
	}
	if dir != "" {
		def.PortGroups = append(def.PortGroups, groupMark{n.Lineage, n.Address, dir}.group())
	}
	// No spanning tree: a port would drop everything for its first 30 s.
	def.Bridge.STP, def.Bridge.Delay = "off", "0"
	if n.MTU != 0 {
		def.MTU = &libvirtxml.NetworkMTU{Size: uint(n.MTU)}
	}
	return def.Marshal()
}

// networkFromXML reads the attributes that libvirt keeps; want has the rest.
func networkFromXML(text string, want schema.Network) (schema.Network, error) {
	var def libvirtxml.Network
	if err := def.Unmarshal(text); err != nil {
		return schema.Network{}, fmt.Errorf("libvirt's definition of network %s: %w", want.Name, err)
	}
	have := schema.Network{Name: def.Name, UUID: def.UUID, Address: want.Address, Lineage: want.Lineage}
	if def.Bridge != nil {
		have.Bridge = def.Bridge.Name
	}
	if def.MTU != nil {
		have.MTU = int(def.MTU.Size)
	}
	return have, nil
}

func parseUUID(s string) (rpc.UUID, error) {
	u, err := uuid.Parse(s)
	return rpc.UUID(u), err
}

// findNetwork returns the network with our UUID. It returns ErrGone when there
// is none, and ErrForeign when its name or bridge is another's.
func (p *Provider) findNetwork(ctx context.Context, n schema.Network) (rpc.Network, schema.Network, error) {
	id, err := parseUUID(n.UUID)
	if err != nil {
		return rpc.Network{}, schema.Network{}, fmt.Errorf("network %s: %w", n.Name, err)
	}
	var found rpc.Network
	var text string
	active := int32(1)
	err = p.conn.ask(ctx, func(l *rpc.Libvirt) error {
		found, err = l.NetworkLookupByUUID(id)
		if err != nil {
			return err
		}
		if active, err = l.NetworkIsActive(found); err != nil {
			return err
		}
		text, err = l.NetworkGetXMLDesc(found, 0)
		return err
	})
	switch {
	case IsNotFound(err):
		return found, schema.Network{}, fmt.Errorf("network %s has been taken away: %w", n.Name, provider.ErrGone)
	case err != nil:
		return found, schema.Network{}, explain(err, "look for network "+n.Name)
	}
	have, err := networkFromXML(text, n)
	if err != nil {
		return found, have, err
	}
	if active == 0 {
		return found, have, fmt.Errorf("%w: network %s is defined but not active", errInactive, n.Name)
	}
	if p.opts.Bridges == nil {
		return found, have, nil
	}
	mtu, err := p.opts.Bridges.BridgeMTU(ctx, have.Bridge)
	if errors.Is(err, fs.ErrNotExist) {
		return found, have, fmt.Errorf("%w: network %s has lost its bridge", errInactive, n.Name)
	}
	if n.MTU != 0 {
		have.MTU = mtu
	}
	return found, have, err
}

// errInactive marks an object that exists and does not run.
var errInactive = errors.New("inactive")

func (p *Provider) readNetwork(ctx context.Context, n schema.Network) (schema.Network, error) {
	_, have, err := p.findNetwork(ctx, n)
	if errors.Is(err, errInactive) {
		err = fmt.Errorf("network %s is not active: %w", n.Name, provider.ErrGone)
	}
	return have, err
}

func (p *Provider) createNetwork(ctx context.Context, n schema.Network) (schema.Network, error) {
	_, have, err := p.findNetwork(ctx, n)
	switch {
	case err == nil && have == n:
		return have, nil // made before a crash
	case err == nil || errors.Is(err, errInactive):
		if err := p.deleteNetwork(ctx, n); err != nil {
			return schema.Network{}, err
		}
	case !errors.Is(err, provider.ErrGone):
		return schema.Network{}, err
	}
	if err := p.networkNameFree(ctx, n); err != nil {
		return schema.Network{}, err
	}
	if p.opts.Bridges != nil {
		if err := p.opts.Bridges.AddBridge(ctx, n.Bridge, n.MTU); err != nil {
			return schema.Network{}, explain(err, "create network "+n.Name)
		}
	}
	text, err := networkXML(n, p.opts.Dir, p.opts.Bridges != nil)
	if err != nil {
		return schema.Network{}, err
	}
	err = p.effect(ctx, func(l *rpc.Libvirt) error {
		_, err := l.NetworkCreateXML(text)
		return err
	}, func() (bool, error) {
		_, _, err := p.findNetwork(ctx, n)
		return there(err)
	})
	if err != nil && !errors.Is(err, ErrOutcomeUnknown) {
		return schema.Network{}, explain(err, "create network "+n.Name)
	}
	have, readErr := p.readNetwork(ctx, n)
	if readErr != nil && err != nil {
		return schema.Network{}, explain(err, "create network "+n.Name)
	}
	return have, readErr
}

// networkNameFree looks whether another network has the name.
func (p *Provider) networkNameFree(ctx context.Context, n schema.Network) error {
	var other rpc.Network
	err := p.conn.ask(ctx, func(l *rpc.Libvirt) (err error) {
		other, err = l.NetworkLookupByName(n.Name)
		return err
	})
	if IsNotFound(err) {
		return nil
	}
	if err != nil {
		return explain(err, "look for network "+n.Name)
	}
	return explain(foreign("network", n.Name, "somebody else: its UUID is "+uuid.UUID(other.UUID).String()), "create network "+n.Name)
}

// deleteNetwork removes the network, then its bridge, which may be there alone
// after a crash.
func (p *Provider) deleteNetwork(ctx context.Context, n schema.Network) error {
	if err := p.deleteDefinition(ctx, n); err != nil || p.opts.Bridges == nil {
		return err
	}
	if err := p.opts.Bridges.DeleteBridge(ctx, n.Bridge); err != nil {
		return explain(err, "delete network "+n.Name)
	}
	return nil
}

func (p *Provider) deleteDefinition(ctx context.Context, n schema.Network) error {
	net, _, err := p.findNetwork(ctx, n)
	if errors.Is(err, provider.ErrGone) {
		return nil
	}
	if err != nil && !errors.Is(err, errInactive) {
		return err
	}
	err = p.effect(ctx, func(l *rpc.Libvirt) error {
		persistent, err := l.NetworkIsPersistent(net)
		if err != nil {
			return err
		}
		if persistent != 0 {
			if err := l.NetworkUndefine(net); err != nil {
				return err
			}
		}
		active, err := l.NetworkIsActive(net)
		if err != nil || active == 0 {
			return err
		}
		return l.NetworkDestroy(net)
	}, func() (bool, error) {
		_, _, err := p.findNetwork(ctx, n)
		return gone(err)
	})
	if err != nil && !IsNotFound(err) && !errors.Is(err, ErrOutcomeUnknown) {
		return explain(err, "delete network "+n.Name)
	}
	return p.proveGone(ctx, "network "+n.Name, func() error {
		_, _, err := p.findNetwork(ctx, n)
		return err
	})
}

// proveGone looks until the object is gone. Measured: it is at the first look.
func (p *Provider) proveGone(ctx context.Context, what string, look func() error) error {
	deadline := time.Now().Add(askTimeout)
	for {
		err := look()
		if errors.Is(err, provider.ErrGone) {
			return nil
		}
		if err != nil && !errors.Is(err, errInactive) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is still there after it was deleted", what)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is still there after it was deleted: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
