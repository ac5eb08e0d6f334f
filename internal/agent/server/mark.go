package server

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerMarks(s *Server) {
	Handle(s, proto.MarkApply, markApply)
	Handle(s, proto.MarkRead, markRead)
	Handle(s, proto.MarkDelete, func(ctx context.Context, ref proto.MarkRef) (proto.None, error) {
		_, err := nft(ctx, markScript(proto.MarkSpec{MarkRef: ref})+fmt.Sprintf("delete chain %s %s\n", markTable(ref), markChain(ref)), "-f", "-")
		return proto.None{}, err
	})
}

func markApply(ctx context.Context, spec proto.MarkSpec) (proto.MarkSpec, error) {
	if spec.Mark == 0 {
		return spec, fail(proto.CodeInvalid, "0", "a packet without a mark has the mark 0")
	}
	for _, t := range spec.Targets {
		if t.Protocol != "udp" && t.Protocol != "tcp" || t.At.Addr().Is4() == spec.IPv6 {
			return spec, fail(proto.CodeInvalid, t.At.String(), "a mark cannot be put on %s to it", t.Protocol)
		}
	}
	if _, err := nft(ctx, markScript(spec), "-f", "-"); err != nil {
		return spec, err
	}
	have, err := markRead(ctx, spec.MarkRef)
	if err == nil && !slices.EqualFunc(spec.Targets, have.Targets, func(a, b proto.MarkTarget) bool { return a.Protocol == b.Protocol && a.At == b.At }) {
		err = fail(proto.CodeMismatch, fmt.Sprint(spec.Mark), "the mark reads back on %v, set on %v", have.Targets, spec.Targets)
	}
	return have, err
}

func markRead(ctx context.Context, ref proto.MarkRef) (proto.MarkSpec, error) {
	out := proto.MarkSpec{MarkRef: ref}
	// The whole ruleset: asking for a table that is not there is an error.
	text, err := nft(ctx, "", "-j", "list", "ruleset")
	if err != nil {
		return out, err
	}
	var found bool
	if out.Targets, found, err = marked([]byte(text), ref); err == nil && !found {
		err = fail(proto.CodeNotFound, fmt.Sprint(ref.Mark), "nothing puts the mark on packets")
	}
	return out, err
}

func markTable(ref proto.MarkRef) string {
	if ref.IPv6 {
		return "ip6 lvslab"
	}
	return "ip lvslab"
}

func markChain(ref proto.MarkRef) string { return fmt.Sprintf("mark%d", ref.Mark) }

// markScript makes the chain of a mark with these rules and no others. It hooks
// in where packets arrive, at the priority of mangling: IPVS looks at the mark
// later, where they are delivered (ip_vs_core.c, ip_vs_ops4, LOCAL_IN).
func markScript(spec proto.MarkSpec) string {
	table, chain := markTable(spec.MarkRef), markChain(spec.MarkRef)
	var b strings.Builder
	fmt.Fprintf(&b, "add table %s\n", table)
	fmt.Fprintf(&b, "add chain %s %s { type filter hook prerouting priority -150; policy accept; }\n", table, chain)
	fmt.Fprintf(&b, "flush chain %s %s\n", table, chain)
	for _, t := range spec.Targets {
		family, _, _ := strings.Cut(table, " ")
		fmt.Fprintf(&b, "add rule %s %s %s daddr %s %s dport %d counter meta mark set %d\n",
			table, chain, family, t.At.Addr(), t.Protocol, t.At.Port(), spec.Mark)
	}
	return b.String()
}

// nft runs nftables' command, which changes everything or nothing.
func nft(ctx context.Context, script string, args ...string) (string, error) {
	path, err := lookPath("nft")
	if err != nil {
		return "", fail(proto.CodeUnsupported, "nft", "the guest has no nftables")
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environment()
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fail(proto.CodeFailed, "nft", "%s", strings.TrimSpace(string(failed.Stderr)))
	}
	return string(out), err
}
