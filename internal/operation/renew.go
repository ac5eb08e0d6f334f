package operation

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// renewWithin bounds the making of machines anew: a clone takes 1 to 2 s with
// its settings, a boot on a busy machine with its second try some minutes.
const renewWithin = 10 * time.Minute

// cloneCall bounds one call of it. A clone answers within 0.5 s and takes all
// its settings in another second; one that hangs is soon replaced by the next
// try.
const cloneCall = 40 * time.Second

// renewCall is how long a call may take: as at a creation when machines boot.
func (a *applying) renewCall(machines []addr.Noun) time.Duration {
	for _, n := range machines {
		if m, ok := a.study.topology.Machine(n); ok && a.whyBooted(m) != "" {
			return a.callWithin("", "")
		}
	}
	return patience(cloneCall, runtime.NumCPU())
}

// renew makes machines anew between two runs. It is an apply in small: the same
// plan, walk, providers and journal as when the lab was created, with these
// machines as those to be replaced. A kill in its middle leaves what a kill in
// the middle of an apply leaves. It is carried out to its end even when ctx is
// cancelled, so that an interruption finds a lab as declared. images are those that
// machines boot instead of the declared ones; the state has what each boots.
func (a *applying) renew(ctx context.Context, machines []addr.Noun, images map[addr.Noun]addr.Noun) ([]experiment.Renewed, error) {
	within := renewWithin
	if len(a.disksShown()) > 0 {
		within += diskContact
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	st := a.state()
	have, err := st.Existing(a.host.providers)
	if err != nil {
		return nil, err
	}
	wanted, err := a.wantedWith(images)
	if err != nil {
		return nil, err
	}
	p, err := renewal(a.host.providers, wanted, have, machines)
	if err != nil {
		return nil, err
	}
	a.templates.trustAgain()
	done := a.making(a.cameUp, nil)
	res := walk.Run(ctx, p, walk.Options{
		Providers: a.host.providers, Recorder: a.store.Recorder(), Parallelism: a.parallelism(), Observe: a.forgetDeleted,
		Deadline: func(plan.Op, string) time.Duration { return a.renewCall(machines) },
	})
	done()
	if err := res.Err(); err != nil {
		return nil, err
	}
	out := make([]experiment.Renewed, len(machines))
	for i, n := range machines {
		if out[i], err = a.renewed(ctx, n); err != nil {
			return nil, err
		}
		if image := images[n]; !image.IsZero() {
			out[i].Image = image.String()
		}
	}
	return out, nil
}

// renewal plans to replace machines with everything in them, and nothing else:
// where more would have to be done, the lab is not the one that was proved. What
// an earlier try has left half made belongs to the machines.
func renewal(ps *plan.Providers, wanted []provider.Resource, have []plan.Existing, machines []addr.Noun) (plan.Plan, error) {
	p, err := diff.Compute(diff.Input{Providers: ps, Wanted: wanted, Have: have, Replace: machines})
	if err != nil {
		return p, err
	}
	ours := map[addr.Resource]bool{}
	for _, n := range machines {
		ours[addr.Resource{Noun: n, Part: schema.TypeDomain}] = true
	}
	for _, c := range p.Changes {
		made := c.Action == provider.Replace || c.Action == provider.Create
		switch {
		case c.Action == provider.NoOp:
		case made && (ours[c.Addr] || ours[c.Want.Within]):
		default:
			return p, diag.Fail(nil, "The lab is not as declared any more", "Apply again: it is brought in line first.",
				"to make %s anew, %s of %s would be needed too", nounsText(machines), c.Action, c.Addr)
		}
	}
	return p, nil
}

func nounsText(list []addr.Noun) string {
	var names []string
	for _, n := range list {
		names = append(names, n.String())
	}
	return strings.Join(names, ", ")
}

// renewed describes a machine that has just been made.
func (a *applying) renewed(ctx context.Context, n addr.Noun) (experiment.Renewed, error) {
	node := n.String()
	_, boot, err := a.host.nodes.caller(ctx, node)
	if err != nil {
		return experiment.Renewed{}, err
	}
	_, _, d, err := a.domain(node)
	if err != nil {
		return experiment.Renewed{}, err
	}
	key, err := a.keys.host(a.identity(node))
	if err != nil {
		return experiment.Renewed{}, err
	}
	print, err := key.Fingerprint()
	return experiment.Renewed{Node: node, BootID: boot, Template: d.Template, Seed: a.host.nodes.seed(node), HostKey: print}, err
}

// forgetDeleted drops the connection and the key of a machine that was deleted:
// what comes after it is another one.
func (a *applying) forgetDeleted(e walk.Event) {
	if e.Kind == walk.Done && e.Op == plan.Delete && e.Change.Type == schema.TypeDomain {
		node := e.Change.Addr.Noun.String()
		a.host.nodes.drop(node)
		a.keys.another(a.identity(node))
	}
}

// cameUp hears how a machine comes up.
func (a *applying) cameUp(d schema.Domain, s libvirt.Step, why error) {
	switch s {
	case libvirt.Restored:
		a.templates.setClone(d.Address, true)
	case libvirt.Booted:
		a.templates.setClone(d.Address, false)
	case libvirt.FellBack:
		a.warnBooted(d.Address+" could not be cloned: it is booted.", why)
	}
}

// errNoDomain is returned for a machine that the state does not hold.
var errNoDomain = errors.New("is not in the state")

// domain returns a machine as the state holds it.
func (a *applying) domain(node string) (state.Resource, cty.Value, schema.Domain, error) {
	n, err := addr.ParseNoun(node)
	if err != nil {
		return state.Resource{}, cty.NilVal, schema.Domain{}, err
	}
	st := a.state()
	r, ok := st.Resource(addr.Resource{Noun: n, Part: schema.TypeDomain})
	if !ok {
		return r, cty.NilVal, schema.Domain{}, fmt.Errorf("%s %w", node, errNoDomain)
	}
	v, err := r.Value(schema.DomainSchema)
	if err != nil {
		return r, v, schema.Domain{}, err
	}
	d, err := schema.DomainFrom(v)
	return r, v, d, err
}

// renewals are the machines that this apply makes anew before each run of some
// experiment, in declared order.
func (a *applying) renewals() []addr.Noun {
	if len(a.todo) == 0 {
		return nil
	}
	wanted := map[addr.Noun]bool{}
	for _, e := range a.study.topology.Experiments {
		for _, n := range experiment.Renewals(a.study.topology, e) {
			wanted[n] = true
		}
	}
	var out []addr.Noun
	for _, m := range a.study.topology.Machines {
		if wanted[m.Noun] {
			out = append(out, m.Noun)
		}
	}
	return out
}

// whyBooted says why a machine is never a clone, "" when it can be one.
func (a *applying) whyBooted(m lang.Machine) string {
	if a.worldErr != nil {
		return "nothing can be cloned here, " + inOneLine(a.worldErr)
	}
	return a.whyCold(m)
}

// whyCold says why a machine is booted even where there is something to clone.
func (a *applying) whyCold(m lang.Machine) string {
	switch {
	case a.far():
		return farCold
	case a.guestOf(m).disk != nil:
		return diskCold
	case a.opts.Boot == BootCold:
		return "--boot cold was given"
	case a.opts.Boot == "" && m.Boot == BootCold:
		return `it has boot = "cold"`
	}
	return ""
}

// warnRenewals says what makes machines boot before each run. A booted machine
// is as new as a cloned one, so the runs are what was asked for; they only take
// longer.
func (a *applying) warnRenewals() {
	why := map[string][]addr.Noun{}
	for _, n := range a.renewals() {
		if m, ok := a.study.topology.Machine(n); ok {
			if w := a.whyBooted(m); w != "" {
				why[w] = append(why[w], n)
			}
		}
	}
	var ds diag.Diagnostics
	for _, w := range sortedKeys(why) {
		remedy, longer := `Let them be restored, or write isolation = "flush".`, "seconds"
		if w == diskCold {
			remedy, longer = `Write isolation = "flush".`, "a minute or more"
		}
		ds = append(ds, diag.Warnf("Machines are booted before each run", remedy,
			"%s: %s. The runs are the same, but each takes %s longer.", nounsText(why[w]), w, longer))
	}
	a.warn(ds)
}
