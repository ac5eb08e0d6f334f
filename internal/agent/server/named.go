package server

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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

func registerNamed(s *Server) {
	n := &named{life: s.life, key: newControlKey()}
	Handle(s, proto.NamedApply, n.apply)
	Handle(s, proto.NamedRead, n.read)
	Handle(s, proto.NamedStop, n.stop)
	Handle(s, proto.NamedStats, namedStats)
	s.preparations[proto.PrepareNamed] = n.prepare
}

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
	proc  *namedProcess     // nil when never started or stopped
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
		p, err := startNamed(n.life)
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

// answerEvery is the pause between tries to get an answer. A new address is
// noticed by named's interface scan within a second.
const answerEvery = 20 * time.Millisecond

// answers waits until every address to listen on answers for every zone: each
// zone is asked for at the first address, the first zone at the others. It returns
// the zones' serials.
func (n *named) answers(ctx context.Context) (map[string]uint32, error) {
	serials := map[string]uint32{}
	for i, a := range n.spec.Listen {
		for j, z := range n.spec.Zones {
			if i > 0 && j > 0 {
				break
			}
			v, err := n.awaitAnswer(ctx, a, z.Name)
			if err != nil {
				return nil, err
			}
			serials[z.Name] = v
		}
	}
	return serials, nil
}

func (n *named) awaitAnswer(ctx context.Context, at netip.Addr, zone string) (uint32, error) {
	for {
		v, err := serial(ctx, at, zone)
		if err == nil {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return 0, fail(proto.CodeTimeout, at.String(), "named does not answer for %s at this address: %v%s", zone, err, n.whyNotListening(at))
		case <-n.proc.exited:
			return 0, fail(proto.CodeFailed, "named", "ended: %s", reasonOfEnd(n.proc.grep("")))
		case <-time.After(answerEvery):
		}
	}
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

// serialTimeout bounds one SOA query, milliseconds; an answer on the same
// machine takes about 2 ms under emulation.
const serialTimeout = 500

func serial(ctx context.Context, at netip.Addr, zone string) (uint32, error) {
	answer, err := query(ctx, proto.QuerySpec{Server: at, Name: zone, Type: "SOA", TimeoutMS: serialTimeout})
	switch {
	case err != nil:
		return 0, err
	case answer.Refused:
		return 0, errors.New("port 53 is closed")
	case answer.Rcode != "NOERROR" || len(answer.Answers) == 0:
		return 0, fmt.Errorf("%w: answer %s without SOA", errNotServed, answer.Rcode)
	case answer.Source != at:
		return 0, fmt.Errorf("the answer came from %s", answer.Source)
	}
	fields := strings.Fields(answer.Answers[0])
	if len(fields) != 7 {
		return 0, fmt.Errorf("unreadable SOA %q", answer.Answers[0])
	}
	v, err := strconv.ParseUint(fields[2], 10, 32)
	return uint32(v), err
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

// boundTo lists the addresses, loopback left out, on which a UDP socket has
// that port.
func boundTo(port uint16) ([]netip.Addr, error) {
	found := []netip.Addr{}
	for _, file := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		found = append(found, parseBound(f, port)...)
		f.Close()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}

// parseBound reads /proc/net/udp: the second column is the local address in
// hexadecimal, each group of 32 bits in the machine's byte order (little-endian).
func parseBound(r io.Reader, port uint16) []netip.Addr {
	var found []netip.Addr
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		host, service, _ := strings.Cut(fields[1], ":")
		p, err := strconv.ParseUint(service, 16, 16)
		raw, err2 := hex.DecodeString(host)
		if err != nil || err2 != nil || uint16(p) != port || len(raw)%4 != 0 {
			continue
		}
		for i := 0; i < len(raw); i += 4 {
			slices.Reverse(raw[i : i+4])
		}
		if a, ok := netip.AddrFromSlice(raw); ok && !a.IsLoopback() {
			found = append(found, a)
		}
	}
	return found
}
