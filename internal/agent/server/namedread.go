package server

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// errNotServed is an answer that is not the zone's: named is there and does not
// have it.
var errNotServed = errors.New("the zone is not served")

func (n *named) read(ctx context.Context, _ proto.None) (proto.NamedState, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state(ctx, nil)
}

// state is what is on disk and served, which need not be what apply was told:
// somebody may have rewritten a file, with or without a reload, or killed named.
// Zones whose serial has just been answered are not asked for again.
func (n *named) state(ctx context.Context, answered map[string]uint32) (proto.NamedState, error) {
	if n.proc == nil || !n.proc.running() {
		return proto.NamedState{}, nil
	}
	st := proto.NamedState{
		Running: true, PID: n.proc.cmd.Process.Pid, Version: n.proc.versionText(), ServerID: n.spec.ServerID,
		Zones: map[string]string{}, Serials: map[string]uint32{}, Rewritten: n.foreign(namedConfFile),
	}
	for _, z := range n.spec.Zones {
		v, known := answered[z.Name]
		var err error
		if !known {
			v, err = n.served(ctx, z.Name)
		}
		switch {
		case errors.Is(err, errNotServed):
			continue
		case err != nil && !n.proc.running():
			return proto.NamedState{}, nil
		case err != nil:
			return st, fail(proto.CodeFailed, z.Name, "named does not answer for the zone: %v", err)
		}
		st.Serials[z.Name] = v
		st.Zones[z.Name] = hashText(readText(zoneFile(z.Name)))
		if was, known := n.serials[z.Name]; known && was != v {
			st.Zones[z.Name] = hashText("serial " + strconv.FormatUint(uint64(v), 10))
		}
	}
	var err error
	st.Listen, err = boundTo(dnsPort)
	return st, err
}

// stateTries is how often a name server that runs is asked before it counts as
// mute: on a host with much else to do one answer in some hundred comes late.
const stateTries = 4

// served returns the serial that named serves. It asks on the control channel: a
// query would be counted as one, and somebody may look at a lab while an experiment
// counts its queries. A named without the channel, or with another key, is one that
// somebody else has started; it gets the query.
func (n *named) served(ctx context.Context, zone string) (v uint32, err error) {
	v, err = controlSerial(ctx, namedControlAt, n.key, zone)
	if err == nil || errors.Is(err, errNotServed) {
		return v, err
	}
	at := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for range stateTries {
		if v, err = serial(ctx, at, zone); err == nil || errors.Is(err, errNotServed) || ctx.Err() != nil {
			break
		}
	}
	return v, err
}

// forgetForeign removes the files that somebody else has changed, and those of
// zones that are served from another text, so that the next write makes them anew.
// With a new time of change named loads them again.
func (n *named) forgetForeign(ctx context.Context) {
	var names []string
	for name := range n.files {
		if n.foreign(name) {
			names = append(names, name)
		}
	}
	if n.proc != nil && n.proc.running() {
		for zone, was := range n.serials {
			if v, err := n.served(ctx, zone); err != nil || v != was {
				names = append(names, zoneFile(zone))
			}
		}
	}
	for _, name := range names {
		delete(n.files, name)
		_ = os.Remove(filepath.Join(namedDir, name)) // what stays is overwritten
	}
}

// foreign reports whether a file that was written is not on disk as it was.
func (n *named) foreign(name string) bool {
	text, written := n.files[name]
	return written && readText(name) != text
}

// readText returns a file of named's, "" when it cannot be read.
func readText(name string) string {
	b, err := os.ReadFile(filepath.Join(namedDir, name))
	if err != nil {
		return ""
	}
	return string(b)
}
