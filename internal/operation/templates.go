package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// The values of boot on machines and of apply --boot.
const (
	BootCold    = "cold"
	BootRestore = "restore"
)

// templates are those that the machines of one apply are cloned from.
type templates struct {
	mu    sync.Mutex
	kinds map[templateKind]*libvirt.Template
	// cold are the machines, by address, that are booted whatever there is,
	// doubted those whose clone did not answer: they are booted this time.
	cold, doubted map[string]bool
	// serve are the machines that serve zones with BIND.
	serve map[string]bool
	// clones are the machines that this apply has cloned.
	clones map[string]bool
	// failed is why a kind has no template: what cannot be made is tried once.
	failed map[templateKind]error
}

// templateKind is what tells the machines of a lab apart for a template.
type templateKind struct {
	memory int64
	vcpus  int
	root   string // path of the image's root: each image has templates of its own
	// named says that named runs in it, without a zone. Its start costs 1.0 s of
	// CPU time under emulation, a reload 0.2 s.
	named bool
}

func (k templateKind) String() string {
	if k.named {
		return fmt.Sprintf("machines with %d MiB and named", k.memory>>20)
	}
	return fmt.Sprintf("machines with %d MiB", k.memory>>20)
}

// runsNamed reports whether a machine's name server is one that a template has
// running already.
func runsNamed(m lang.Machine) bool { return len(m.Serves) > 0 && m.Server == "" }

func (t *templates) kindOf(d schema.Domain) templateKind {
	return templateKind{d.Memory, d.VCPUs, d.Root, t.serve[d.Address]}
}

// of returns the template of a machine, nil when it is to be booted.
func (t *templates) of(d schema.Domain) *libvirt.Template {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cold[d.Address] || t.doubted[d.Address] {
		return nil
	}
	return t.kinds[t.kindOf(d)]
}

// bootCold has a machine booted from now on.
func (t *templates) bootCold(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cold == nil {
		t.cold = map[string]bool{}
	}
	t.cold[address] = true
}

// doubt has a machine booted whose clone did not answer.
func (t *templates) doubt(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.doubted == nil {
		t.doubted = map[string]bool{}
	}
	t.doubted[address] = true
}

// trustAgain has machines cloned again whose last clone did not answer.
func (t *templates) trustAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubted = nil
}

func (t *templates) put(k templateKind, one libvirt.Template) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds = map[templateKind]*libvirt.Template{}
	}
	t.kinds[k] = &one
}

// prepareTemplates finds or makes the templates of the machines that are to be
// created, now or before a run. What keeps one from being used costs time and
// nothing else: its machines are booted, and a warning says why.
func (a *applying) prepareTemplates(ctx context.Context) {
	a.templates.serve = map[string]bool{}
	for _, m := range a.study.topology.Machines {
		a.templates.serve[a.identity(m.Noun.String())] = runsNamed(m)
		if a.bootsCold(m) {
			a.templates.bootCold(a.identity(m.Noun.String()))
		}
	}
	wanted := map[templateKind]schema.Domain{}
	for _, d := range append(a.newDomains(), a.renewedDomains()...) {
		if !a.templates.isCold(d.Address) {
			wanted[a.templates.kindOf(d)] = d
		}
	}
	if len(wanted) == 0 {
		return
	}
	for kind, d := range wanted {
		t, err := a.template(ctx, kind, d)
		if err != nil {
			if ctx.Err() == nil {
				a.warnBooted("There is no template for "+kind.String()+": they are booted.", err)
			}
			continue
		}
		a.templates.put(kind, t)
	}
}

// newDomains returns the domains that the plan creates.
func (a *applying) newDomains() []schema.Domain {
	var list []schema.Domain
	for _, c := range a.changes.Changes {
		if c.Type != schema.TypeDomain || c.Action != provider.Create && c.Action != provider.Replace {
			continue
		}
		if d, err := schema.DomainFrom(c.Want.Attrs); err == nil {
			list = append(list, d)
		}
	}
	return list
}

// renewedDomains returns the domains that are made anew before runs, with each
// image that they boot.
func (a *applying) renewedDomains() []schema.Domain {
	list := domainsAmong(a.wanted, a.renewals())
	for _, images := range a.otherImages() {
		wanted, err := a.wantedWith(images)
		if err != nil {
			continue // the run says so
		}
		list = append(list, domainsAmong(wanted, slices.Collect(maps.Keys(images)))...)
	}
	return list
}

// domainsAmong returns the domains of machines.
func domainsAmong(wanted []provider.Resource, machines []addr.Noun) []schema.Domain {
	var list []schema.Domain
	for _, r := range wanted {
		if r.Type != schema.TypeDomain || !slices.Contains(machines, r.Addr.Noun) {
			continue
		}
		if d, err := schema.DomainFrom(r.Attrs); err == nil {
			list = append(list, d)
		}
	}
	return list
}

func (t *templates) setClone(address string, is bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clones == nil {
		t.clones = map[string]bool{}
	}
	t.clones[address] = is
}

func (t *templates) isClone(address string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clones[address]
}

func (t *templates) isCold(address string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cold[address]
}

// warnBooted says that something is booted that was to be cloned; what ends in
// "is booted" or "are booted".
func (a *applying) warnBooted(what string, err error) {
	var known *diag.Failure
	detail, remedy := what, ""
	if !errors.As(err, &known) {
		detail += "\n" + strings.TrimSpace(err.Error())
	} else {
		for _, d := range diag.From(err) {
			detail += "\n" + strings.TrimSuffix(d.Summary+": "+d.Detail, ": ")
			remedy = cmp.Or(remedy, d.Remedy)
		}
	}
	a.warn(diag.Diagnostics{diag.Warnf("Booting instead of restoring", remedy, "%s", detail)})
}

// template returns the template of a kind, for domains like d, made when the
// cache has none.
func (a *applying) template(ctx context.Context, k templateKind, d schema.Domain) (libvirt.Template, error) {
	if err := a.templates.failed[k]; err != nil {
		return libvirt.Template{}, err
	}
	t, err := a.findOrMake(ctx, k, d)
	if err != nil {
		if a.templates.failed == nil {
			a.templates.failed = map[templateKind]error{}
		}
		a.templates.failed[k] = err
	}
	return t, err
}

func (a *applying) findOrMake(ctx context.Context, k templateKind, d schema.Domain) (libvirt.Template, error) {
	img := a.imageOf(d)
	t := images.Template{Image: img.Key, Initramfs: filepath.Base(img.withAgent), Memory: d.Memory, Accelerator: string(a.accel)}
	if k.named {
		t.Running = proto.PrepareNamed
	}
	var err error
	if t.Key, err = a.templateKey(k, d); err != nil {
		return libvirt.Template{}, err
	}
	found, ok, err := images.FindTemplate(a.cache, t.Image, t.Key)
	if ok {
		return libvirt.Template{Path: found.Path, Key: found.Key}, nil
	}
	if err != nil {
		a.warn(diag.Diagnostics{diag.Warnf("The template is made anew", "", "%s", err.Error())})
	}
	var base *libvirt.Template
	if k.named { // a clone of the one without, as every other
		plain := k
		plain.named = false
		b, err := a.template(ctx, plain, d)
		if err != nil {
			return libvirt.Template{}, err
		}
		base = &b
	}
	a.phase(PhaseTemplate, "started", k.String()+": one is made, and cloned from then on")
	began := time.Now()
	t, err = images.BuildTemplate(ctx, t, images.TemplateOptions{
		CacheDir: a.cache,
		Progress: func(step string) { a.phase(PhaseTemplate, "progress", step) },
		Make: func(ctx context.Context, dir, path string) error {
			return a.makeTemplate(ctx, making{k, base, d, dir, path})
		},
		Abandoned: endAbandoned(ctx),
	})
	if err != nil {
		return libvirt.Template{}, err
	}
	a.phase(PhaseTemplate, "done", fmt.Sprintf("%s: %s, %.0f MB (%.1f s)", k, t.Key, float64(t.Size)/1e6, time.Since(began).Seconds()))
	return libvirt.Template{Path: t.Path, Key: t.Key}, nil
}

// templateFormat changes when a template must be made anew although nothing
// that it is made of has changed.
const templateFormat = "6"

// templateKey holds everything that a saved machine depends on: the programs,
// its shape (machine type, processor, memory, devices, command line) and the
// contents of kernel, root image, initramfs and agent.
func (a *applying) templateKey(k templateKind, d schema.Domain) (string, error) {
	if a.worldErr != nil {
		return "", a.worldErr
	}
	img := a.imageOf(d)
	shape, err := libvirt.Shape(d)
	if err != nil {
		return "", err
	}
	return images.TemplateKey(templateFormat, a.world, shape, img.Digest, filepath.Base(img.withAgent), fmt.Sprint(k.named)), nil
}

// findWorld finds out what the machines of this lab would be saved by: see
// [hypervisor.World]. A libvirt of the user's own tells its versions; that an
// update has changed neither of them is seen by the programs themselves, when
// they are those of this machine.
func (a *applying) findWorld(ctx context.Context) (string, error) {
	world, err := hypervisor.World(a.accel)
	if a.embedded() {
		return world, err
	}
	if err != nil {
		world = ""
	}
	if a.host == nil {
		return "", errors.New("libvirt is not connected")
	}
	own, err := a.host.libvirt.World(ctx)
	return own + "\n" + world, err
}
