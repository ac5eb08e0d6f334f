// Package libvirt makes networks and virtual machines through libvirt's RPC
// protocol (go-libvirt, libvirtxml; no program is run). It implements
// [provider.Provider] for the resource types network and domain.
//
// Both are transient: libvirt keeps no definition of them, so that what has
// ended has left nothing. A domain carries the lab's lineage and its address
// in its metadata; a network, which older libvirts (before 9.7) give no
// metadata, is known by its UUID, which derives from the lineage. What has our
// name but not our mark is never touched.
package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// Options say how the hypervisor behind a connection is arranged.
type Options struct {
	// Place is the machine that the hypervisor is on; nil = this one. A template can
	// be restored on this one alone.
	Place Place
	// Bridges, when not nil, makes the bridges of networks in the hypervisor's
	// own network namespace. Nil means a libvirt of this machine: it makes the
	// bridges itself, with its firewall rules, and its sockets lie in our file
	// system, so their directory is made and cleaned here.
	Bridges Bridges
	// ChannelPath returns the path, as QEMU sees it, of the socket of one of a
	// domain's virtio-serial ports.
	ChannelPath func(domain, port string) string
	// QEMULog and PIDFile return the paths, as this process sees them, of QEMU's
	// own log and of its process id. Nil means a system libvirt's usual places.
	QEMULog func(domain string) string
	PIDFile func(domain string) string
	// Host, when not nil, is asked when the connection fails. It returns nil
	// while the hypervisor lives, an error that wraps [provider.ErrGone] when it
	// is proven to have ended with everything that was in it, any other error
	// when that is not known.
	Host func(ctx context.Context) error
	// Template, when not nil, is asked at each creation of a domain for the
	// template to clone; nil boots the domain. A domain that cannot be cloned is
	// booted: Observe hears why.
	Template func(d schema.Domain) *Template
	// Pipe returns where to make the FIFO that a domain is cloned through, as
	// libvirtd and as this process see it. Needed with Template.
	Pipe func(domain string) (inside, outside string)
	// Observe, when not nil, hears how a domain comes up. why is not nil with
	// FellBack. It is called from several goroutines.
	Observe func(d schema.Domain, s Step, why error)
	// Dir is the lab's directory, which the marks on the user's own libvirt name;
	// "" = networks bear no mark, and a domain's place of its console tells.
	Dir string
	// DropConsoles has a domain's console log go with it: it is copied elsewhere.
	DropConsoles bool
	// UID and GID own the console logs. -1 leaves them to the process's user.
	UID, GID int
}

// Bridges makes bridges without addresses. AddBridge sets one right that
// exists, DeleteBridge accepts one that does not, BridgeMTU wraps
// fs.ErrNotExist for it. MTUs are in bytes, 0 means the kernel's.
type Bridges interface {
	AddBridge(ctx context.Context, name string, mtu int) error
	DeleteBridge(ctx context.Context, name string) error
	BridgeMTU(ctx context.Context, name string) (int, error)
}

// Provider makes networks and domains on one hypervisor.
type Provider struct {
	conn *Conn
	opts Options
}

var _ provider.Provider = (*Provider)(nil)

// New returns a provider on a connection, which stays the caller's to close.
func New(conn *Conn, o Options) *Provider {
	if o.Place == nil {
		o.Place = Here{}
	}
	if o.QEMULog == nil {
		o.QEMULog = func(domain string) string { return "/var/log/libvirt/qemu/" + domain + ".log" }
	}
	if o.PIDFile == nil {
		o.PIDFile = func(domain string) string { return "/run/libvirt/qemu/" + domain + ".pid" }
	}
	if o.Template == nil {
		o.Template = func(schema.Domain) *Template { return nil }
	}
	return &Provider{conn: conn, opts: o}
}

func (p *Provider) observe(d schema.Domain, s Step, why error) {
	if p.opts.Observe != nil {
		p.opts.Observe(d, s, why)
	}
}

// Schemas returns the types network and domain.
func (p *Provider) Schemas() map[string]provider.Schema { return schema.Host() }

// Plan compares by schema.
func (p *Provider) Plan(r provider.Resource, prior cty.Value) (provider.Planned, error) {
	s, err := schemaOf(r)
	if err != nil {
		return provider.Planned{}, err
	}
	return provider.PlanBySchema(s, r, prior), nil
}

func schemaOf(r provider.Resource) (provider.Schema, error) {
	s, ok := schema.Host()[r.Type]
	if !ok {
		return s, fmt.Errorf("libvirt makes no %q", r.Type)
	}
	return s, nil
}

// Read returns the object as libvirt has it. Attributes that libvirt does not
// keep (a network's lineage and address) are those that its UUID proves.
func (p *Provider) Read(ctx context.Context, r provider.Resource, prior cty.Value) (cty.Value, error) {
	want := r.Attrs
	if want == cty.NilVal || want.IsNull() {
		want = prior
	}
	return p.value(ctx, r, func() (cty.Value, error) {
		switch r.Type {
		case schema.TypeNetwork:
			n, err := schema.NetworkFrom(want)
			if err != nil {
				return cty.NilVal, err
			}
			have, err := p.readNetwork(ctx, n)
			return have.Value(), err
		case schema.TypeDomain:
			d, err := schema.DomainFrom(want)
			if err != nil {
				return cty.NilVal, err
			}
			have, err := p.readDomain(ctx, d)
			return have.Value(), err
		}
		_, err := schemaOf(r)
		return cty.NilVal, err
	})
}

// Create makes the object, or returns it when a call before a crash had made it.
func (p *Provider) Create(ctx context.Context, r provider.Resource) (cty.Value, error) {
	return p.value(ctx, r, func() (cty.Value, error) {
		switch r.Type {
		case schema.TypeNetwork:
			n, err := schema.NetworkFrom(r.Attrs)
			if err != nil {
				return cty.NilVal, err
			}
			have, err := p.createNetwork(ctx, n)
			return have.Value(), err
		case schema.TypeDomain:
			d, err := schema.DomainFrom(r.Attrs)
			if err != nil {
				return cty.NilVal, err
			}
			have, err := p.createDomain(ctx, d)
			return have.Value(), err
		}
		_, err := schemaOf(r)
		return cty.NilVal, err
	})
}

// Update fails: every attribute of both types replaces, so no plan asks for it.
func (p *Provider) Update(_ context.Context, r provider.Resource, _ cty.Value) (cty.Value, error) {
	s, err := schemaOf(r)
	if err != nil {
		return cty.NilVal, err
	}
	return cty.NilVal, fmt.Errorf("%s: a living %s cannot be changed, only replaced", r.Addr, s.Noun)
}

// Delete removes the object and looks until it is gone.
func (p *Provider) Delete(ctx context.Context, r provider.Resource, prior cty.Value) error {
	_, err := p.value(ctx, r, func() (cty.Value, error) {
		switch r.Type {
		case schema.TypeNetwork:
			n, err := schema.NetworkFrom(prior)
			if err != nil {
				return cty.NilVal, err
			}
			return cty.NilVal, p.deleteNetwork(ctx, n)
		case schema.TypeDomain:
			d, err := schema.DomainFrom(prior)
			if err != nil {
				return cty.NilVal, err
			}
			return cty.NilVal, p.deleteDomain(ctx, d)
		}
		_, err := schemaOf(r)
		return cty.NilVal, err
	})
	if errors.Is(err, provider.ErrGone) {
		return nil
	}
	return err
}

// value runs fn, and names the resource and the cause in its error.
func (p *Provider) value(ctx context.Context, r provider.Resource, fn func() (cty.Value, error)) (cty.Value, error) {
	v, err := fn()
	if err == nil {
		return v, nil
	}
	if errors.Is(err, ErrNoConnection) {
		if host := p.host(ctx); host != nil {
			err = host
		}
	}
	return cty.NilVal, named(err, r)
}

// host asks whether the hypervisor lives; nil when it does, or nobody knows. The
// call's own deadline may have passed: the question is a short one.
func (p *Provider) host(ctx context.Context) error {
	if p.opts.Host == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Second)
	defer cancel()
	return p.opts.Host(ctx)
}

// named sets the address of a failure's diagnostic, or puts it before the text.
func named(err error, r provider.Resource) error {
	var f *diag.Failure
	if !errors.As(err, &f) {
		return fmt.Errorf("%s: %w", r.Addr, err)
	}
	if f.Diagnostic.Address == "" {
		f.Diagnostic.Address = r.Addr.String()
		f.Diagnostic.Subject = r.Range
	}
	return err
}
