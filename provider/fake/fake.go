// Package fake is a provider for tests: objects that exist only in a world of
// its own, and faults by script. A call can fail at its n-th time, hang until
// its deadline or beyond it, or stop the process right before or right after
// its effect.
package fake

import (
	"context"
	"errors"
	"fmt"
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

// Fault is what goes wrong.
type Fault int

// The faults.
const (
	// Fail returns the rule's error without an effect.
	Fail Fault = iota
	// FailAfter has its effect, then returns the rule's error.
	FailAfter
	// Hang waits for the context to end and returns its error, without an effect.
	Hang
	// HangOn does not even listen to the context: it returns when [Provider.Release] is called.
	HangOn
	// CrashBefore calls the provider's Crash function before the effect.
	CrashBefore
	// CrashAfter calls the provider's Crash function after the effect.
	CrashAfter
)

// Rule lets a fault happen at a certain call.
type Rule struct {
	Op   Op            // "" = any
	Addr addr.Resource // zero = any
	// Nth is the call that goes wrong, counted from 1 among those that match; 0
	// = every one of them.
	Nth   int
	Fault Fault
	// Err is what Fail and FailAfter return; [ErrScripted] when nil.
	Err error
}

// ErrScripted is the error of a rule that names none.
var ErrScripted = errors.New("failed as scripted")

// Call is one call that was made.
type Call struct {
	Op   Op
	Addr addr.Resource
}

// Provider is the fake. It may be used concurrently.
type Provider struct {
	// Crash ends the process, or what the test takes for one. It must not return.
	Crash func()

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

// Schemas that most tests need: a box is replaced when its shape changes and
// updated when its size does; a lid has a size and the computed boot_id.
func Schemas() map[string]provider.Schema {
	return map[string]provider.Schema{
		"box": {Noun: "box", Attributes: map[string]provider.Attribute{
			"shape": {Type: cty.String, Replace: true, Doc: "cannot be changed"},
			"size":  {Type: cty.Number, Doc: "can be changed"},
			"id":    {Type: cty.String, Computed: true, Doc: "given at creation"},
		}},
		"lid": {Noun: "lid", Attributes: map[string]provider.Attribute{
			"size": {Type: cty.Number, Doc: "can be changed"},
			"id":   {Type: cty.String, Computed: true, Doc: "given at creation"},
		}},
	}
}

// Box returns a wanted value of the type box.
func Box(shape string, size int) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"shape": cty.StringVal(shape), "size": cty.NumberIntVal(int64(size)), "id": cty.NullVal(cty.String),
	})
}

// Lid returns a wanted value of the type lid.
func Lid(size int) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(int64(size)), "id": cty.NullVal(cty.String)})
}

// New returns a provider of these types whose objects live in the world given.
func New(schemas map[string]provider.Schema, w World) *Provider {
	return &Provider{schemas: schemas, world: w, release: make(chan struct{}), busy: map[addr.Resource]int{},
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

// Read implements [provider.Provider].
func (p *Provider) Read(ctx context.Context, r provider.Resource, _ cty.Value) (cty.Value, error) {
	var out cty.Value
	err := p.call(ctx, Read, r.Addr, func() error {
		v, found, err := p.world.Get(r.Addr, p.schemas[r.Type])
		if err == nil && !found {
			err = fmt.Errorf("gone from the world: %w", provider.ErrGone)
		}
		out = v
		return err
	})
	return out, err
}

// Create implements [provider.Provider]. It refuses when something that the
// resource depends on does not exist.
func (p *Provider) Create(ctx context.Context, r provider.Resource) (cty.Value, error) {
	return p.write(ctx, Create, r)
}

// Update implements [provider.Provider].
func (p *Provider) Update(ctx context.Context, r provider.Resource, _ cty.Value) (cty.Value, error) {
	return p.write(ctx, Update, r)
}

func (p *Provider) write(ctx context.Context, op Op, r provider.Resource) (cty.Value, error) {
	var out cty.Value
	err := p.call(ctx, op, r.Addr, func() error {
		for _, d := range r.DependsOn {
			if found, err := p.world.Has(d); err != nil || !found {
				return errors.Join(fmt.Errorf("%s: %s does not exist", r.Addr, d), err)
			}
		}
		attrs := r.Attrs.AsValueMap()
		if _, ok := attrs["id"]; ok {
			attrs["id"] = cty.StringVal("id of " + r.Addr.String())
		}
		out = cty.ObjectVal(attrs)
		return p.world.Set(r.Addr, r.Within, out)
	})
	if err != nil {
		return cty.NilVal, err
	}
	return out, nil
}

// Delete implements [provider.Provider]. What is within the object goes with it.
func (p *Provider) Delete(ctx context.Context, r provider.Resource, _ cty.Value) error {
	return p.call(ctx, Delete, r.Addr, func() error { return p.world.Remove(r.Addr) })
}

// call notes the call, lets the scripted fault happen and has the effect.
func (p *Provider) call(ctx context.Context, op Op, a addr.Resource, effect func() error) error {
	rule, leave := p.enter(op, a)
	defer leave()
	if _, bounded := ctx.Deadline(); !bounded {
		panic(fmt.Sprintf("fake: %s of %s was called without a deadline", op, a))
	}
	if rule == nil {
		return effect()
	}
	cause := rule.Err
	if cause == nil {
		cause = fmt.Errorf("%s of %s: %w", op, a, ErrScripted)
	}
	switch rule.Fault {
	case Hang:
		<-ctx.Done()
		return ctx.Err()
	case HangOn:
		<-p.release
		return cause
	case CrashBefore:
		p.Crash()
	case FailAfter, CrashAfter:
		if err := effect(); err != nil {
			return err
		}
		if rule.Fault == CrashAfter {
			p.Crash()
		}
	}
	return cause
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
