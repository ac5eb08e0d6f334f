package server

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// keepAll is the snapshot length that stands for whole frames.
const keepAll = 1 << 18

// Outcomes of a test in the filter's program, resolved to jumps by assemble.
const (
	next = -1 - iota // go on
	keep
	drop
)

// test is one comparison: what happens when it is true and when not.
type test struct {
	load    []bpf.Instruction // before it
	cond    bpf.JumpTest
	val     uint32
	yes, no int // next, keep, drop, or the index of a test
}

// captureFilter is a classic BPF program for Ethernet frames. It keeps UDP and
// TCP packets of IPv4 and IPv6 that have the port at either end, later
// fragments of IPv4 UDP (their port is not in them), and ICMP errors.
func captureFilter(port uint16, snaplen int) ([]bpf.RawInstruction, error) {
	if snaplen <= 0 {
		snaplen = keepAll
	}
	at := func(off, size uint32) []bpf.Instruction {
		return []bpf.Instruction{bpf.LoadAbsolute{Off: off, Size: int(size)}}
	}
	header := bpf.LoadMemShift{Off: 14} // X = 4 * IHL
	behind := func(off uint32, size int) []bpf.Instruction {
		return []bpf.Instruction{header, bpf.LoadIndirect{Off: off, Size: size}}
	}
	const v6, v4ports, v4icmp = 10, 6, 8
	tests := []test{
		{load: at(12, 2), cond: bpf.JumpEqual, val: unix.ETH_P_IPV6, yes: v6, no: next},       // 0
		{cond: bpf.JumpEqual, val: unix.ETH_P_IP, yes: next, no: drop},                        // 1
		{load: at(23, 1), cond: bpf.JumpEqual, val: unix.IPPROTO_ICMP, yes: v4icmp, no: next}, // 2
		{cond: bpf.JumpEqual, val: unix.IPPROTO_TCP, yes: v4ports, no: next},                  // 3
		{cond: bpf.JumpEqual, val: unix.IPPROTO_UDP, yes: next, no: drop},                     // 4
		{load: at(20, 2), cond: bpf.JumpBitsSet, val: 0x1fff, yes: keep, no: next},            // 5: a later fragment
		{load: behind(14, 2), cond: bpf.JumpEqual, val: uint32(port), yes: keep, no: next},    // 6
		{load: behind(16, 2), cond: bpf.JumpEqual, val: uint32(port), yes: keep, no: drop},    // 7
		{load: behind(14, 1), cond: bpf.JumpEqual, val: 3, yes: keep, no: next},               // 8: unreachable
		{cond: bpf.JumpEqual, val: 11, yes: keep, no: drop},                                   // 9: time exceeded
		{load: at(20, 1), cond: bpf.JumpEqual, val: unix.IPPROTO_ICMPV6, yes: 15, no: next},   // 10
		{cond: bpf.JumpEqual, val: unix.IPPROTO_TCP, yes: 13, no: next},                       // 11
		{cond: bpf.JumpEqual, val: unix.IPPROTO_UDP, yes: next, no: drop},                     // 12
		{load: at(54, 2), cond: bpf.JumpEqual, val: uint32(port), yes: keep, no: next},        // 13
		{load: at(56, 2), cond: bpf.JumpEqual, val: uint32(port), yes: keep, no: drop},        // 14
		{load: at(54, 1), cond: bpf.JumpLessThan, val: 128, yes: keep, no: drop},              // 15: errors are below 128
	}
	return bpf.Assemble(assemble(tests, uint32(snaplen)))
}

// assemble lays the tests out one after the other, followed by "keep" and
// "drop", and turns their outcomes into forward jumps.
func assemble(tests []test, snaplen uint32) []bpf.Instruction {
	place := make([]int, len(tests)+1) // of each test's first instruction
	for i, t := range tests {
		place[i+1] = place[i] + len(t.load) + 1
	}
	end := place[len(tests)]
	var out []bpf.Instruction
	for i, t := range tests {
		out = append(out, t.load...)
		jump := func(to int) uint8 {
			target := place[i+1]
			switch {
			case to == keep:
				target = end
			case to == drop:
				target = end + 1
			case to >= 0:
				target = place[to]
			}
			return uint8(target - len(out) - 1)
		}
		out = append(out, bpf.JumpIf{Cond: t.cond, Val: t.val, SkipTrue: jump(t.yes), SkipFalse: jump(t.no)})
	}
	return append(out, bpf.RetConstant{Val: snaplen}, bpf.RetConstant{Val: 0})
}
