package ipvsmodel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Fold is the IPv4 address that stands for an IPv6 one in the model: the exclusive
// or of its four words, which is all that dh, sh, mh, lblc and lblcr see of it
// (ip_vs_dh.c, ip_vs_dh_hashkey, and the same in the others). Two addresses with one
// fold are one to the model, so the caller has to see to it that no two have. An IPv4
// address stands for itself.
func Fold(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	b := a.As16()
	var x uint32
	for i := 0; i < len(b); i += 4 {
		x ^= binary.BigEndian.Uint32(b[i:])
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, x)))
}

// Folds are the addresses that were folded: folded → real.
type Folds map[netip.Addr]netip.Addr

// Fold folds an address and remembers it. A second one with the same fold is an
// [ErrUnknown]: the model would take both for one.
func (f Folds) Fold(a netip.Addr) (netip.Addr, error) {
	to := Fold(a)
	if o, taken := f[to]; taken && o != a {
		return to, fmt.Errorf("%s and %s look alike to the kernel's hashes: %w", o, a, ErrUnknown)
	}
	f[to] = a
	return to, nil
}
