package server

import (
	"context"
	"errors"
	"os"

	"github.com/lvslab/lvslab/internal/agent/dnsload"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// reuseTimeWait lets a new connection take the ports of one that rests in
// TIME_WAIT, after a second at the earliest and with timestamps, so that no old
// segment is taken for a new one (ip-sysctl.rst). Every run uses the same source
// ports, and TIME_WAIT lasts 60 s.
const reuseTimeWait = "/proc/sys/net/ipv4/tcp_tw_reuse"

// generate runs the agent's own load generator.
func (f files) generate(ctx context.Context, spec proto.DNSLoadSpec) (proto.DNSLoadResult, error) {
	lines, err := f.read(ctx, proto.FileRef{Path: spec.Path})
	if err != nil {
		return proto.DNSLoadResult{}, err
	}
	if spec.Protocol == "tcp" {
		if err := os.WriteFile(reuseTimeWait, []byte("1"), 0o644); err != nil {
			return proto.DNSLoadResult{}, err
		}
	}
	if err := awaitStart(ctx, spec.StartNS); err != nil {
		return proto.DNSLoadResult{}, err
	}
	out, err := dnsload.Run(ctx, spec, lines.Data)
	if errors.Is(err, dnsload.ErrSpec) {
		err = fail(proto.CodeInvalid, spec.Path, "%v", err)
	}
	return out, err
}
