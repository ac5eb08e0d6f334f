package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// embedded reports whether the lab runs on the private hypervisor.
func (a *applying) embedded() bool { return a.study.topology.Provider.URI == embeddedURI }

// far reports whether the lab runs on another machine.
func (a *applying) far() bool { return isFar(a.study.topology.Provider.URI) }

// sameHypervisor refuses a topology that names another hypervisor than the one
// that the lab lives on: what is there would not be found, and taken for gone.
func (a *applying) sameHypervisor() error {
	st := a.state()
	uri, foreign := foreignURI(st)
	if !foreign {
		uri = embeddedURI
	}
	if lives := a.holder != nil || foreign && len(st.Resources) > 0; !lives || uri == a.study.topology.Provider.URI {
		return nil
	}
	return diag.Fail(nil, "The lab lives on another hypervisor", "Take it down first with 'lvslab destroy "+st.Lab+"', or name its hypervisor again.",
		"it was made on %q, and the topology names %q", uri, a.study.topology.Provider.URI)
}

// connectRunning connects to the hypervisor if the lab's runs already.
func (a *applying) connectRunning(ctx context.Context) error {
	if a.embedded() && a.holder == nil || a.host != nil {
		return nil
	}
	var err error
	a.host, err = connect(ctx, a.dir, a.state().Lineage, a.keys, a.holder, a.study.topology.Provider.URI, naming{a.hostname, a.domainName, a.identity})
	if err == nil {
		// A clone that an earlier apply was killed over is enrolled by whoever
		// calls it first, which is the look at what there is.
		a.host.nodes.fate, a.host.nodes.mac, a.host.nodes.disk = a.fate, a.firstMAC, a.diskOf
		err = a.visit()
	}
	return err
}

// hostname is what a machine calls itself.
func (a *applying) hostname(node string) string {
	n, err := addr.ParseNoun(node)
	if err != nil {
		return node
	}
	return a.study.layout.Machines[n].Hostname
}

// domainName is a machine's name on the hypervisor.
func (a *applying) domainName(node string) string {
	n, err := addr.ParseNoun(node)
	if err != nil {
		return node
	}
	if m, wanted := a.study.layout.Machines[n]; wanted {
		return m.Domain
	}
	st := a.state() // it is on its way out
	r, _ := st.Resource(addr.Resource{Noun: n, Part: schema.TypeDomain})
	v, err := r.Value(schema.DomainSchema)
	if err != nil {
		return ""
	}
	d, _ := schema.DomainFrom(v) // without a name when it is not recorded
	return d.Name
}

// identity is the address that a machine had when it was made: by it are its
// keys, its console and its mark known.
func (a *applying) identity(node string) string {
	n, err := addr.ParseNoun(node)
	if err != nil {
		return node
	}
	if _, wanted := a.study.layout.Machines[n]; wanted {
		return a.study.layout.Identity(n).String()
	}
	if id, other := a.state().Identities[n]; other {
		return id.String()
	}
	return node
}

// firstMAC is the hardware address of a machine's first card.
func (a *applying) firstMAC(node string) string {
	n, err := addr.ParseNoun(node)
	if err != nil || len(a.study.layout.Machines[n].NICs) == 0 {
		return ""
	}
	return a.study.layout.Machines[n].NICs[0].MAC
}

// providers returns the providers for planning: the connected ones, or ones
// that reach nothing while no hypervisor runs.
func (a *applying) providers() (*plan.Providers, error) {
	if a.host != nil {
		return a.host.providers, nil
	}
	return offline()
}

// makeRoom records the addresses and makes the directories of the lab, before
// the first effect.
func (a *applying) makeRoom() error {
	if err := os.MkdirAll(filepath.Join(a.dir, "console"), 0o755); err != nil {
		return fmt.Errorf("directory of the consoles: %w", err)
	}
	if uid, gid := ownerIDs(); uid != os.Getuid() {
		if err := os.Lchown(filepath.Join(a.dir, "console"), uid, gid); err != nil {
			return fmt.Errorf("directory of the consoles: %w", err)
		}
	}
	if err := a.writeMoves(); err != nil {
		return err
	}
	if err := a.recordDrift(); err != nil { // what was seen replaces what was remembered
		return err
	}
	return a.store.Update(func(s *state.State) (err error) {
		s.Addresses, s.Lab = a.study.addresses, a.study.topology.Lab.Name
		s.Hidden, err = a.hidden(*s)
		return err
	})
}

// create starts the hypervisor if need be and carries the plan out.
func (a *applying) create(ctx context.Context) error {
	if len(a.wanted) > 0 {
		if err := a.tryOwnKernels(ctx); err != nil {
			return err
		}
		a.prepareTemplates(ctx)
		if err := a.startHypervisor(ctx); err != nil {
			return err
		}
	} else if a.embedded() {
		return nil // everything goes with the hypervisor
	}
	a.phase(PhaseCreate, "started", "")
	progress := a.newProgress()
	a.greeting = a.newGreeting()
	done := a.making(progress.cameUp, func(node string, e *proto.Enrolled) { a.learnKernel(node, e); progress.enrolledOne() })
	res := walk.Run(ctx, a.changes, walk.Options{
		Providers: a.host.providers, Recorder: a.store.Recorder(), Parallelism: a.parallelism(),
		Aside: a.greeting.notOnItsWay, Deadline: a.callWithin,
		Abort: a.Abort, Observe: func(e walk.Event) { progress.observe(e); a.greeting.observe(ctx, e) },
	})
	done()
	if err := res.Err(); err != nil {
		a.greeting.answered() // nobody asks a machine that is being taken down
		return err
	}
	a.timings.ConfiguredS = a.since()
	a.phase(PhaseConfigure, "done", "links, tunnels, zones, services as declared, read back")
	return nil
}

// making prepares the hypervisor's connections for making machines: what they
// are cloned from, what happens to a boot that hangs, who hears of it. The
// function that it returns ends that: from then on a machine that was made once
// more on the way would lack its settings.
func (a *applying) making(cameUp func(schema.Domain, libvirt.Step, error), enrolled func(string, *proto.Enrolled)) func() {
	h := a.host
	h.template, h.observe = a.templates.of, cameUp
	h.nodes.remake, h.nodes.enrolled = a.remake, enrolled
	h.nodes.isClone = func(node string) bool { return a.templates.isClone(a.identity(node)) }
	return func() { h.template, h.observe, h.nodes.remake, h.nodes.enrolled = nil, nil, nil, nil }
}

// startHypervisor starts the private hypervisor. Resources that the state holds
// are gone with an earlier one, proven by the registry's lock.
func (a *applying) startHypervisor(ctx context.Context) error {
	if err := recordFound(a.store, a.holder); err != nil {
		return err
	}
	if a.embedded() && a.holder == nil {
		a.phase(PhaseHypervisor, "started", "private libvirtd")
		if err := a.store.Empty(nil); err != nil {
			return err
		}
		var err error
		if a.holder, err = startHolder(ctx, a.store, a.study.topology.Lab.Name, a.cache, a.accel, a.disksShown(), a.Bond); err != nil {
			return err
		}
	}
	if err := a.connectRunning(ctx); err != nil {
		return err
	}
	if a.embedded() {
		a.phase(PhaseHypervisor, "done", fmt.Sprintf("process %d holds the lab, machines run on %s: %s", a.holder.PID, a.accel, a.accelWhy))
		return nil
	}
	raw, err := json.Marshal(foreignHypervisor{URI: a.study.topology.Provider.URI})
	if err != nil {
		return err
	}
	err = a.store.Update(func(s *state.State) error { s.Hypervisor = raw; return nil })
	if err != nil || !a.far() {
		return err
	}
	a.warnFarRestores()
	if err := a.ship(ctx); err != nil {
		return err
	}
	a.phase(PhaseHypervisor, "done", fmt.Sprintf("libvirt on %s, machines boot there on %s: %s", a.host.far, a.accel, a.accelWhy))
	return nil
}

// foreignHypervisor is what the state keeps of a libvirt of the user's own.
type foreignHypervisor struct {
	URI string `json:"uri"`
}

// foreignURI returns the libvirt of the user's own that a lab lives on, and
// whether it does.
func foreignURI(st state.State) (string, bool) {
	var f foreignHypervisor
	if len(st.Hypervisor) == 0 || json.Unmarshal(st.Hypervisor, &f) != nil {
		return "", false
	}
	return f.URI, f.URI != ""
}

// remake makes a machine whose boot has hung or failed anew.
func (a *applying) remake(ctx context.Context, node string, why error) error {
	r, v, _, err := a.domain(node)
	if err != nil {
		return err
	}
	res := provider.Resource{Addr: r.Addr, Type: r.Type, Attrs: v, DependsOn: r.DependsOn}
	failed := diag.Warnf("The boot of "+node+" failed", "", "%s; it is booted once more", bootReason(why))
	if a.templates.isClone(a.identity(node)) {
		failed = diag.Warnf("The clone "+node+" does not answer", "", "%s; it is booted", bootReason(why))
		a.templates.doubt(a.identity(node))
	}
	a.Events.Emit(DiagnosticEvent{Diagnostics: diag.Diagnostics{failed}})
	rec := a.store.Recorder()
	seq, err := rec.Begin(plan.Create, res) // puts it in doubt until it is there again
	if err != nil {
		return err
	}
	made := v
	if err = a.host.libvirt.Delete(ctx, res, v); err == nil {
		made, err = a.host.libvirt.Create(ctx, res)
	}
	if err != nil {
		return errors.Join(err, rec.Made(seq, res, v, err))
	}
	return rec.Made(seq, res, made, nil)
}

// bootReason is why a boot was given up, in few words.
func bootReason(why error) string {
	var boot *client.BootError
	if errors.As(why, &boot) {
		return boot.Reason
	}
	return inOneLine(why)
}

// takeDownForeign deletes what a lab has on a libvirt of the user's own.
func (s *Settings) takeDownForeign(ctx context.Context, store *state.Store) error {
	uri, foreign := foreignURI(store.State())
	if !foreign {
		return nil
	}
	if _, err := store.Recover(); err != nil { // what was being made may exist
		return err
	}
	st := store.State()
	keys, err := openKeys(store.Dir(), store)
	if err != nil {
		return err
	}
	h, err := connect(ctx, store.Dir(), st.Lineage, keys, nil, uri, plainNames)
	if err != nil {
		return err
	}
	defer h.close()
	existing, err := st.Existing(h.providers)
	if err != nil {
		return err
	}
	p, err := diff.Compute(diff.Input{Providers: h.providers, Have: existing})
	if err != nil {
		return err
	}
	err = walk.Run(ctx, p, walk.Options{Providers: h.providers, Recorder: store.Recorder(), Abort: s.Abort}).Err()
	if h.far != nil {
		if err == nil {
			err = clearFar(ctx, h.far.Host, st.Lineage)
		}
		return err
	}
	_ = os.Remove(runDir()) // the directory of the sockets' directories, when that was the last
	return err
}
