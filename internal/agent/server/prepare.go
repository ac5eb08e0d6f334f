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

// prepareDirector reads the files of IPVS, its schedulers and what they need,
// so that no clone has to unpack them.
func prepareDirector(context.Context) error {
	dir := "/lib/modules/" + kernelRelease()
	files, err := moduleFiles(dir, "ip_vs")
	if err != nil {
		return err
	}
	schedulers, err := filepath.Glob(dir + "/kernel/net/netfilter/ipvs/ip_vs_*")
	if err != nil {
		return err
	}
	for _, f := range files {
		schedulers = append(schedulers, path.Join(dir, f))
	}
	for _, f := range schedulers {
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
