package operation

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
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
	// cold are the machines, by address, that are booted whatever there is.
	cold map[string]bool
	// serve are the machines that serve zones.
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

func (t *templates) kindOf(d schema.Domain) templateKind {
	return templateKind{d.Memory, d.VCPUs, t.serve[d.Address]}
}

// of returns the template of a machine, nil when it is to be booted.
func (t *templates) of(d schema.Domain) *libvirt.Template {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cold[d.Address] {
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

func (t *templates) put(k templateKind, one libvirt.Template) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds = map[templateKind]*libvirt.Template{}
	}
	t.kinds[k] = &one
}

// prepareTemplates finds or makes the templates of the machines that are to be
// created. What keeps one from being used costs time and nothing else: its
// machines are booted, and a warning says why.
func (a *applying) prepareTemplates(ctx context.Context) {
	a.templates.serve = map[string]bool{}
	for _, m := range a.study.topology.Machines {
		a.templates.serve[a.identity(m.Noun.String())] = len(m.Serves) > 0
		if a.bootsCold(m) {
			a.templates.bootCold(a.identity(m.Noun.String()))
		}
	}
	wanted := map[templateKind]schema.Domain{}
	asked := a.opts.Boot == BootRestore
	for _, d := range a.newDomains() {
		if !a.templates.isCold(d.Address) {
			wanted[a.templates.kindOf(d)] = d
		}
	}
	for _, m := range a.study.topology.Machines {
		asked = asked || m.Boot == BootRestore
	}
	if len(wanted) == 0 {
		return
	}
	if !a.embedded() {
		// Only the embedded libvirtd is known to be the build that the template
		// was saved by, and to read a pipe of ours.
		text := "Machines are booted: they are cloned from a template on the embedded hypervisor only."
		if asked {
			a.warn(diag.Diagnostics{diag.Warnf("Machines are booted and not restored", "Leave boot out, or use the embedded hypervisor.", "%s", text)})
		} else {
			a.Events.Emit(NoticeEvent{Text: text})
		}
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
	t := images.Template{Image: a.image.Key, Memory: d.Memory, Accelerator: string(a.accel)}
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
		CacheDir:  a.cache,
		Progress:  func(step string) { a.phase(PhaseTemplate, "progress", step) },
		Make:      func(ctx context.Context, dir, path string) error { return a.makeTemplate(ctx, k, base, d, dir, path) },
		Abandoned: endAbandoned,
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
	world, err := hypervisor.World(a.accel)
	if err != nil {
		return "", err
	}
	shape, err := libvirt.Shape(d)
	if err != nil {
		return "", err
	}
	return images.TemplateKey(templateFormat, world, shape, a.image.Digest, filepath.Base(a.image.withAgent), fmt.Sprint(k.named)), nil
}

// lineageFile names, in the directory of a template that is being made, the
// hypervisor that it is made in.
const lineageFile = "lineage"

// templateWithin bounds the making of a template. It takes 5 s on two idle
// cores.
const templateWithin = 3 * time.Minute

// makeTemplate makes a machine like d, booted or a clone of base, in a
// hypervisor that ends with this process, and saves it before it has an identity.
func (a *applying) makeTemplate(ctx context.Context, k templateKind, base *libvirt.Template, d schema.Domain, dir, path string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, templateWithin)
	defer cancel()
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails, crypto/rand says
	lineage := "template-" + hex.EncodeToString(random[:])
	if err := os.WriteFile(filepath.Join(dir, lineageFile), []byte(lineage), 0o644); err != nil {
		return err
	}
	a.phase(PhaseTemplate, "progress", k.String()+": a machine boots and is saved")
	uid, gid := ownerIDs()
	holder, err := hypervisor.Start(ctx, hypervisor.Options{
		Identity: hypervisor.Identity{Lineage: lineage, Lab: "template", LabDir: dir, UID: uid, GID: gid},
		CacheDir: a.cache, Accelerator: a.accel, Bound: true,
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, holder.Stop(ctx))
	}()
	conn, err := libvirt.DialPrivate(ctx, holder.LibvirtSocket())
	if err != nil {
		return err
	}
	defer conn.Close()
	p := libvirt.New(conn, libvirt.Options{
		Bridges: holder, ChannelPath: holder.ChannelPathInside, QEMULog: holder.QEMULog, PIDFile: holder.QEMUPIDFile, UID: uid, GID: gid,
		Pipe: holder.Pipe, Template: func(schema.Domain) *libvirt.Template { return base },
	})
	d.Name, d.UUID, d.Lineage, d.Address, d.Console = "template", uuid.NewString(), lineage, "template", filepath.Join(dir, "console.log")
	return p.SaveTemplate(ctx, d, path, func(ctx context.Context) error { return awaitTemplate(ctx, k, holder, d) })
}

// settle is how long a template stays up after its agent has answered: what the
// kernel had put off is done once, and not again in every clone.
const settle = time.Second

// awaitTemplate waits until the agent answers on every port and has started
// what belongs to the kind.
func awaitTemplate(ctx context.Context, k templateKind, holder *hypervisor.Holder, d schema.Domain) error {
	prepare := []string{proto.PrepareAgent, proto.PrepareCaches, proto.PrepareDirector, proto.PrepareMemory}
	if k.named {
		prepare = []string{proto.PrepareNamed, proto.PrepareAgent, proto.PrepareTunnels, proto.PrepareCaches, proto.PrepareMemory}
	}
	for _, port := range append(slices.Clone(proto.UserPorts), proto.EnginePort) {
		var start []string
		if port == proto.EnginePort {
			start = prepare
		}
		path := holder.ChannelSocket(d.Name, port)
		err := client.AwaitUnenrolled(ctx, d.Name, func(ctx context.Context) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", path)
		}, client.Console{Path: d.Console, Quiet: silentBoot}, start...)
		if err != nil {
			return fmt.Errorf("port %s: %w", port, err)
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settle):
		return nil
	}
}

// endAbandoned ends the hypervisor of a template whose making was killed. It
// has ended with its maker; what is left is its entry in the registry.
func endAbandoned(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, lineageFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return nil // killed before it had started one
	}
	return stopHolder(context.Background(), string(text))
}
