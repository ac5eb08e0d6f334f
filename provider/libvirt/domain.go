package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	rpc "github.com/digitalocean/go-libvirt"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// findDomain returns the domain with our UUID. It returns ErrGone when there
// is none, ErrForeign when it bears another mark, errInactive when it does not run.
func (p *Provider) findDomain(ctx context.Context, d schema.Domain) (rpc.Domain, schema.Domain, error) {
	id, err := parseUUID(d.UUID)
	if err != nil {
		return rpc.Domain{}, schema.Domain{}, fmt.Errorf("domain %s: %w", d.Name, err)
	}
	var dom rpc.Domain
	var text string
	var state, reason int32
	err = p.conn.ask(ctx, func(l *rpc.Libvirt) error {
		if dom, err = l.DomainLookupByUUID(id); err != nil {
			return err
		}
		// The inactive form: the other one shows the bridge that a network led to
		// and not the network.
		if text, err = l.DomainGetXMLDesc(dom, rpc.DomainXMLInactive); err != nil {
			return err
		}
		state, reason, err = l.DomainGetState(dom, 0)
		return err
	})
	switch {
	case IsNotFound(err):
		return dom, schema.Domain{}, fmt.Errorf("virtual machine %s has ended: %w", d.Name, provider.ErrGone)
	case err != nil:
		return dom, schema.Domain{}, explain(err, "look for virtual machine "+d.Name)
	}
	have, m, marked, err := domainFromXML(text)
	if err != nil {
		return dom, have, err
	}
	if !marked || m.Lineage != d.Lineage || m.Address != d.Address {
		return dom, have, explain(foreign("virtual machine", have.Name, m.owner(marked)), "use virtual machine "+d.Name)
	}
	have.ID, have.PID = int(max(0, dom.ID)), p.readPID(ctx, p.opts.PIDFile(d.Name))
	switch rpc.DomainState(state) {
	case rpc.DomainRunning, rpc.DomainBlocked:
		return dom, have, nil
	case rpc.DomainShutoff, rpc.DomainShutdown, rpc.DomainCrashed:
		return dom, have, fmt.Errorf("%w: virtual machine %s has ended", errInactive, d.Name)
	case rpc.DomainPaused:
		// Whoever looks here while a call still starts it is not the one who has
		// called: that one has died, and when he was feeding a clone it comes to nothing.
		if rpc.DomainPausedReason(reason) == rpc.DomainPausedStartingUp {
			return dom, have, fmt.Errorf("%w: virtual machine %s is not up yet", errInactive, d.Name)
		}
	}
	return dom, have, &pausedError{diag.Fail(nil, fmt.Sprintf("Virtual machine %s does not run", d.Name),
		"Look at the host's disk space and at QEMU's log, then replace it: lvslab apply --replace "+d.Address+".",
		"libvirt says that it is in state %d for reason %d", state, reason)}
}

// pausedError is a domain that exists, is ours, and stands still.
type pausedError struct{ *diag.Failure }

func (e *pausedError) Unwrap() error { return e.Failure }

// readPID returns 0 when QEMU's process id cannot be read: it is shown to
// people and decides nothing.
func (p *Provider) readPID(ctx context.Context, path string) int {
	text, err := p.opts.Place.Tail(ctx, path, 32)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

func (p *Provider) readDomain(ctx context.Context, d schema.Domain) (schema.Domain, error) {
	_, have, err := p.findDomain(ctx, d)
	if errors.Is(err, errInactive) {
		err = fmt.Errorf("virtual machine %s does not run: %w", d.Name, provider.ErrGone)
	}
	return have, err
}

func (p *Provider) createDomain(ctx context.Context, d schema.Domain) (schema.Domain, error) {
	_, have, err := p.findDomain(ctx, d)
	var paused *pausedError
	switch {
	case err == nil && sameDefinition(have, d):
		return have, nil // made before a crash
	case err == nil, errors.Is(err, errInactive), errors.As(err, &paused):
		if err := p.deleteDomain(ctx, d); err != nil {
			return schema.Domain{}, err
		}
	case !errors.Is(err, provider.ErrGone):
		return schema.Domain{}, err
	}
	if err := p.prepareDomain(ctx, d); err != nil {
		return schema.Domain{}, err
	}
	if t := p.opts.Template(d); t != nil {
		have, err := p.cloned(ctx, d, *t)
		if err == nil || ctx.Err() != nil || p.unreachable(ctx, err) {
			return have, err
		}
		p.observe(d, FellBack, err)
		if derr := p.deleteDomain(ctx, d); derr != nil {
			return have, errors.Join(err, derr)
		}
		if err := p.prepareDomain(ctx, d); err != nil {
			return have, err
		}
	}
	return p.boot(ctx, d)
}

// unreachable says whether an error means that the hypervisor has died or
// cannot be asked, so that nothing else can be tried on it either.
func (p *Provider) unreachable(ctx context.Context, err error) bool {
	switch {
	case !errors.Is(err, ErrNoConnection):
		return false
	case !errors.Is(err, ErrOutcomeUnknown):
		return true
	}
	if p.opts.Host == nil {
		_, err := p.conn.Version(ctx)
		return err != nil
	}
	return p.host(ctx) != nil
}

// cloned makes a clone and reads it back.
func (p *Provider) cloned(ctx context.Context, d schema.Domain, t Template) (schema.Domain, error) {
	if err := p.clone(ctx, d, t); err != nil {
		return schema.Domain{}, err
	}
	return p.readDomain(ctx, d)
}

// boot starts a domain from its kernel.
func (p *Provider) boot(ctx context.Context, d schema.Domain) (schema.Domain, error) {
	text, err := domainXML(d, p.newMark(d, ""), p.opts.ChannelPath)
	if err != nil {
		return schema.Domain{}, err
	}
	err = p.effect(ctx, func(l *rpc.Libvirt) error {
		_, err := l.DomainCreateXML(text, 0)
		return err
	}, func() (bool, error) {
		_, _, err := p.findDomain(ctx, d)
		return there(err)
	})
	if err != nil && !errors.Is(err, ErrOutcomeUnknown) {
		return schema.Domain{}, p.explainStart(ctx, err, d)
	}
	have, readErr := p.readDomain(ctx, d)
	if readErr != nil && err != nil {
		return schema.Domain{}, p.explainStart(ctx, err, d)
	}
	p.observe(d, Booted, readErr)
	return have, readErr
}

// sameDefinition compares all that is not computed.
func sameDefinition(have, want schema.Domain) bool {
	have.ID, have.PID, have.Started, have.Template = want.ID, want.PID, want.Started, want.Template
	return have.Value().RawEquals(want.Value())
}

// prepareDomain refuses what cannot start, with a better text than QEMU's, and
// makes the console log under the user's name.
func (p *Provider) prepareDomain(ctx context.Context, d schema.Domain) error {
	var other rpc.Domain
	var text string
	err := p.conn.ask(ctx, func(l *rpc.Libvirt) (err error) {
		if other, err = l.DomainLookupByName(d.Name); err != nil {
			return err
		}
		text, err = l.DomainGetXMLDesc(other, rpc.DomainXMLInactive)
		return err
	})
	if err == nil {
		_, m, marked, err := domainFromXML(text)
		if err != nil {
			return err
		}
		return explain(foreign("virtual machine", d.Name, m.owner(marked)), "create virtual machine "+d.Name)
	}
	if !IsNotFound(err) {
		return explain(err, "look for virtual machine "+d.Name)
	}
	for what, path := range map[string]string{"kernel": d.Kernel, "initramfs": d.Initrd, "root image": d.Root, "seed": d.Seed} {
		if path == "" && (what != "kernel" || d.Disk != "") {
			continue
		}
		if err := p.opts.Place.Exists(ctx, path); err != nil {
			return diag.Fail(err, "The "+what+" cannot be read", "Build the image again: lvslab image build.", "Virtual machine %s boots from it", d.Name)
		}
	}
	// The console first: a directory with something in it is not removed with
	// another machine's last socket.
	if err := p.opts.Place.Create(ctx, d.Console, p.opts.UID, p.opts.GID); err != nil {
		return fmt.Errorf("console log: %w", err)
	}
	return p.prepareSockets(ctx, d)
}

func (p *Provider) deleteDomain(ctx context.Context, d schema.Domain) error {
	dom, _, err := p.findDomain(ctx, d)
	var paused *pausedError
	switch {
	case errors.Is(err, provider.ErrGone):
		return p.removeSockets(ctx, d)
	case err != nil && !errors.Is(err, errInactive) && !errors.As(err, &paused):
		return err
	}
	err = p.effect(ctx, func(l *rpc.Libvirt) error {
		persistent, err := l.DomainIsPersistent(dom)
		if err != nil {
			return err
		}
		if persistent != 0 {
			// Somebody has defined it: with its definition it would come back.
			if err := l.DomainUndefineFlags(dom, undefineAll); err != nil {
				return err
			}
		}
		return l.DomainDestroyFlags(dom, 0)
	}, func() (bool, error) {
		_, _, err := p.findDomain(ctx, d)
		return gone(err)
	})
	// A defined domain that did not run is gone after its definition is.
	if err != nil && !IsNotFound(err) && !errors.Is(err, ErrOutcomeUnknown) && !isCode(err, rpc.ErrOperationInvalid) {
		return explain(err, "delete virtual machine "+d.Name)
	}
	err = p.proveGone(ctx, "virtual machine "+d.Name, func() error {
		_, _, err := p.findDomain(ctx, d)
		return err
	})
	if err != nil {
		return err
	}
	return p.removeSockets(ctx, d)
}

// undefineAll takes with a definition all that would make libvirt refuse to
// drop it: a saved state, snapshots, firmware variables, checkpoints. The flags
// are those of libvirt 8.0, the oldest that lvslab works with.
const undefineAll = rpc.DomainUndefineManagedSave | rpc.DomainUndefineSnapshotsMetadata |
	rpc.DomainUndefineNvram | rpc.DomainUndefineCheckpointsMetadata
