// Package fake is a provider for tests: objects that exist only in a world of
// its own, and faults by script. A call can fail at its n-th time without its
// effect, with half of it or with all, hang until its deadline or beyond it, or
// stop the process right before, amid or right after its effect.
package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/provider"
)

// Op names a method of the provider in scripts and logs.
type Op string

// The operations. Plan does nothing in the world and is not scripted.
const (
	Read   Op = "read"
	Create Op = "create"
	Update Op = "update"
	Delete Op = "delete"
)

// Call is one call that was made.
type Call struct {
	Op   Op
	Addr addr.Resource
}

// Provider is the fake. It may be used concurrently.
type Provider struct {
	// Crash ends the process, or what the test takes for one. It must not return.
	Crash func()
	// Fuse is asked before each effect, in its middle and after it; nil never blows.
	Fuse *Fuse
	// Pieces says which types consist of several objects.
	Pieces map[string]Pieces

	schemas map[string]provider.Schema
	world   World
	release chan struct{}

	mu    sync.Mutex
	rules []*counted
	calls []Call
	busy  map[addr.Resource]int
}

type counted struct {
	Rule
	seen int
}

var _ provider.Provider = (*Provider)(nil)

// New returns a provider of these types whose objects live in the world given.
func New(schemas map[string]provider.Schema, w World) *Provider {
	return &Provider{Pieces: map[string]Pieces{"peg": peg}, schemas: schemas, world: w, release: make(chan struct{}), busy: map[addr.Resource]int{},
		Crash: func() { panic("fake: a crash was scripted, but Crash is not set") }}
}

// Script adds rules. The first that matches a call decides.
func (p *Provider) Script(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range rules {
		p.rules = append(p.rules, &counted{Rule: r})
	}
}

// Calls returns the calls in the order of their beginnings.
func (p *Provider) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Call(nil), p.calls...)
}

// Release lets the calls that hang on return.
func (p *Provider) Release() { close(p.release) }

// World returns the provider's world.
func (p *Provider) World() World { return p.world }

// Schemas implements [provider.Provider].
func (p *Provider) Schemas() map[string]provider.Schema { return p.schemas }

// Plan implements [provider.Provider] by [provider.PlanBySchema].
func (p *Provider) Plan(r provider.Resource, prior cty.Value) (provider.Planned, error) {
	return provider.PlanBySchema(p.schemas[r.Type], r, prior), nil
}

// Read implements [provider.Provider]. It sees what prior describes, and what was
// set in a machine only while that has not booted again.
func (p *Provider) Read(ctx context.Context, r provider.Resource, prior cty.Value) (cty.Value, error) {
	var out cty.Value
	err := p.call(ctx, Read, r.Addr, func() error {
		v, err := p.world.read(r, p.schemas[r.Type], p.Pieces[r.Type], prior)
		if set := text(prior, "boot_id"); err == nil && set != "" && set != text(v, "boot_id") {
			err = fmt.Errorf("gone with its boot: %w", provider.ErrGone)
		}
		out = v
		return err
	})
	return out, err
}

// Create implements [provider.Provider]. It refuses when something that the
// resource depends on does not exist.
func (p *Provider) Create(ctx context.Context, r provider.Resource) (cty.Value, error) {
	return p.write(ctx, Create, r, cty.NilVal)
}

// Update implements [provider.Provider].
func (p *Provider) Update(ctx context.Context, r provider.Resource, prior cty.Value) (cty.Value, error) {
	return p.write(ctx, Update, r, prior)
}

func (p *Provider) write(ctx context.Context, op Op, r provider.Resource, prior cty.Value) (cty.Value, error) {
	s, pieces := p.schemas[r.Type], p.Pieces[r.Type]
	effects := p.world.writing(r, s, pieces, prior)
	effects[0] = after(p.needs(r), effects[0])
	var out cty.Value
	err := p.call(ctx, op, r.Addr, append(effects, func() error {
		var err error
		out, err = p.world.read(r, s, pieces, r.Attrs)
		return err
	})...)
	if err != nil {
		return cty.NilVal, err
	}
	return out, nil
}

// needs checks that everything is there that a resource depends on.
func (p *Provider) needs(r provider.Resource) func() error {
	return func() error {
		for _, d := range r.DependsOn {
			if slices.Contains(r.NotAwaited, d) {
				continue
			}
			if found, err := p.world.Has(d); err != nil || !found {
				return errors.Join(fmt.Errorf("%s: %s does not exist", r.Addr, d), err)
			}
		}
		return nil
	}
}

func after(first, then func() error) func() error {
	return func() error {
		if err := first(); err != nil {
			return err
		}
		return then()
	}
}

// Delete implements [provider.Provider]. What is within the object goes with it.
func (p *Provider) Delete(ctx context.Context, r provider.Resource, prior cty.Value) error {
	return p.call(ctx, Delete, r.Addr, p.world.deleting(r, p.Pieces[r.Type], prior)...)
}

// call notes the call, lets the scripted fault happen and has the effects in
// their order.
func (p *Provider) call(ctx context.Context, op Op, a addr.Resource, effects ...func() error) error {
	rule, leave := p.enter(op, a)
	defer leave()
	if _, bounded := ctx.Deadline(); !bounded {
		panic(fmt.Sprintf("fake: %s of %s was called without a deadline", op, a))
	}
	if rule == nil {
		return p.carryOut(effects)
	}
	cause := rule.Err
	if cause == nil {
		cause = fmt.Errorf("%s of %s: %w", op, a, ErrScripted)
	}
	if rule.Meanwhile != nil {
		rule.Meanwhile()
	}
	switch rule.Fault {
	case Work:
		if err := ctx.Err(); err != nil {
			return err
		}
		return p.carryOut(effects)
	case Hang:
		<-ctx.Done()
		return ctx.Err()
	case HangOn:
		<-p.release
		return cause
	case FailHalf, CrashHalf, HangHalf:
		effects = effects[:len(effects)/2]
	case Fail, CrashBefore:
		effects = nil
	}
	if err := p.carryOut(effects); err != nil {
		return err
	}
	switch rule.Fault {
	case CrashBefore, CrashHalf, CrashAfter:
		p.Crash()
	case HangHalf, HangAfter:
		<-ctx.Done()
		return ctx.Err()
	}
	return cause
}

// carryOut has the effects, one after the other, until the fuse blows.
func (p *Provider) carryOut(effects []func() error) error {
	for _, effect := range effects {
		if err := p.Fuse.Step(); err != nil {
			return err
		}
		if err := effect(); err != nil {
			return err
		}
	}
	return p.Fuse.Step()
}

// enter notes the call and finds its rule. Two calls for one address at the
// same time break the contract, so they panic.
func (p *Provider) enter(op Op, a addr.Resource) (*Rule, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, Call{op, a})
	if p.busy[a]++; p.busy[a] > 1 {
		panic(fmt.Sprintf("fake: two calls for %s at the same time", a))
	}
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy[a]--
	}
	for _, r := range p.rules {
		if r.Op != "" && r.Op != op || !r.Addr.IsZero() && r.Addr != a {
			continue
		}
		if r.seen++; r.Nth == 0 || r.seen == r.Nth {
			return &r.Rule, leave
		}
	}
	return nil, leave
}
