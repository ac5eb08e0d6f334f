package ipvsmodel

import (
	"encoding/binary"
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
