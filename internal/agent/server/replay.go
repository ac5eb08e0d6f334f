package server

import (
	"context"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/conformance"
)

func registerReplay(s *Server) {
	Handle(s, proto.Replay, func(_ context.Context, spec proto.ReplaySpec) (proto.ReplayResult, error) {
		return conformance.Replay(spec.Script)
	})
}
