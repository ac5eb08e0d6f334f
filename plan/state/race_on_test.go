//go:build race

package state

// raced: the race detector makes everything ten times slower, and then crashes are
// only tried at the calls of the provider. make test runs them all without it.
const raced = true
