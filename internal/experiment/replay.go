package experiment

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/load"
	"github.com/lvslab/lvslab/internal/replay"
)

// replayed feeds the model of IPVS with the packets that the captures show and
// writes what came of it into the rows. A run without LVS has none.
func (out *measured) replayed(r *artifact.Run, backends []artifact.BackendRow) {
	if out.direct() {
		return // nothing of it was IPVS's
	}
	s := out.trial.Treatment.Setting
	in := replay.Input{
		Kernel: out.before.kernel, Before: out.services(out.before.fresh.Services), After: out.services(out.stats.Services), Sysctl: out.before.fresh.Sysctl,
		Clients: s.Clients, Seen: s.Seen, Names: map[netip.Addr]string{},
	}
	for _, b := range out.cast.service.RealServers {
		in.Names[b.Address] = b.Backend.String()
	}
	for _, c := range out.stats.Conns {
		if out.holds(c) {
			in.Conns = append(in.Conns, c)
		}
	}
	var err error
	if in.Packets, err = replay.Sent(out.matched.Queries, out.matched.Segments, out.cast.service.Port); err != nil {
		out.replay = replay.Result{Scope: replay.None, Limits: []string{err.Error()}}
	} else {
		out.replay = replay.Run(in)
	}
	out.replay.Fill(r, backends)
}

// services are the services of the run.
func (out *measured) services(list []proto.IPVSService) []proto.IPVSService {
	var mine []proto.IPVSService
	for _, s := range list {
		if out.mine(s.IPVSKey) {
			mine = append(mine, s)
		}
	}
	return mine
}

// addReplay keeps what the model needs beside queries.csv, which is TCP's
// segments, and the events that show a difference when there is one.
func (out *measured) addReplay(files map[string][]byte) error {
	if len(out.matched.Segments) > 0 {
		var b bytes.Buffer
		if err := load.WriteSegments(&b, out.matched.Segments); err != nil {
			return fmt.Errorf("%s: %w", load.SegmentsFile, err)
		}
		files[load.SegmentsFile] = b.Bytes()
	}
	if out.replay.Script != nil {
		files[replay.ScriptFile] = out.replay.Script
	}
	return nil
}
