// Package ipvs is the one place that talks to the kernel's IPVS.
//
// Writes that github.com/moby/ipvs does right go through it; what it lacks or
// gets wrong (see the list at [Handle]) is done by a small generic netlink
// client of our own, and the connection table and the live totals come from
// procfs. Every write is read back and compared, because IPVS and its libraries
// accept several things that they then do not do.
//
// The types are those of package proto: what an agent is asked for is what this
// package carries out, and nothing is translated twice.
package ipvs
