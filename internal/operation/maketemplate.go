package operation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// Files in the directory of a template that is being made. They name what its
// machine lives in, so that it can be found when its maker has died.
const (
	// lineageFile holds the lineage of the machine and of its hypervisor.
	lineageFile = "lineage"
	// libvirtFile holds the URI of the user's libvirt, when it is made there.
	libvirtFile = "libvirt"
)

// templateWithin bounds the making of a template. It takes 5 s on two idle
// cores.
const templateWithin = 3 * time.Minute

// discardWithin bounds the removal of what it was made with.
const discardWithin = 30 * time.Second

// making is one template that is being made.
type making struct {
	kind templateKind
	// base is what its machine is a clone of, nil when it is booted.
	base *libvirt.Template
	// like is a machine that is going to be cloned from it.
	like schema.Domain
	// dir is its own for as long as this takes, path where it is saved to.
	dir, path string
}

// makeTemplate makes a machine like one of the lab, and saves it before it has
// an identity: in a hypervisor that ends with this process, or on the user's
// own libvirt, when the lab lives there.
func (a *applying) makeTemplate(ctx context.Context, m making) error {
	ctx, cancel := context.WithTimeout(ctx, templateWithin)
	defer cancel()
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails, crypto/rand says
	lineage := "template-" + hex.EncodeToString(random[:])
	a.phase(PhaseTemplate, "progress", m.kind.String()+": a machine boots and is saved")
	if a.embedded() {
		return a.makeInPrivate(ctx, m, lineage)
	}
	return a.makeOnForeign(ctx, m, lineage)
}

func (a *applying) makeInPrivate(ctx context.Context, m making, lineage string) (err error) {
	if err := os.WriteFile(filepath.Join(m.dir, lineageFile), []byte(lineage), 0o644); err != nil {
		return err
	}
	uid, gid := ownerIDs()
	holder, err := hypervisor.Start(ctx, hypervisor.Options{
		Identity: hypervisor.Identity{Lineage: lineage, Lab: "template", LabDir: m.dir, UID: uid, GID: gid},
		CacheDir: a.cache, Accelerator: a.accel, Bound: true,
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardWithin)
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
		Pipe: holder.Pipe, Template: func(schema.Domain) *libvirt.Template { return m.base },
	})
	return m.save(ctx, p, lineage, holder.ChannelSocket)
}

// makeOnForeign makes it on the libvirt that the lab lives on: that one's QEMU
// has to restore it. Nothing there ends with this process, so what is going to
// be there is written down first.
func (a *applying) makeOnForeign(ctx context.Context, m making, lineage string) (err error) {
	err = errors.Join(os.WriteFile(filepath.Join(m.dir, libvirtFile), []byte(a.study.topology.Provider.URI), 0o644),
		os.WriteFile(filepath.Join(m.dir, lineageFile), []byte(lineage), 0o644))
	if err != nil {
		return err
	}
	p := libvirt.New(a.host.conn, foreignOptions(lineage, m.base))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardWithin)
		defer cancel()
		err = errors.Join(err, p.DiscardTemplate(ctx, lineage))
	}()
	return m.save(ctx, p, lineage, foreignOptions(lineage, nil).ChannelPath)
}

// foreignOptions are those for the machine of a template on the user's libvirt.
func foreignOptions(lineage string, base *libvirt.Template) libvirt.Options {
	dir := filepath.Join(runDir(), lineage)
	uid, gid := ownerIDs()
	return libvirt.Options{
		ChannelPath: func(domain, port string) string { return filepath.Join(dir, hypervisor.ChannelFile(domain, port)) },
		Pipe:        pipesIn(dir), UID: uid, GID: gid,
		Template: func(schema.Domain) *libvirt.Template { return base },
	}
}

// save makes the machine and saves it when it is ready.
func (m making) save(ctx context.Context, p *libvirt.Provider, lineage string, socket func(domain, port string) string) error {
	d, own := m.like, libvirt.TemplateDomain(lineage)
	d.Name, d.UUID, d.Lineage, d.Address, d.Console = own.Name, own.UUID, own.Lineage, own.Address, filepath.Join(m.dir, "console.log")
	return p.SaveTemplate(ctx, d, m.path, func(ctx context.Context) error { return m.await(ctx, d, socket) })
}

// settle is how long a template stays up after its agent has answered: what the
// kernel had put off is done once, and not again in every clone.
const settle = time.Second

// await waits until the agent answers on every port and has started what
// belongs to the kind.
func (m making) await(ctx context.Context, d schema.Domain, socket func(domain, port string) string) error {
	prepare := []string{proto.PrepareAgent, proto.PrepareCaches, proto.PrepareDirector, proto.PrepareMemory}
	if m.kind.named {
		prepare = []string{proto.PrepareNamed, proto.PrepareAgent, proto.PrepareTunnels, proto.PrepareCaches, proto.PrepareMemory}
	}
	for _, port := range append(slices.Clone(proto.UserPorts), proto.EnginePort) {
		var start []string
		if port == proto.EnginePort {
			start = prepare
		}
		path := socket(d.Name, port)
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

// endAbandoned returns a function that removes what a template was made with
// whose maker was killed. A private hypervisor has ended with its maker; what is
// left is its entry in the registry. On the user's libvirt, all of it is left.
func endAbandoned(ctx context.Context) func(dir string) error {
	return func(dir string) error {
		lineage, err := readNote(dir, lineageFile)
		if err != nil || lineage == "" {
			return err // killed before it had started anything
		}
		uri, err := readNote(dir, libvirtFile)
		if err != nil {
			return err
		}
		if uri == "" {
			return stopHolder(ctx, lineage)
		}
		conn, err := libvirt.Dial(ctx, uri)
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(ctx, discardWithin)
		defer cancel()
		return libvirt.New(conn, foreignOptions(lineage, nil)).DiscardTemplate(ctx, lineage)
	}
}

// readNote returns a file's content, "" when there is none.
func readNote(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}
