package ipvsmodel

import "math/bits"

// Hash32 is the kernel's multiplicative hash of 32 bits, reduced to its upper
// bits (include/linux/hash.h). dh and sh use 8 bits of the address in host
// order, lblc and lblcr 10.
func Hash32(x uint32, keep uint) uint32 { return x * 0x61C88647 >> (32 - keep) }

// The two fixed keys of mh (ip_vs_mh.c, generate_hash_secret): each stands for
// both halves of a SipHash key. Being fixed, they make mh the same everywhere.
const (
	mhKey1 uint64 = 2654435761
	mhKey2 uint64 = 2654446892
)

// hsiphash32 is hsiphash() of one 32-bit word on a 64-bit kernel, which is
// SipHash-1-3 cut to 32 bits (lib/siphash.c). Both key halves are key.
func hsiphash32(x uint32, key uint64) uint32 {
	v0, v1 := key^0x736f6d6570736575, key^0x646f72616e646f6d
	v2, v3 := key^0x6c7967656e657261, key^0x7465646279746573
	last := uint64(4)<<56 | uint64(x) // the length in the top byte
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return uint32(v0 ^ v1 ^ v2 ^ v3)
}

func sipRound(v0, v1, v2, v3 uint64) (_, _, _, _ uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
