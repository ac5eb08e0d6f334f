package operation

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/guest"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// host is the hypervisor of a lab as this operation reaches it: the embedded
// one, whose holder process owns everything, or a libvirt of the user's own.
type host struct {
	holder    *hypervisor.Holder // nil when the lab lives on the user's libvirt
	far       *far               // nil unless that one is on another machine
	conn      *libvirt.Conn
	libvirt   *libvirt.Provider
	nodes     *nodes
	providers *plan.Providers
	// template says what a new machine is cloned from, observe hears how it
	// comes up. Both are set, or nil, while nothing is being created.
	template func(d schema.Domain) *libvirt.Template
	observe  func(d schema.Domain, s libvirt.Step, why error)
	guest    *guestPorts // nil = the engine's port
}

// embeddedURI is the default of provider "libvirt".
const embeddedURI = "embedded"

// findHolder returns the lab's holder if one runs. Gone is proven, everything
// that is not known is an error.
func findHolder(ctx context.Context, lineage string) (*hypervisor.Holder, error) {
	h, status, err := hypervisor.Find(ctx, lineage)
	switch {
	case err != nil:
		return nil, err
	case status == hypervisor.Running:
		return h, nil
	default:
		return nil, nil
	}
}

// startHolder starts the lab's hypervisor and records it. The intent is synced
// before: a holder that nobody recorded is found by its lineage. visible are
// files that its machines read.
func startHolder(ctx context.Context, store *state.Store, lab, cacheDir string, accel hypervisor.Accelerator, visible []string, bond *os.File) (*hypervisor.Holder, error) {
	uid, gid := ownerIDs()
	seq, err := store.Begin(state.Intent{Op: opStartHypervisor, Subject: "lab." + lab})
	if err != nil {
		return nil, err
	}
	h, err := hypervisor.Start(ctx, hypervisor.Options{
		Identity: hypervisor.Identity{Lineage: store.State().Lineage, Lab: lab, LabDir: store.Dir(), UID: uid, GID: gid},
		CacheDir: cacheDir, Accelerator: accel, Visible: visible, Bond: bond,
	})
	if err != nil {
		return nil, errors.Join(err, store.End(seq, err))
	}
	if err := recordHolder(store, h); err != nil {
		return nil, err
	}
	return h, store.End(seq, nil)
}

func recordHolder(store *state.Store, h *hypervisor.Holder) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return store.Update(func(s *state.State) error { s.Hypervisor = raw; return nil })
}

// recordFound resolves the intents of commands that were killed while they started
// a hypervisor: the one that was found runs and is recorded, or none does.
func recordFound(store *state.Store, found *hypervisor.Holder) error {
	for _, in := range store.Pending() {
		if in.Op != opStartHypervisor {
			continue
		}
		if found != nil {
			if err := recordHolder(store, found); err != nil {
				return err
			}
		}
		if err := store.End(in.Seq, nil); err != nil {
			return err
		}
	}
	return nil
}

// Names of the intents that are not a provider's call.
const (
	opStartHypervisor plan.Op = "start-hypervisor"
	opExperiment      plan.Op = "experiment"
	opConclude        plan.Op = "conclude"
	opPlant           plan.Op = "plant"
)

// naming says by what a machine of the topology is known elsewhere.
type naming struct {
	hostname func(node string) string // in the guest
	domain   func(node string) string // on the hypervisor
	identity func(node string) string // in keys and consoles
}

func asItIs(node string) string { return node }

// plainNames is for those who only take away.
var plainNames = naming{asItIs, asItIs, asItIs}

// connect opens libvirt and prepares the providers. holder is nil when uri
// names a libvirt of the user's own.
func connect(ctx context.Context, dir, lineage string, keys *keyring, holder *hypervisor.Holder, uri string, names naming) (_ *host, err error) {
	h := &host{holder: holder}
	if holder == nil {
		if h.far, err = openFar(ctx, uri, dir, lineage); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			h.far.close()
		}
	}()
	opts, socket := h.arranged(dir, lineage)
	opts.Template = func(d schema.Domain) *libvirt.Template {
		if h.template == nil {
			return nil
		}
		return h.template(d)
	}
	opts.Observe = func(d schema.Domain, s libvirt.Step, why error) {
		if h.observe != nil {
			h.observe(d, s, why)
		}
	}
	if holder != nil {
		h.conn, err = libvirt.DialPrivate(ctx, holder.LibvirtSocket())
	} else {
		h.conn, err = libvirt.DialAt(ctx, opts.Place, uri)
	}
	if err != nil {
		return nil, err
	}
	h.libvirt = libvirt.New(h.conn, opts)
	h.nodes = &nodes{
		keys: keys, name: names.hostname, identity: names.identity,
		console: func(node string) string { return consolePath(dir, names.identity(node)) },
		open: func(node string) func(context.Context) (net.Conn, error) {
			return func(ctx context.Context) (net.Conn, error) {
				port, err := h.guest.port(names.identity(node))
				if err != nil {
					return nil, err
				}
				return opts.Place.Dial(ctx, socket(names.domain(node), port))
			}
		},
	}
	if h.far != nil {
		h.nodes.severed = h.far.severed
	}
	h.providers, err = plan.NewProviders(h.libvirt, guest.New(h.nodes.caller))
	return h, err
}

// arranged says how the hypervisor of a host is arranged, and where this process
// finds the sockets of its machines.
func (h *host) arranged(dir, lineage string) (opts libvirt.Options, socket func(domain, port string) string) {
	switch {
	case h.far != nil:
		opts = farOptions(h.far, lineage)
		opts.Dir = farLabel(dir)
		opts.Host = func(context.Context) error { return h.far.severed(time.Now().Add(-longestCall)) }
		return opts, opts.ChannelPath
	case h.holder != nil:
		opts = libvirt.Options{
			Place: libvirt.Here{}, Bridges: h.holder, Pipe: h.holder.Pipe,
			ChannelPath: h.holder.ChannelPathInside, QEMULog: h.holder.QEMULog, PIDFile: h.holder.QEMUPIDFile,
			Host: func(ctx context.Context) error { return holderState(ctx, h.holder) },
		}
		opts.UID, opts.GID = ownerIDs()
		return opts, h.holder.ChannelSocket
	}
	socket = func(domain, port string) string {
		return filepath.Join(channelDir(lineage), hypervisor.ChannelFile(domain, port))
	}
	opts = libvirt.Options{Place: libvirt.Here{}, ChannelPath: socket, Pipe: pipesIn(channelDir(lineage)), Dir: dir}
	opts.UID, opts.GID = ownerIDs()
	return opts, socket
}

// holderState tells the provider whether the hypervisor behind a broken
// connection lives.
func holderState(ctx context.Context, h *hypervisor.Holder) error {
	status, err := h.Check(ctx)
	switch {
	case err != nil:
		return err
	case status == hypervisor.Gone:
		return &hypervisorDied{h.Died()}
	}
	return nil
}

// hypervisorDied is the death of the hypervisor with its own diagnostic; for
// the engine it means that what it held is proven gone.
type hypervisorDied struct{ error }

func (e *hypervisorDied) Is(target error) bool { return target == provider.ErrGone }
func (e *hypervisorDied) Unwrap() error        { return e.error }

// offline returns providers that can plan but reach nothing: for a lab whose
// hypervisor does not run.
func offline() (*plan.Providers, error) {
	return plan.NewProviders(libvirt.New(nil, libvirt.Options{}), guest.New(nil))
}

// close ends the connections; what runs goes on running.
func (h *host) close() {
	if h == nil {
		return
	}
	h.nodes.close()
	h.guest.release()
	h.conn.Close()
	h.far.close()
}

// stopHolder kills a lab's hypervisor with all that is in it, and proves it.
func stopHolder(ctx context.Context, lineage string) error {
	h, _, err := hypervisor.Find(ctx, lineage)
	if h == nil && err != nil {
		return err
	}
	if h == nil {
		// Whoever was starting one may have died between the claim of its entry
		// and the start of its process.
		h = &hypervisor.Holder{Lineage: lineage}
	}
	// One that has ended by itself is stopped as well: its entry in the
	// machine's registry goes with it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return h.Stop(ctx)
}

// consolePath is where lower has a machine's console logged.
func consolePath(dir, node string) string {
	n, err := addr.ParseNoun(node)
	if err != nil {
		return ""
	}
	return lower.ConsolePath(dir, n)
}

// channelDir is where sockets live when the user's own libvirt makes them: a
// Unix socket's path ends at 107 bytes, so it is not the lab's directory.
func channelDir(lineage string) string {
	return filepath.Join(runDir(), lineage[:12])
}

func runDir() string {
	run := os.Getenv("XDG_RUNTIME_DIR")
	if run == "" || os.Getuid() == 0 {
		run = "/run"
	}
	return filepath.Join(run, "lvslab")
}

// pipesIn has domains restored through FIFOs in a directory that libvirtd sees
// as this process does: the one of the sockets, which must be such a directory.
func pipesIn(dir string) func(domain string) (inside, outside string) {
	return func(domain string) (inside, outside string) {
		path := filepath.Join(dir, hypervisor.ChannelFile(domain, "pipe"))
		return path, path
	}
}
