// Package lang turns HCL files into a [Topology]: parsing, evaluation in four
// phases, validation. It is pure: it reads no host, no state and no clock.
package lang
