// Package diff compares what is wanted with what exists and says what has to
// happen, and why. It is pure: reading the world is the walk's business.
package diff

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/graph"
	"github.com/lvslab/lvslab/provider"
)

// Input is what a plan is made from.
type Input struct {
	Providers *plan.Providers
	// Wanted is what the topology asks for; nothing for a destroy.
	Wanted []provider.Resource
	// Have is what exists, as read just now or, without a refresh, as recorded.
	Have []plan.Existing
	// Recorded holds the attributes that the state had before the refresh. With
	// it a reason can say who changed an attribute. It may be nil.
	Recorded map[addr.Resource]cty.Value
	// Gone says of resources that the state held how they were found missing.
	Gone map[addr.Resource]string
	// Targets limits the plan to these nouns and what they need; an address
	// without a key means all instances. Empty means everything.
	Targets []addr.Noun
	// Replace are nouns whose resources are replaced although nothing changed.
	Replace []addr.Noun
}

// Compute makes the plan. Errors are about the input: a resource that is wanted
// twice, a dependency on nothing, a cycle, a type without provider, a target
// that matches nothing.
func Compute(in Input) (plan.Plan, error) {
	c := computation{Input: in, have: map[addr.Resource]plan.Existing{}, forced: map[addr.Resource]string{}}
	for _, h := range in.Have {
		c.have[h.Addr] = h
	}
	order, err := c.order()
	if err != nil {
		return plan.Plan{}, err
	}
	if err := c.decide(order); err != nil {
		return plan.Plan{}, err
	}
	for c.swapped() { // each time one more is replaced
		if err := c.decide(order); err != nil {
			return plan.Plan{}, err
		}
	}
	keep, err := c.targeted()
	if err != nil {
		return plan.Plan{}, err
	}
	return c.result(keep), nil
}

// decide finds the change of each resource.
func (c *computation) decide(order []provider.Resource) error {
	c.done = map[addr.Resource]plan.Change{}
	for _, r := range order {
		if err := c.want(r); err != nil {
			return err
		}
	}
	for _, h := range c.Have {
		if err := c.orphan(h); err != nil {
			return err
		}
	}
	return nil
}

// swapped looks for updates that take names from each other in a circle: none of
// them can come first. It forces one to be replaced, so that its names are free
// in between, and reports whether it has.
func (c *computation) swapped() bool {
	takes := graph.New[addr.Resource]()
	names := map[addr.Resource]plan.Takeover{}
	for _, t := range plan.Takeovers(c.result(nil).Changes, c.Providers) {
		if c.action(t.By) == provider.Update && c.action(t.From) == provider.Update {
			takes.Connect(t.By, t.From)
			names[t.By] = t
		}
	}
	circle := takes.Cycle()
	if circle == nil {
		return false
	}
	t := names[circle[0]]
	c.forced[t.By] = fmt.Sprintf("it swaps %s with %s", t.Name, t.From)
	return true
}

type computation struct {
	Input
	// forced are resources that are replaced for the reason given.
	forced   map[addr.Resource]string
	have     map[addr.Resource]plan.Existing
	wanted   map[addr.Resource]provider.Resource
	graph    *graph.Graph[addr.Resource]
	done     map[addr.Resource]plan.Change
	warnings map[addr.Resource]diag.Diagnostics
}

// order checks what is wanted and returns it with each resource after those
// that it needs, so that a replacement is known before what it drags along.
func (c *computation) order() ([]provider.Resource, error) {
	c.wanted, c.graph = map[addr.Resource]provider.Resource{}, graph.New[addr.Resource]()
	c.warnings = map[addr.Resource]diag.Diagnostics{}
	for _, r := range c.Wanted {
		if _, twice := c.wanted[r.Addr]; twice {
			return nil, fmt.Errorf("%s is wanted twice", r.Addr)
		}
		r.DependsOn = needs(r)
		c.wanted[r.Addr] = r
		c.graph.Add(r.Addr)
		for _, d := range r.DependsOn {
			c.graph.Connect(r.Addr, d)
		}
	}
	order, err := c.graph.Order()
	if err != nil {
		return nil, err
	}
	var out []provider.Resource
	for _, a := range order {
		r, ok := c.wanted[a]
		if !ok {
			return nil, fmt.Errorf("%s needs %s, which nobody wants", c.graph.NeededBy(a)[0], a)
		}
		out = append(out, r)
	}
	return out, nil
}

// needs returns all dependencies, sorted: containers and triggers count.
func needs(r provider.Resource) []addr.Resource {
	all := slices.Concat(r.DependsOn, r.ReplacedBy)
	if !r.Within.IsZero() {
		all = append(all, r.Within)
	}
	slices.SortFunc(all, addr.Resource.Compare)
	return slices.Compact(all)
}

// want decides about one wanted resource.
func (c *computation) want(r provider.Resource) error {
	p, schema, err := c.Providers.For(r.Type)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Addr, err)
	}
	if !r.Attrs.IsWhollyKnown() || !r.Attrs.Type().Equals(schema.Type()) {
		return fmt.Errorf("%s: the wanted attributes are not a known %s", r.Addr, r.Type)
	}
	change := plan.Change{Addr: r.Addr, Type: r.Type, Noun: schema.Noun, Want: &r}
	have, exists := c.have[r.Addr]
	if exists && c.action(r.Within) == provider.Create {
		exists = false // what holds it is missing, so it is too
	}
	switch {
	case exists:
		change.Have = &have
		if change.Reasons = c.mustReplace(r, have); len(change.Reasons) > 0 {
			change.Action = provider.Replace
			break
		}
		planned, err := p.Plan(r, have.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Addr, err)
		}
		change.Action, change.Reasons = planned.Action, c.causes(r, have, schema, planned)
		c.warnings[r.Addr] = planned.Warnings
	default:
		change.Action, change.Reasons = provider.Create, []provider.Reason{{Text: c.whyMissing(r)}}
	}
	c.done[r.Addr] = change
	return nil
}

// mustReplace lists the reasons for a replacement that lie outside the
// resource's own attributes.
func (c *computation) mustReplace(r provider.Resource, have plan.Existing) []provider.Reason {
	var why []provider.Reason
	say := func(format string, args ...any) {
		why = append(why, provider.Reason{Text: fmt.Sprintf(format, args...)})
	}
	if have.Type != r.Type {
		say("its type changes from %s to %s", have.Type, r.Type)
	}
	if have.Tainted {
		say("a failed or interrupted call left it in doubt")
	}
	if c.Providers.Ambiguous(have) {
		say("an update that failed or was interrupted left it half done")
	}
	if why, ok := c.forced[r.Addr]; ok {
		say("%s", why)
	}
	if have.Within != r.Within {
		say("it moves from %s to %s", place(have.Within), place(r.Within))
	}
	for _, t := range needs(provider.Resource{Within: r.Within, ReplacedBy: r.ReplacedBy}) {
		switch c.action(t) {
		case provider.Replace:
			say("%s is replaced", t)
		case provider.Create:
			say("%s is made anew", t)
		}
	}
	if matches(c.Replace, r.Addr.Noun) {
		say("asked for with --replace")
	}
	return why
}

func place(a addr.Resource) string {
	if a.IsZero() {
		return "the host"
	}
	return a.String()
}

func (c *computation) action(a addr.Resource) provider.Action { return c.done[a].Action }

func (c *computation) whyMissing(r provider.Resource) string {
	if text, ok := c.Gone[r.Addr]; ok {
		return text
	}
	if _, had := c.have[r.Addr]; had {
		return "gone with " + r.Within.String()
	}
	return "does not exist yet"
}

func attr(obj cty.Value, name string) cty.Value {
	if obj == cty.NilVal || obj.IsNull() || !obj.Type().HasAttribute(name) {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return obj.GetAttr(name)
}

// orphan plans the deletion of what exists but is not wanted.
func (c *computation) orphan(h plan.Existing) error {
	if _, wanted := c.wanted[h.Addr]; wanted {
		return nil
	}
	_, schema, err := c.Providers.For(h.Type)
	if err != nil {
		return fmt.Errorf("%s: %w", h.Addr, err)
	}
	text := "not in the topology any more"
	if len(c.Wanted) == 0 {
		text = "the lab is taken down"
	}
	c.done[h.Addr] = plan.Change{Addr: h.Addr, Type: h.Type, Noun: schema.Noun, Action: provider.Delete,
		Reasons: []provider.Reason{{Text: text}}, Have: &h}
	return nil
}

func (c *computation) result(keep map[addr.Resource]bool) plan.Plan {
	var p plan.Plan
	for a, change := range c.done {
		if keep == nil || keep[a] {
			p.Changes = append(p.Changes, change)
		}
	}
	slices.SortFunc(p.Changes, func(a, b plan.Change) int { return a.Addr.Compare(b.Addr) })
	for _, change := range p.Changes {
		for _, w := range c.warnings[change.Addr] {
			p.Warnings = append(p.Warnings, w.For(change.Addr.String()))
		}
	}
	return p
}
