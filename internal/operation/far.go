package operation

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/remote"
	"github.com/lvslab/lvslab/provider/libvirt"
)

// What lvslab keeps on another machine is all below one directory: images by what
// is in them, which stay, and for each lab its sockets and consoles, which go with
// it. It is not the user's home: QEMU's user must be able to enter it.
const (
	farHome   = "/var/lib/lvslab"
	farImages = farHome + "/images"
	farLabs   = farHome + "/labs"
)

// far is another machine that a lab lives on. Consoles that are written there
// are copied into the lab's directory here, so that all who read one find it.
type far struct {
	*remote.Host
	lineage string
	copies  *consoleCopies
}

var _ libvirt.Place = (*far)(nil)

// farOf returns the machine that a URI names, nil when it is this one.
func farOf(uri string) (*libvirt.Far, error) {
	if uri == embeddedURI {
		return nil, nil
	}
	t, err := libvirt.ParseURI(uri)
	return t.Far, err
}

// isFar reports whether a URI names another machine.
func isFar(uri string) bool {
	f, err := farOf(uri)
	return err == nil && f != nil
}

// openHost connects to the machine of a URI; it is nil when that is this one.
func openHost(ctx context.Context, uri string) (*remote.Host, error) {
	f, err := farOf(uri)
	if err != nil || f == nil {
		return nil, err
	}
	return remote.Open(ctx, remote.Spec{User: f.User, Host: f.Host, Port: f.Port, KeyFile: f.KeyFile, KnownHosts: f.KnownHosts})
}

// openFar is openHost for a lab, whose consoles are copied to dir from now on.
func openFar(ctx context.Context, uri, dir, lineage string) (*far, error) {
	h, err := openHost(ctx, uri)
	if err != nil || h == nil {
		return nil, err
	}
	f := &far{Host: h, lineage: lineage, copies: newConsoleCopies(h, path.Join(farLabDir(lineage), "console"), filepath.Join(dir, "console"))}
	f.copies.start()
	return f, nil
}

// close ends the copying, with what was written last, and the connection.
func (f *far) close() {
	if f == nil {
		return
	}
	f.copies.close()
	f.Host.Close()
}

// lostNotice is how long the loss of the connection may take to be known after
// something has broken with it.
const lostNotice = 2 * time.Second

// severed says why the connection has broken since then, nil when it has not.
func (f *far) severed(since time.Time) error {
	for end := time.Now().Add(lostNotice); ; time.Sleep(10 * time.Millisecond) {
		if why := f.Lost(since); why != nil || time.Now().After(end) {
			return why
		}
	}
}

// longestCall is longer than any call to libvirt may take: one that has failed now
// was made since.
const longestCall = 2 * time.Minute

// Create implements [libvirt.Place]: a new console is one here, too.
func (f *far) Create(ctx context.Context, name string, uid, gid int) error {
	return f.copies.renew(ctx, path.Base(name), func() error { return f.Host.Create(ctx, name, uid, gid) })
}

// farLabDir is a lab's directory on another machine. A socket's path ends at 107
// bytes, so it is short.
func farLabDir(lineage string) string { return path.Join(farLabs, lineage[:12]) }

// socketDir is where the sockets of a lab on a libvirt of the user's own are.
func socketDir(lineage string, isFar bool) string {
	if isFar {
		return farLabDir(lineage)
	}
	return channelDir(lineage)
}

// farOptions are the provider's for what a lineage has on another machine.
func farOptions(place libvirt.Place, lineage string) libvirt.Options {
	return libvirt.Options{
		Place: place, UID: -1, GID: -1, DropConsoles: true,
		ChannelPath: func(domain, port string) string {
			return path.Join(farLabDir(lineage), hypervisor.ChannelFile(domain, port))
		},
	}
}

// farClearWithin bounds the removal of a lab's directory there.
const farClearWithin = 30 * time.Second

// clearFar removes what may be left of a lab beside its machines: what was made
// for one that was never started, and parts of uploads.
func clearFar(ctx context.Context, h *remote.Host, lineage string) error {
	ctx, cancel := context.WithTimeout(ctx, farClearWithin)
	defer cancel()
	err := h.RemoveAll(ctx, farLabDir(lineage))
	_ = h.Remove(ctx, farLabs) // fails while another lab's are in it
	images, lerr := h.ReadDir(ctx, farImages)
	if lerr != nil && !errors.Is(lerr, fs.ErrNotExist) {
		err = errors.Join(err, lerr)
	}
	for _, d := range images {
		err = errors.Join(err, h.RemoveParts(ctx, path.Join(farImages, d.Name()), lineage[:12]))
	}
	return err
}

// farLabel is a lab's directory as a mark on another machine names it: whoever
// looks from elsewhere must see that the path means nothing to him.
func farLabel(dir string) string { return farOrigin() + ":" + dir }

// farOrigin is short for this machine.
func farOrigin() string {
	if id := thisHost().ID; id != "" {
		return id[:12]
	}
	return "unknown"
}

// fromLabel returns the directory that a mark names, and whether it is on another
// machine than this one.
func fromLabel(label string) (dir string, elsewhere bool) {
	if label == "" || filepath.IsAbs(label) {
		return label, false
	}
	origin, dir, _ := strings.Cut(label, ":")
	return dir, origin != farOrigin()
}

// shipment is what the machines boot from: files here and their names there.
type shipment map[string]cargo

// there is the name of a file on the machine that the lab lives on, which is its own
// when that is this one.
func (s shipment) there(here string) string {
	if c, known := s[here]; known {
		return c.to
	}
	return here
}

type cargo struct {
	what string
	file remote.File
	to   string
}

// cargoOf names a file there by what is in it. One that is not here, because the
// image is not built yet, keeps its name.
func cargoOf(what, name string) (cargo, error) {
	f, err := remote.Measure(name)
	if errors.Is(err, fs.ErrNotExist) {
		return cargo{what, remote.File{}, name}, nil
	}
	if err != nil {
		return cargo{}, fmt.Errorf("%s: %w", what, err)
	}
	return cargo{what, f, path.Join(farImages, f.SHA256[:16], what)}, nil
}

// load finds out what is to be shipped.
func (a *applying) load() (shipment, error) {
	s := shipment{}
	for _, g := range a.guests {
		for _, f := range bootFiles(g) {
			if _, known := s[f.name]; known || f.name == "" {
				continue
			}
			c, err := cargoOf(f.what, f.name)
			if err != nil {
				return nil, err
			}
			s[f.name] = c
		}
	}
	return s, nil
}

// bootFile is a file that machines boot from, and what it is.
type bootFile struct{ what, name string }

func bootFiles(g guestKind) []bootFile {
	return []bootFile{{"kernel", g.image.Kernel}, {"initramfs", g.image.withAgent}, {"root", g.image.Root}}
}

// ship uploads what is not there yet.
func (a *applying) ship(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(a.shipment)) {
		c := a.shipment[name]
		if c.file.Path == "" {
			continue
		}
		began := time.Now()
		uploaded, err := a.host.far.Put(ctx, c.file, c.to, a.host.far.lineage[:12])
		if err != nil {
			return fmt.Errorf("upload the %s: %w", c.what, err)
		}
		if uploaded {
			a.phase(PhaseImage, "progress", fmt.Sprintf("%s, %.1f MB, uploaded to %s in %.1f s", c.what, float64(c.file.Size)/1e6, a.host.far, time.Since(began).Seconds()))
		}
	}
	return nil
}

// farFacts is what another machine has, 0 and "" where it does not tell.
type farFacts struct {
	artifact.Host
	memory       uint64 // bytes available
	kernel, boot string // release of its kernel, id of its boot
	qemu         string // version, as libvirt tells
}

// facts reads them from the files that Linux shows them in.
func (f *far) facts(ctx context.Context) farFacts {
	read := func(name string) []byte {
		text, err := f.Tail(ctx, name, 1<<20)
		if err != nil {
			return nil
		}
		return text
	}
	facts := farFacts{Host: hostFrom(read, bytes.Count(read("/proc/cpuinfo"), []byte("processor\t")))}
	facts.kernel = strings.TrimSpace(string(read("/proc/sys/kernel/osrelease")))
	facts.boot = strings.TrimSpace(string(read("/proc/sys/kernel/random/boot_id")))
	for lines := bufio.NewScanner(bytes.NewReader(read("/proc/meminfo"))); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			facts.memory = kib << 10
		}
	}
	return facts
}

// farAccelerator asks the libvirt of another machine how it would run a machine.
func (a *applying) farAccelerator(ctx context.Context) error {
	if err := a.connectRunning(ctx); err != nil {
		return err
	}
	kvm, err := a.host.libvirt.KVM(ctx)
	if err != nil {
		return err
	}
	a.accel, a.accelWhy = hypervisor.TCG, "libvirt on "+a.host.far.String()+" offers no KVM"
	if kvm {
		a.accel, a.accelWhy = hypervisor.KVM, "libvirt on "+a.host.far.String()+" offers it"
	}
	a.farHas = a.host.far.facts(ctx)
	if a.farHas.qemu, err = a.host.conn.QEMUVersion(ctx); err != nil {
		return err
	}
	a.shipment, err = a.load()
	return err
}

// farCold is why machines on another machine are booted.
const farCold = "its hypervisor is on another machine, and restoring needs a file system that both see"

// warnFarRestores says so to who has asked for restoring.
func (a *applying) warnFarRestores() {
	asked := a.opts.Boot == BootRestore
	for _, m := range a.study.topology.Machines {
		asked = asked || m.Boot == BootRestore
	}
	if asked {
		a.warn(diag.Diagnostics{diag.Warnf("Booting instead of restoring", "", "The hypervisor is on %s, and restoring needs a file system that both see.", a.host.far)})
	}
}

// farShare is one connection to another machine for all that one command does
// with a lab there.
type farShare struct {
	mu    sync.Mutex
	far   *far
	users int
}

// take returns the connection, nil when the lab lives here, and what gives it back.
func (l lab) take(ctx context.Context) (*far, func(), error) {
	uri, foreign := foreignURI(l.state)
	if !foreign || !isFar(uri) || l.share == nil {
		return nil, func() {}, nil
	}
	s := l.share
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.far == nil {
		f, err := openFar(ctx, uri, l.dir, l.state.Lineage)
		if err != nil {
			return nil, nil, err
		}
		s.far = f
	}
	s.users++
	var once sync.Once
	return s.far, func() {
		once.Do(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.users--; s.users == 0 {
				s.far.close()
				s.far = nil
			}
		})
	}, nil
}
