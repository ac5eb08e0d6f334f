package server

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerPreparations(s *Server) {
	s.preparations[proto.PrepareAgent] = s.rehearse
	s.preparations[proto.PrepareTunnels] = prepareTunnels
	s.preparations[proto.PrepareDirector] = prepareDirector
}

// prepareTunnels loads the modules of IPIP, the usual tunnel: 0.15 s under
// emulation. The fallback device that comes with them is down.
func prepareTunnels(ctx context.Context) error {
	kind := tunnelKinds["ipip"]
	for _, m := range kind.modules {
		if err := loadModule(ctx, m); err != nil {
			return err
		}
	}
	return setFallbackDown(kind.fallback)
}

// prepareDirector loads what IPVS depends on and reads its own file and those of
// its schedulers, so that no clone has to unpack them. IPVS itself draws the
// secret of its table when it is loaded (ip_vs_conn.c, ip_vs_conn_init), which is
// for each clone to do; the modules before it draw theirs with the first packet
// that they track (nf_conntrack_core.c, get_random_once).
func prepareDirector(context.Context) error {
	dir := "/lib/modules/" + kernelRelease()
	files, err := moduleFiles(dir, "ip_vs")
	if err != nil {
		return err
	}
	if len(files) == 0 { // built in
		return nil
	}
	own := len(files) - 1
	for _, f := range files[:own] {
		if err := LoadModuleFile(path.Join(dir, f)); err != nil {
			return err
		}
	}
	schedulers, err := filepath.Glob(dir + "/kernel/net/netfilter/ipvs/ip_vs_*")
	if err != nil {
		return err
	}
	for _, f := range append(schedulers, path.Join(dir, files[own])) {
		if err := readThrough(f); err != nil {
			return err
		}
	}
	return nil
}

func readThrough(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}
