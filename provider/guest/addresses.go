package guest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func parsePrefixes(texts []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return nil, fmt.Errorf("address: %w", err)
		}
		out[i] = p
	}
	return out, nil
}

func parseAddr(t string) (netip.Addr, error) {
	if t == "" {
		return netip.Addr{}, nil
	}
	return netip.ParseAddr(t)
}

func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// declared returns the addresses that were read in the words of those declared
// when they mean the same: the kernel lists them in an order of its own.
func declared(read []netip.Prefix, want []string) []string {
	if p, err := parsePrefixes(want); err == nil && slices.Equal(proto.KernelOrder(p), proto.KernelOrder(read)) {
		return want
	}
	out := make([]string, len(read))
	for i, p := range read {
		out[i] = p.String()
	}
	return out
}
