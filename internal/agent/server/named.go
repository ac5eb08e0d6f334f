package server

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// prepare starts named with nothing to serve and without an id: what it gets
// later costs neither a start nor a reload.
func (n *named) prepare(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	spec := proto.NamedSpec{ServerID: byHostname}
	if _, _, err := n.write(spec); err != nil {
		return err
	}
	n.spec = spec
	if err := n.load(ctx, spec, nil); err != nil {
		return err
	}
	n.prepared = true
	return nil
}

// named is the guest's name server. One call at a time works on it.
type named struct {
	life  context.Context
	mu    sync.Mutex
	proc  *daemon           // nil when never started or stopped
	spec  proto.NamedSpec   // what was loaded
	files map[string]string // what was written
	key   controlKey
	// serials are those that were served after the last apply.
	serials map[string]uint32
	// prepared: it runs as prepare has left it.
	prepared bool
}

// namedWithin bounds an apply whose caller set no deadline. A start takes 0.7 s
// under emulation.
const namedWithin = 30 * time.Second

func (n *named) apply(ctx context.Context, spec proto.NamedSpec) (proto.NamedState, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, namedWithin)
	defer cancel()
	n.forgetForeign(ctx)
	changed, zones, err := n.write(spec)
	if err != nil {
		return proto.NamedState{}, err
	}
	if changed || n.proc == nil || !n.proc.running() {
		added := n.addTo(ctx, spec)
		n.prepared = false
		if !added {
			if err := n.load(ctx, spec, zones); err != nil {
				return proto.NamedState{}, err
			}
		}
	}
	n.spec = spec
	serials, err := n.answers(ctx)
	if err != nil {
		return proto.NamedState{}, err
	}
	n.serials = nil // whatever is served now is ours
	st, err := n.state(ctx, serials)
	n.serials = st.Serials
	return st, err
}

// write brings the files up to date. It reports whether any has changed, and of
// which zones.
func (n *named) write(spec proto.NamedSpec) (changed bool, zones []string, _ error) {
	want := namedFiles(spec, n.key)
	if err := os.MkdirAll(filepath.Join(namedDir, "zones"), 0o755); err != nil {
		return false, nil, err
	}
	for name := range n.files {
		if _, still := want[name]; !still {
			changed = true
			if err := os.Remove(filepath.Join(namedDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, nil, err
			}
		}
	}
	for name, text := range want {
		if old, ok := n.files[name]; ok && old == text {
			continue
		}
		changed = true
		if err := os.WriteFile(filepath.Join(namedDir, name), []byte(text), 0o644); err != nil {
			return false, nil, err
		}
	}
	for _, z := range spec.Zones {
		if old, ok := n.files[zoneFile(z.Name)]; !ok || old != z.Text {
			zones = append(zones, z.Name)
		}
	}
	if n.files == nil {
		if err := giveTo("bind", namedDir); err != nil {
			return false, nil, err
		}
	}
	n.files = want
	return changed, zones, nil
}

// giveTo makes a user the owner of a directory: named drops to it and writes there.
func giveTo(name, dir string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return fail(proto.CodeUnsupported, name, "the guest has no such user: %v", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}

// load starts named or makes it read everything again, and waits until it has.
// A refused zone is an error; the others are served meanwhile. Its files count
// as not written, so that the next apply loads again. zones are those with
// another text than before.
func (n *named) load(ctx context.Context, spec proto.NamedSpec, zones []string) error {
	if err := forgetAddedZones(); err != nil {
		return err
	}
	mark := 0
	if n.proc == nil || !n.proc.running() {
		zones = zonesOf(spec)
		p, err := namedProgram.start(n.life)
		if err != nil {
			return fail(proto.CodeUnsupported, "named", "start: %v", err)
		}
		n.proc = p
	} else {
		mark = n.proc.mark()
		if err := n.proc.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			return fail(proto.CodeFailed, "named", "reload: %v", err)
		}
	}
	lines, err := n.proc.await(ctx, mark, zones)
	problems := zoneProblems(lines, spec)
	if err == nil && len(problems) == 0 && !failedReload(lines) {
		return nil
	}
	n.files = nil
	switch {
	case len(problems) > 0:
		return fail(proto.CodeInvalid, problems[0].zone, "named refuses the zone: %s", problems[0].reason)
	case errors.Is(err, context.DeadlineExceeded):
		return fail(proto.CodeTimeout, "named", "%v", err)
	case err != nil:
		return fail(proto.CodeFailed, "named", "%v", err)
	}
	return fail(proto.CodeFailed, "named", "reload: %s", reasonOfEnd(lines))
}

func zonesOf(spec proto.NamedSpec) []string {
	var names []string
	for _, z := range spec.Zones {
		names = append(names, z.Name)
	}
	return names
}

func failedReload(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, reloadFailed) })
}

// answers waits until named answers for every zone.
func (n *named) answers(ctx context.Context) (map[string]uint32, error) {
	return awaitZones(ctx, n.proc, n.spec, func(at netip.Addr, _ string) (string, error) { return n.whyNotListening(at), nil }, "named")
}

// whyNotListening quotes what named has logged about an address.
func (n *named) whyNotListening(at netip.Addr) string {
	for _, l := range n.proc.grep("could not listen") {
		if strings.Contains(l, at.String()+"#") {
			return "; named says: " + l
		}
	}
	return ""
}

func (n *named) stop(context.Context, proto.None) (proto.None, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		n.proc.stop()
	}
	n.proc, n.spec, n.files, n.serials = nil, proto.NamedSpec{}, nil, nil
	return proto.None{}, os.RemoveAll(namedDir)
}
