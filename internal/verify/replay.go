package verify

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/load"
	"github.com/lvslab/lvslab/internal/replay"
)

// readReplay reads what the model needs beside the other files; none of it is
// there in a run over UDP in which nothing differs.
func (r *raw) readReplay(file func(string) ([]byte, error)) error {
	data, err := file(load.SegmentsFile)
	if err == nil {
		r.segments, err = load.ReadSegments(bytes.NewReader(data))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.script, err = file(replay.ScriptFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replayed feeds the model with the packets of a run again: its words in the
// tables and its script must come out the same.
func replayed(c *Check, kernel string, r artifact.Run, rows []artifact.BackendRow, t trial, data *raw) {
	if r.Replay == "" { // a result from before there was a replay
		return
	}
	words := data.replay(kernel, rows, t)
	want, wantRows := r, slices.Clone(rows)
	words.Fill(&want, wantRows)
	w := runRow(c, r)
	w.text("replay", r.Replay, want.Replay)
	w.text("replay_limits", strings.Join(r.ReplayLimits, ";"), strings.Join(want.ReplayLimits, ";"))
	w.maybe("replay_rows", r.ReplayRows, want.ReplayRows)
	w.maybe("replay_rows_differ", r.ReplayRowsDiffer, want.ReplayRowsDiffer)
	w.text("kernel_differs", r.KernelDiffers, want.KernelDiffers)
	for i, b := range rows {
		w := backendRow(c, b)
		w.maybe("replayed_decisions", b.ReplayedDecisions, wantRows[i].ReplayedDecisions)
		w.maybe("replayed_packets", b.ReplayedPackets, wantRows[i].ReplayedPackets)
	}
	if !bytes.Equal(data.script, words.Script) {
		c.fail(artifact.RawDir+"/"+r.RunID+"/"+replay.ScriptFile, "", "is not what follows from the packets of the run")
	}
}

func (data *raw) replay(kernel string, rows []artifact.BackendRow, t trial) replay.Result {
	s := t.Treatment.Setting
	vips, port := data.target(s)
	in := replay.Input{Kernel: kernel, Sysctl: data.fresh.Sysctl, Clients: s.Clients, Seen: s.Seen, Names: map[netip.Addr]string{}}
	own := func(list []proto.IPVSService) (mine []proto.IPVSService) {
		for _, svc := range list {
			if data.mine(svc.IPVSKey, s, vips, port) {
				mine = append(mine, svc)
			}
		}
		return mine
	}
	in.Before, in.After = own(data.fresh.Services), own(data.settled.Services)
	for _, b := range rows {
		if a, err := netip.ParseAddr(b.Address); err == nil {
			in.Names[a] = b.Backend
		}
	}
	for _, c := range data.conns {
		row := proto.IPVSConn{Protocol: c.protocol, Client: c.client, Virtual: c.virtual, Dest: c.dest, State: c.state, Expires: c.expires}
		if c.of(s, vips, port) || replay.MarkTemplate(row, s.Mark) {
			in.Conns = append(in.Conns, row)
		}
	}
	var err error
	if in.Packets, err = replay.Sent(data.queries, data.segments, port); err != nil {
		return replay.Result{Scope: replay.None, Limits: []string{err.Error()}}
	}
	return replay.Run(in)
}
