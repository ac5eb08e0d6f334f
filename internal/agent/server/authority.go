package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// authority is a name server that is not BIND. It is started anew for every
// change of its configuration or zones: a start takes a tenth of what BIND's
// does, and the addresses to listen on can't change in a running one.
type authority struct {
	kind authorityKind
	life context.Context

	mu    sync.Mutex
	proc  *daemon // nil when never started or stopped
	spec  proto.NamedSpec
	files map[string]string // what was written
	// serials are those that were served after the last apply, mark is where the
	// log stood then.
	serials map[string]uint32
	mark    int
}

// authorityKind is what tells one name server from another.
type authorityKind interface {
	// user is whom it drops to; it owns the directory.
	user() string
	// conf is the name and the text of its configuration. What it names is
	// relative to the program's directory.
	conf(proto.NamedSpec) (name, text string)
	program(proto.NamedSpec) daemonProgram
	// serial asks on the control channel for a zone that was loaded with the
	// serial known; since are the lines logged after that. A zone that is not
	// served is an errNotServed. No counter of queries may see it.
	serial(ctx context.Context, zone string, known uint32, since []string) (uint32, error)
	// counters reads its statistics.
	counters(context.Context) (proto.NamedCounters, error)
}

func (a *authority) name() string { return a.kind.program(a.spec).name }

func (a *authority) apply(ctx context.Context, spec proto.NamedSpec) (proto.NamedState, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, namedWithin)
	defer cancel()
	want := a.wanted(spec)
	if a.proc == nil || !a.proc.running() || !maps.Equal(a.files, want) || a.touched(ctx) {
		if err := a.restart(spec, want); err != nil {
			return proto.NamedState{}, err
		}
	}
	a.spec = spec
	serials, err := a.answers(ctx)
	if err != nil {
		return proto.NamedState{}, err
	}
	a.serials, a.mark = serials, a.proc.mark()
	return a.state(ctx)
}

// wanted are the files of a configuration, by path relative to the directory.
func (a *authority) wanted(spec proto.NamedSpec) map[string]string {
	name, text := a.kind.conf(spec)
	files := map[string]string{name: text}
	for _, z := range spec.Zones {
		files[plainFile(z.Name)] = z.Text
	}
	return files
}

// touched reports whether somebody else has changed a file, or what is served.
func (a *authority) touched(ctx context.Context) bool {
	for name := range a.files {
		if a.foreign(name) {
			return true
		}
	}
	for zone, was := range a.serials {
		if v, err := a.kind.serial(ctx, zone, was, a.proc.since(a.mark)); err != nil || v != was {
			return true
		}
	}
	return false
}

func (a *authority) foreign(name string) bool {
	have, err := os.ReadFile(filepath.Join(a.dir(), name))
	return err != nil || string(have) != a.files[name]
}

func (a *authority) dir() string { return a.kind.program(a.spec).dir }

// restart ends what runs and starts it with other files.
func (a *authority) restart(spec proto.NamedSpec, files map[string]string) error {
	if a.proc != nil {
		a.proc.stop()
	}
	a.proc, a.files, a.serials = nil, nil, nil
	program := a.kind.program(spec)
	if err := os.RemoveAll(program.dir); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(program.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := giveTo(a.kind.user(), program.dir); err != nil {
		return err
	}
	p, err := program.start(a.life)
	if err != nil {
		return fail(proto.CodeUnsupported, program.name, "start: %v", err)
	}
	a.proc, a.files = p, files
	return nil
}

// answers waits for the zones. One that is refused makes the next apply start
// anew.
func (a *authority) answers(ctx context.Context) (map[string]uint32, error) {
	serials, err := awaitZones(ctx, a.proc, a.spec, func(at netip.Addr, zone string) (string, error) {
		lines := a.proc.since(0)
		for _, z := range a.spec.Zones {
			if reason := zoneError(lines, z); reason != "" {
				return "", fail(proto.CodeInvalid, z.Name, "%s refuses the zone: %s", a.name(), reason)
			}
		}
		return saidAbout(lines, at), nil
	}, a.name())
	if err != nil {
		a.files = nil
	}
	return serials, err
}

// state is what is on disk and served.
func (a *authority) state(ctx context.Context) (proto.NamedState, error) {
	if a.proc == nil || !a.proc.running() {
		return proto.NamedState{Server: a.spec.Server}, nil
	}
	conf, _ := a.kind.conf(a.spec)
	st := proto.NamedState{
		Server: a.spec.Server, Running: true, PID: a.proc.cmd.Process.Pid, Version: a.proc.versionText(), ServerID: a.spec.ServerID,
		Zones: map[string]string{}, Serials: map[string]uint32{}, Rewritten: a.foreign(conf),
	}
	for _, z := range a.spec.Zones {
		v, err := a.kind.serial(ctx, z.Name, a.serials[z.Name], a.proc.since(a.mark))
		switch {
		case errors.Is(err, errNotServed):
			continue
		case err != nil && !a.proc.running():
			return proto.NamedState{Server: a.spec.Server}, nil
		case err != nil:
			return st, fail(proto.CodeFailed, z.Name, "%s does not say whether it serves the zone: %v", a.name(), err)
		}
		st.Serials[z.Name] = v
		text, err := os.ReadFile(filepath.Join(a.dir(), plainFile(z.Name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return st, err
		}
		st.Zones[z.Name] = hashText(string(text))
		if was := a.serials[z.Name]; was != v {
			st.Zones[z.Name] = hashText("serial " + strconv.FormatUint(uint64(v), 10))
		}
	}
	var err error
	st.Listen, err = boundTo(dnsPort)
	return st, err
}

func (a *authority) read(ctx context.Context) (proto.NamedState, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state(ctx)
}

func (a *authority) stop() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.proc != nil {
		a.proc.stop()
	}
	dir := a.dir()
	a.proc, a.spec, a.files, a.serials = nil, proto.NamedSpec{}, nil, nil
	return os.RemoveAll(dir)
}

func (a *authority) stats(ctx context.Context) (proto.NamedCounters, error) {
	ctx, cancel := context.WithTimeout(ctx, statsWithin)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.proc == nil || !a.proc.running() {
		return proto.NamedCounters{}, fail(proto.CodeNotFound, a.name(), "is not running")
	}
	c, err := a.kind.counters(ctx)
	if err != nil {
		return c, fail(proto.CodeFailed, a.name(), "statistics: %v", err)
	}
	c.Started = a.proc.started.UTC().Format("2006-01-02T15:04:05.000Z")
	snmp, err := readSNMP("/proc/net/snmp")
	c.UDPRcvErrors = snmp["Udp.RcvbufErrors"]
	return c, err
}

// listens are the addresses that the configuration names: those of the spec and
// the loopback device, for people in the guest. Each gets a socket of its own,
// so that an answer leaves from the address that was asked.
func listens(spec proto.NamedSpec) []netip.Addr {
	all := append([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, spec.Listen...)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// zoneError finds what a name server has logged against a zone, "" when nothing:
//
//	error: zones/lab.test.zone:4: invalid IPv4 address '1.2.3'         (nsd)
//	error: [lab.test.] zone loader, error in zone file '…', line 4 (…) (knotd)
//	error: parse error zones/lab.test.zone 5:11: Conversion error, …   (unbound)
func zoneError(lines []string, z proto.ZoneFile) string {
	for _, l := range lines {
		text, bad := strings.CutPrefix(l, "error: ")
		if bad && (strings.Contains(text, plainFile(z.Name)) || strings.HasPrefix(text, "["+z.Name+".]") || strings.HasPrefix(text, "zone "+z.Name+" ")) {
			return withSource(strings.TrimPrefix(text, "zones/"), z)
		}
	}
	return ""
}

// saidAbout quotes the last thing that was logged about an address.
func saidAbout(lines []string, at netip.Addr) string {
	for _, l := range slices.Backward(lines) {
		if strings.Contains(l, "error") && strings.Contains(l, at.String()) {
			return "; it says: " + l
		}
	}
	return ""
}

// notServed is errNotServed with what was said.
func notServed(said any) error { return fmt.Errorf("%w: %v", errNotServed, said) }

// plainFile is zoneFile without percent signs, which begin formatters of a file's
// name in nsd.conf and knot.conf.
func plainFile(zone string) string { return strings.ReplaceAll(zoneFile(zone), "%", "=") }
