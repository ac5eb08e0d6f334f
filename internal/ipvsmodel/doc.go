// Package ipvsmodel says what IPVS will do with a packet. It is a pure model of
// the kernel's rules (net/netfilter/ipvs of Linux 6.1 and 6.12): the same
// events give the same decisions, without a kernel and without a clock. All 14
// schedulers are here with their flags, and so is the state that decides before
// any scheduler is asked: entries with their timers, removed destinations that
// wait in the trash, persistence templates, thresholds.
//
// What it does not hold is said in docs/model.md: races between CPUs, IPv6,
// ICMP, FTP, conntrack, the sync daemon, the defence modes.
package ipvsmodel
