package operation

import (
	"fmt"
	"sync"

	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// progress turns the walk's events into phases: created when the last machine
// runs, enrolled when the last one has its identity.
type progress struct {
	a  *applying
	mu sync.Mutex
	// left counts domains and networks that are still to be made, and machines
	// that are still to be enrolled.
	left, enrol      int
	machines, others int
	clones           int
}

func (a *applying) newProgress() *progress {
	p := &progress{a: a}
	for _, c := range a.changes.Changes {
		made := c.Action == provider.Create || c.Action == provider.Replace
		switch {
		case !made:
		case c.Type == schema.TypeDomain:
			p.left, p.enrol, p.machines = p.left+1, p.enrol+1, p.machines+1
		case c.Type == schema.TypeNetwork:
			p.left, p.others = p.left+1, p.others+1
		}
	}
	return p
}

func (p *progress) observe(e walk.Event) {
	ev := ResourceEvent{Address: e.Change.Addr.String(), Action: string(e.Op), State: string(e.Kind), Took: e.Took.Seconds()}
	p.a.Events.Emit(ev)
	p.a.forgetDeleted(e)
	host := e.Change.Type == schema.TypeDomain || e.Change.Type == schema.TypeNetwork
	if e.Kind != walk.Done || e.Op != plan.Create || !host {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left == 0 {
		p.a.timings.CreatedS = p.a.since()
		p.a.phase(PhaseCreate, "done", fmt.Sprintf("%d networks, %s", p.others, p.how()))
		text := "machines are booting"
		if p.clones == p.machines {
			text = "clones get their identity"
		}
		p.a.phase(PhaseEnrol, "started", text)
	}
}

// how says how the machines came up.
func (p *progress) how() string {
	switch p.clones {
	case 0:
		return fmt.Sprintf("%d machines started", p.machines)
	case p.machines:
		return fmt.Sprintf("%d machines cloned", p.machines)
	}
	return fmt.Sprintf("%d machines cloned, %d started", p.clones, p.machines-p.clones)
}

// cameUp hears how a machine comes up. The times are those of the last one.
func (p *progress) cameUp(d schema.Domain, s libvirt.Step, why error) {
	p.a.cameUp(d, s, why)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case libvirt.Restored:
		p.a.timings.RestoredS = p.a.since()
	case libvirt.Plugged:
		p.clones++
		p.a.timings.PluggedS = p.a.since()
	}
}

func (p *progress) enrolledOne() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.enrol--; p.enrol == 0 {
		p.a.timings.EnrolledS = p.a.since()
		p.a.phase(PhaseEnrol, "done", fmt.Sprintf("%d machines have their identity", p.machines))
	}
}
