// Package population says what a service does for a network that no lab can
// hold: millions of clients, many of them behind one address. It answers from
// three sources and keeps them apart: the kernel's hash over every address where
// a hash decides, closed forms of Poisson flows, and a sample of the population
// that asks internal/ipvsmodel. It is pure, and the same seed gives the same
// answer.
package population
