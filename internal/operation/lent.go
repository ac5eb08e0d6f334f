package operation

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// lentMachine is a director that boots another image than it is declared with, because
// a run of a study over kernels wants it so: while the study runs, and after one that
// was killed.
type lentMachine struct {
	Machine    addr.Noun `json:"machine"`
	Image      addr.Noun `json:"image"`
	Experiment addr.Noun `json:"experiment"`
}

// findLent finds out which of the machines that the plan replaces are a study's own
// doing, and what the plan would change beside that. A machine is one when it is to
// the last attribute what the study boots for its runs.
func (a *applying) findLent(ps *plan.Providers) error {
	a.lent, a.beside = nil, a.changes
	images := map[addr.Noun]addr.Noun{}
	for _, e := range a.study.topology.Experiments {
		svc, _ := a.study.topology.Service(e.Service)
		director, ok := a.study.topology.Machine(svc.Director)
		if _, known := images[svc.Director]; known || !ok || actionOn(a.changes, svc.Director) != provider.Replace {
			continue
		}
		for _, n := range e.Kernels() {
			if n == director.Image {
				continue
			}
			p, err := a.changesWith(ps, map[addr.Noun]addr.Noun{svc.Director: n})
			if err != nil {
				return err
			}
			if actionOn(p, svc.Director) == provider.NoOp {
				a.lent = append(a.lent, lentMachine{svc.Director, n, e.Noun})
				images[svc.Director] = n
				break
			}
		}
	}
	if len(images) == 0 {
		return nil
	}
	p, err := a.changesWith(ps, images)
	if err != nil {
		return err
	}
	// A kill leaves such a machine without some of what belongs into it; all of it is
	// made anew with the machine.
	p.Changes = slices.DeleteFunc(p.Changes, func(c plan.Change) bool {
		made := c.Action == provider.Create || c.Action == provider.Replace
		if !made || c.Want == nil || c.Want.Within.Part != schema.TypeDomain {
			return false
		}
		_, lent := images[c.Want.Within.Noun]
		return lent
	})
	a.beside = p
	return nil
}

// changesWith are the changes of a lab whose machines boot other images.
func (a *applying) changesWith(ps *plan.Providers, images map[addr.Noun]addr.Noun) (plan.Plan, error) {
	wanted, err := a.wantedWith(maps.Clone(images))
	if err != nil {
		return plan.Plan{}, err
	}
	return compare(ps, wanted, a.reality, a.opts.Choices, a.study.topology)
}

// actionOn is what a plan does with a machine.
func actionOn(p plan.Plan, machine addr.Noun) provider.Action {
	i := slices.IndexFunc(p.Changes, func(c plan.Change) bool {
		return c.Addr == addr.Resource{Noun: machine, Part: schema.TypeDomain}
	})
	if i < 0 {
		return ""
	}
	return p.Changes[i].Action
}

// lentText says for a plan which machines boot what, and that it is no change.
func (a *applying) lentText() string {
	var text string
	for _, l := range a.lent {
		text += fmt.Sprintf("\n%s boots %s for a run of %s, which goes on or was cut off; apply boots it as declared, with all that is in it.", l.Machine, l.Image, l.Experiment)
	}
	return text
}
