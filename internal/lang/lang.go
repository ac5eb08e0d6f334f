// Package lang turns HCL files into a [Topology]: parsing, evaluation in four
// phases, validation. It is pure: apart from [ReadSource], which reads the
// files that the caller names, it reads no host, no state and no clock.
//
// The way through it is
//
//	ReadSource → Parse → Config.Skeleton → topo.Assign → Config.Resolve → Config.Conclude
//
// Each step returns diagnostics; a step that found an error goes on through
// the rest of the file in a lenient way, so that the user sees all errors of a
// file at once and not one a day.
//
// The phases are those of the language: 1 names and numbers of things (count,
// for_each, the ends of tunnels), 2 networks and explicit addresses, 3 all
// other arguments, 4 checks and outputs after the runs. See [phase].
package lang

// phase says when an argument is evaluated, and so what it may refer to.
type phase int

const (
	phaseNames     phase = 1 // variables, locals, count, for_each, ends of tunnels
	phaseAddresses phase = 2 // cidr, NICs, vips; then addresses are assigned
	phaseArguments phase = 3 // all the rest
	phaseResults   phase = 4 // check and output, after the runs
)
